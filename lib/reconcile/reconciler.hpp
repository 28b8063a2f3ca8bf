#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fragments.hpp"
#include "base/setting.hpp"
#include "base/time.hpp"
#include "lease/outbox.hpp"
#include "pg/params.hpp"

namespace ff::reconcile {

class Prelude;

/// The reconcilers that run together, with their settings: what one of them leaves to another depends on
/// whether the other is there.
struct Family {
  std::map<std::string, Settings, std::less<>> enabled;
  /// Storm control is on: an attempt that was reclaimed before in this run waits for its turn.
  bool delays_reclaims = false;

  /// The settings of a member, or null when it does not run.
  const Settings* find(std::string_view name) const {
    const auto found = enabled.find(name);
    return found == enabled.end() ? nullptr : &found->second;
  }
};

/// What a role needs of a table to run a reconciler's statements, as GRANT names it: "SELECT, UPDATE". Whoever locks
/// rows needs UPDATE.
struct Privileges {
  std::string_view table;
  std::string_view names;
};

/// An index that leads to rows that are due, and its table.
struct Lead {
  std::string_view table;
  std::string_view index;
};

struct KeyColumn {
  std::string_view name;
  std::string_view type;  ///< "uuid", "integer", "bigint", "bytea" or "text"
};

/// Where the triggers of the two outboxes announce each event.
constexpr std::string_view kLeaseChannel = lease::kChannel;
constexpr std::string_view kCompletionChannel = "ff_completion";

/// The notification that goes with, or not long before, every row that can newly fall due.
struct Announcement {
  std::string_view channel;
  Milliseconds within{0};  ///< how much later the row may be written
};

/// A table through which a pair walks in the order of its primary key, because no index leads to the rows that are
/// due. Where a scan is one of many, it reads the next slice of so many rows; its engine remembers the place, and
/// begins again behind the last row. While a tenth of a slice was due the next one is read at once: so what is overdue stays
/// about a tenth of the table, however large that is.
///
/// Of ff_exec_core the ended rows are the bulk, and the index by lane and phase leads past them, but has no order of its
/// own behind these two: a walk over `phases` goes by whole partitions. It takes as many as have about so many rows in
/// those phases together. What a large one had too many is made up for by scans that read nothing, so that on the average
/// it is no more than so many rows a scan, however they are spread.
struct Walk {
  std::string_view table;
  std::string_view key;  ///< one uuid, beside partition_key
  int rows = 10'000;
  std::string_view phases = {};  ///< "'suspended', 'runnable'"
};

/// What an outcome means: to an operator who asks who ended an execution (see Action), and to the workers (see Storm).
enum class Effect {
  moved,       ///< the row goes on
  left_alone,  ///< it was not moved, for the reason that the outcome names: counted, but not as processed
  given_back,  ///< its execution can be claimed again: of these only so many a second
  ended,       ///< its execution has ended
  deleted,     ///< it is gone, its execution is not, or had ended before
};
constexpr bool ends_or_deletes(Effect effect) {
  return effect == Effect::ended || effect == Effect::deleted;
}

/// What may become of a row, as `act` calls it.
struct Outcome {
  // NOLINTNEXTLINE(google-explicit-constructor): most outcomes are a name only.
  constexpr Outcome(const char* its_name, Effect its_effect = Effect::moved, std::string_view its_reason = {},
                    bool it_goes_on = false)
      : name(its_name), effect(its_effect), reason(its_reason), goes_on(it_goes_on) {}
  std::string_view name;
  Effect effect;
  std::string_view reason;  ///< why, in the past tense, for people; of what ends or deletes
  bool goes_on;             ///< more is left of the row: the tick has to be run again
};

/// A reconciler is a pair of statements and the words that describe them; the Engine runs any such pair.
///
/// Both are written without any limit, order, lock-step or clock of their own, and each is a text to be read from top to
/// bottom: what repeats has a name, and stands there as a placeholder (see Fragments). There are those of phrases(),
/// those that the reconciler declares in `fragments`, and these:
///
///   {schema}             where FlowFabric's tables are, before each of them: {schema}.ff_attempt
///   {in_partitions:a}    "the row a is in the partitions that are asked for": of every table with hash children that is
///                        read, which is also joined by partition_key with the row it belongs to (see Statements)
///   {partitions}         their keys, a smallint[]
///   {namespace}, {tag_key}, {tag_value}  text, null where not asked for (see `{filter:c}`)
///   {its_setting}        the names in `own_parameters`, with the values that parameters() returns
///   {whose:c, holder}    ends the columns of `scan` where rows are given back: the namespace of the core c, and the
///                        worker instance that had the lease, which is NULL where there is none (see Statements::page_whose)
///   {in_slice:w}         for a pair that walks: "the row w of its table lies in the slice that is scanned"
///
/// A name that nobody has declared is refused when the registry is made.
///
/// `scan` is a SELECT of every row that will ever fall due: partition_key, the key columns, due_at_ms.
/// Conditions of time are not in it; the engine adds them, and so learns from the same statement what is due
/// and what falls due next.
///
/// `act` is a list of common table expressions, the last of them named `moved` with partition_key, the key
/// columns, due_at_ms and outcome. It starts from `key` (partition_key and the key columns of the rows to
/// take) and `clock` (now_ms; due_ms: rows with due_at_ms <= due_ms are due), locks with SKIP LOCKED, and
/// repeats each condition of `scan` and that of time under the lock; the latter as `due_at_ms + 0`, so that rows
/// are looked up by `key` and not in the index by time, where a backlog stands in one long row. Its relations
/// are not joined with one another: the planner is made to expect a single row in each (see Statements), and
/// would compare every row with every other. What a later one needs is carried along; what is held and what is
/// not is told apart by EXCEPT and NOT IN, which hash as long as little is expected; a bare IN becomes a join, `(… IN …) IS
/// TRUE` does not.
///
/// Where another index leads to some of the rows, or none does, a reconciler has companions: further pairs under
/// its name, which the engine runs behind the first. One of them may be a shortcut: what is announced leads it to some
/// of the rows that another one finds by and by, walking.
struct Reconciler {
  std::string_view name;
  std::string_view summary;  ///< one sentence for operators
  /// What `explain` says of an execution that has none of its rows. Empty: nothing in particular.
  std::string_view no_rows = {};
  std::vector<Outcome> outcomes;  ///< of this pair: see also all_outcomes()
  /// A row stands for many: the last relation but `moved` is `weight`, whose only row says in `rows` how many of all tables
  /// went. Of these there are no more a second than the setting kMaxRowsPerSecond says.
  bool weighs = false;
  /// Why `act` ends executions that are not those of its rows: all in its relation `ending` (see family/ending.hpp).
  /// Empty: it ends none.
  std::string_view ends_others = {};
  std::vector<KeyColumn> key;  ///< beside partition_key
  /// The column of `scan` that holds an execution, by which rows can be named one by one. Empty: there is
  /// none. `moved` has it, too, where an outcome ends or deletes.
  std::string_view execution_column = {};
  /// A query for the number of partitions, where the rows have a partition space of their own. Empty: they
  /// are in the configured partitions.
  std::string_view partition_count = {};

  std::string_view scan;
  std::string_view act;
  /// A condition on the rows of `key` under which they must not be moved, where others bring it about without a change
  /// to any row that `act` locks: they may do so behind the back of `act`, which sees the database as it was before its
  /// locks. So it is asked once more under them, for all that was moved; where it holds for any row, the
  /// transaction is rolled back and `act` tried again.
  std::string_view forbidden = {};
  /// Its rows are left to whom they are promised (see {promised:row}), for as long as that holds.
  bool leaves_promised = false;
  /// Where `act` has to see what others had committed before its locks ("the count is n", "there is none"): common table
  /// expressions that run before it in the same transaction, the last of them named `locked` with partition_key and the key
  /// columns. They begin with `key` and `clock` as `act` does, and lock with SKIP LOCKED whatever all must hold who change
  /// the answer. `act` is given the keys in `locked` alone, whose rows nobody changes any more; the others count as
  /// locked, or as no longer due.
  std::string_view lock = {};
  /// The table of its key, where workers hold a row in turns, one always waiting for the one before (a budget from which many
  /// spend): SKIP LOCKED would never find it free. A row that was held is then waited for, before any other row is
  /// locked, so that nobody can be waiting for a row of ours, and for some seconds at most. Empty: what is held is left for the
  /// next tick.
  std::string_view queues_in = {};
  /// What these statements say more than once.
  std::vector<Fragment> fragments = {};
  /// All that these statements need, and those of the companions; a table may stand there more than once.
  std::vector<Privileges> privileges = {};
  /// The indexes by which it, or a companion, finds what is due, where there are such: `check-db` says which of them the server
  /// does not use.
  std::vector<Lead> leads = {};

  bool on_by_default = true;
  Milliseconds interval;  ///< how often a scan is worth it, unless configured otherwise
  int batch_size = 1000;
  /// No transaction takes more rows than this, whatever the batch size. 0: it may.
  int most_a_batch = 0;
  bool filterable = true;
  /// Several of its rows change one and the same other row: batches of a partition that go side by side would hold
  /// each other up.
  bool rows_meet = false;
  /// It takes leases away, which is unfair while workers could not renew them: it pauses during recovery
  /// grace.
  bool takes_leases = false;
  /// due_at_ms tells since when a row is due. False where nothing does, and it is when a scan has seen it ({lately}).
  bool is_dated = true;
  /// A row is taken only once scans at least so far apart have shown it with the very same key: what must stand still
  /// meanwhile is in the key, for instance a digest of it, and `act` repeats it under its locks like any other condition.
  /// Between two scans it may have changed and changed back. 0: a row is taken at once.
  Milliseconds still_for{0};
  std::vector<SettingDecl> settings = {};
  std::optional<Walk> walk = {};
  /// Where no index leads to the rows, but one to all that might be: a scan reads so many groups of partitions (see
  /// Groups), the next one those behind them. 0: all.
  std::size_t groups_a_scan = 0;
  /// No index leads to its rows, and a scan reads all that might be one: where it is one of many, it comes the more seldom the
  /// longer it takes, so that it takes no more than half a percent of the time, but after two minutes of rest at the
  /// latest (see ScanCursor, which decides it for walks and groups as well).
  bool searches = false;
  /// It finds sooner what a pair with the same `act` that walks or searches finds in the end. It is looked at in its own
  /// interval while there are announcements, and not at all where that other one shows everything, and soon enough.
  bool is_shortcut = false;
  /// With these settings it has rows. Where it has none, it is not scanned.
  bool (*wanted)(const Family& family) = [](const Family&) { return true; };
  /// A scan shows its rows before they fall due. Where it does not, nobody can say when the next one will.
  bool foreseen = true;
  /// Who has work from what it moves, and is to look for it at once: names of reconcilers.
  std::vector<std::string_view> wakes = {};
  /// Makes what a pair's engine asks before each scan; its answer has the values of `own_parameters` instead of `parameters`.
  /// Null: there is nothing to ask.
  std::unique_ptr<Prelude> (*prelude)() = nullptr;
  /// Each a copy of this one with a key, statements, outcomes and an interval of its own. Whatever an operator can set
  /// or see is shared: name, settings, filter, batch size, report. A companion is scanned when its interval is
  /// over, however often or seldom the first pair is.
  std::vector<Reconciler> companions = {};

  /// How long after due_at_ms a row may be taken: 0 for "due_at_ms <= now", 1 ms for "due_at_ms < now".
  Milliseconds (*holdoff)(const Settings& own) = [](const Settings&) { return Milliseconds{1}; };
  /// While none comes, scans may be skipped. Nothing: rows come unannounced.
  std::optional<Announcement> (*announced)(const Settings& own) =
      [](const Settings&) -> std::optional<Announcement> { return std::nullopt; };
  /// How the statements call what parameters() returns.
  std::vector<std::string_view> own_parameters = {};
  /// Their values; settings of others decide who takes what two could take.
  pg::Params (*parameters)(const Settings& own, const Family& family) = [](const Settings&, const Family&) {
    return pg::Params{};
  };
};

/// The declared defaults of a reconciler's settings.
Settings default_settings(const Reconciler& reconciler);

/// What a limit is set to; 0: there is none, or the reconciler has none to set.
std::int64_t limit_of(const Settings& own, const SettingDecl& limit);

/// What the pair declares of an outcome; null: nothing.
const Outcome* outcome_of(const Reconciler& pair, std::string_view name);
inline Effect effect_of(const Outcome* outcome) {
  return outcome != nullptr ? outcome->effect : Effect::moved;
}

/// Whether it ends executions or deletes rows, with any of its outcomes.
bool ends_or_deletes(const Reconciler& pair);
/// The same of giving back.
bool gives_back(const Reconciler& pair);

/// The outcomes of a reconciler and its companions, each once.
std::vector<std::string_view> all_outcomes(const Reconciler& reconciler);

}  // namespace ff::reconcile
