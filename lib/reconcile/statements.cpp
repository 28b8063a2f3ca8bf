#include "reconcile/statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "reconcile/phrases.hpp"
#include "reconcile/walk.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile {
namespace {

// Writes "$n" for the parameters of one statement in their order.
class Numbering {
 public:
  explicit Numbering(std::size_t used) : used_(used) {}
  std::string next() { return fmt::format("${}", ++used_); }

 private:
  std::size_t used_;
};

// "execution_id, attempt_index", each behind `prefix`.
std::string key_list(const Reconciler& reconciler, std::string_view prefix = {}) {
  std::string list;
  for (const KeyColumn& column : reconciler.key)
    list += fmt::format("{}{}{}", list.empty() ? "" : ", ", prefix, column.name);
  return list;
}

/// The arrays of the rows' keys, partition_key first.
std::string key_arrays(const Reconciler& reconciler, Numbering number) {
  std::string arrays = number.next();
  for (std::size_t i = 0; i < reconciler.key.size(); ++i) arrays += ", " + number.next();
  return arrays;
}

// Where {in_partitions:row} stands, until the partitions are known. No text of ours has control characters.
constexpr char kRow = '\x01';
constexpr char kEnd = '\x02';

Fragment in_partitions_later() {
  return {"in_partitions(row)", fmt::format("{}{{row}}{}", kRow, kEnd)};
}

// More than four acts in a transaction gain nothing.
constexpr std::ptrdiff_t kGroupsTogether = 4;
constexpr std::ptrdiff_t kRelationsTogether = 16;

/// The parameters that every statement begins with. Returns how many they are.
std::size_t add_parameters(const Reconciler& reconciler, Fragments& fragments) {
  Numbering number(0);
  for (const char* name : {"partitions", "namespace", "tag_key", "tag_value"})
    fragments.add({name, number.next()});
  std::size_t count = 4;
  if (const auto& walk = reconciler.walk) {
    const std::string place = fmt::format("({{row}}.partition_key, {{row}}.{})", walk->key);
    const auto bound = [&] {
      const std::string partition = number.next();
      return fmt::format("({}, {})", partition, number.next());
    };
    const std::string after = bound();
    fragments.add(Fragment{"in_slice(row)", fmt::format("{0} > {1} AND {0} <= {2}", place, after, bound())});
    count += 4;
  }
  for (const std::string_view name : reconciler.own_parameters) fragments.add({name, number.next()});
  if (reconciler.parameters(default_settings(reconciler), {}).size() != reconciler.own_parameters.size())
    throw std::invalid_argument("parameters() returns more or less than own_parameters names");
  return count + reconciler.own_parameters.size();
}

// The database's clock, read once per statement; holdoff says how long after due_at_ms a row may be taken.
constexpr std::string_view kClock = R"sql(clock AS MATERIALIZED (
  SELECT now_ms, now_ms - {holdoff} AS due_ms
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) reading
))sql";

// The condition is true of every key, but lets the planner expect one only, whatever the length of the arrays: then
// it looks each row up by its key. Of hundreds it believes that each lookup would visit all children, and that
// reading a whole index and comparing its rows with all keys costs less.
constexpr std::string_view kKey = R"sql(key AS MATERIALIZED (
  SELECT * FROM unnest({key_arrays}) AS key(partition_key, {keys})
   WHERE (partition_key + 0, partition_key - 0) = (partition_key, partition_key)
))sql";

// One row at least, so that the clock is read even where nothing is found.
constexpr std::string_view kPage = R"sql(
WITH {clock}
SELECT found.partition_key, {keys}, found.due_at_ms, found.due_at_ms <= clock.due_ms AS is_due, clock.now_ms{and_whose}
  FROM clock
  LEFT JOIN (
    SELECT due.*
      FROM clock, unnest({partitions}) AS wanted(partition_key)
     CROSS JOIN LATERAL (
       SELECT candidate.*
         FROM ({scan}
         ) candidate
        WHERE candidate.partition_key = wanted.partition_key
          AND candidate.due_at_ms <= clock.due_ms + {ahead}
          AND candidate.due_at_ms >= {from}{behind}
        ORDER BY candidate.due_at_ms{then_by}
        LIMIT {limit}
     ) due
  ) found ON true)sql";

constexpr std::string_view kOfExecution = R"sql(
WITH {clock}
SELECT candidate.partition_key, {candidate_keys}, candidate.due_at_ms,
       candidate.due_at_ms <= clock.due_ms AS is_due, clock.now_ms
  FROM clock, ({scan}
  ) candidate
 WHERE candidate.{execution_column} = {execution}
 ORDER BY candidate.due_at_ms, {candidate_keys})sql";

constexpr std::string_view kStillDue = R"sql(
WITH {clock},
{key}
SELECT partition_key, {keys}, {its_execution} AS its_execution
  FROM clock, key
  JOIN ({scan}
  ) candidate USING (partition_key, {keys})
 WHERE candidate.due_at_ms + 0 <= clock.due_ms)sql";

constexpr std::string_view kLock = R"sql(
WITH {clock},
{key},
{lock}
SELECT partition_key, {keys} FROM locked)sql";

constexpr std::string_view kWait = R"sql(
WITH {clock},
{key}
SELECT FROM clock, key JOIN {schema}.{queue} q USING (partition_key, {keys})
 WHERE {in_partitions:q} FOR NO KEY UPDATE OF q)sql";

constexpr std::string_view kAct = R"sql(
WITH {clock},
{key},
{act}
SELECT partition_key, {keys}, due_at_ms, outcome, clock.now_ms{and_execution}{and_weight} FROM moved, clock{ended_beside})sql";

// Of a row that ended or deleted something, and of each execution that was ended beside the rows, which has no key.
constexpr std::string_view kAndExecution = ", {execution}::text AS execution, false AS is_beside";

constexpr std::string_view kEndedBeside = R"sql(
 UNION ALL
SELECT ending.partition_key, {no_keys}, clock.now_ms, ending.public_state, clock.now_ms, ending.execution_id::text, true
  FROM ending, clock)sql";

constexpr std::string_view kForbidden = R"sql(
WITH {clock},
{key}
SELECT true FROM key WHERE {forbidden} LIMIT 1)sql";

constexpr std::string_view kBacklog = R"sql(
WITH {clock}
SELECT count(*) AS due, min(due_at_ms) AS oldest_due_ms, (SELECT now_ms FROM clock) AS now_ms
  FROM (
    SELECT candidate.due_at_ms
      FROM clock, unnest({partitions}) AS wanted(partition_key)
     CROSS JOIN LATERAL (
       SELECT candidate.due_at_ms
         FROM ({scan}
         ) candidate
        WHERE candidate.partition_key = wanted.partition_key
          AND candidate.due_at_ms <= clock.due_ms
     ) candidate
     LIMIT {cap}
  ) due)sql";

constexpr std::string_view kSliceEnd = R"sql(
SELECT partition_key, {walk_key}, count(*) OVER () AS rows
  FROM (
    SELECT w.partition_key, w.{walk_key}
      FROM {schema}.{walk_table} w
     WHERE {in_partitions:w} AND w.partition_key = ANY({partitions}) AND (w.partition_key, w.{walk_key}) > ($2, $3)
     ORDER BY w.partition_key, w.{walk_key}
     LIMIT $4
  ) slice
 ORDER BY partition_key DESC, {walk_key} DESC
 LIMIT 1)sql";

// So many partitions, in their order, as have so many rows in those phases together.
constexpr std::string_view kPartitionsEnd = R"sql(
WITH RECURSIVE {lanes},
place AS MATERIALIZED (SELECT l.*, row_number() OVER (ORDER BY l.partition_key) AS n FROM lanes l),
reached AS (
  SELECT 0::bigint AS n, (-1)::smallint AS partition_key, 0::bigint AS rows
   UNION ALL
  SELECT p.n, p.partition_key,
         r.rows + (SELECT count(*)
                     FROM {schema}.ff_exec_core w
                    WHERE {in_partitions:w} AND w.partition_key = p.partition_key
                      AND w.lane_id = ANY (p.lane_ids) AND w.lifecycle_phase IN ({phases}))
    FROM reached r
    JOIN place p ON p.n = r.n + 1
   WHERE r.rows < $2
)
SELECT partition_key, rows FROM reached ORDER BY n DESC LIMIT 1)sql";

constexpr std::string_view kLowest = "(-9223372036854775807 - 1)";

/// The column of the key along which a pair is read (see Statements::page); empty: it is not.
std::string along(const Reconciler& reconciler) {
  const auto found = std::ranges::find(reconciler.fragments, "along", &Fragment::signature);
  return found == reconciler.fragments.end() ? "" : found->text;
}

/// What a pair that is read along a column knows of the page: which rows are in it, how many it has, where it begins.
std::vector<Fragment> page_along(const Reconciler& reconciler, const std::string& rows,
                                 const std::string& reach = "true",
                                 const std::string& from = std::string(kLowest)) {
  if (along(reconciler).empty()) return {};
  return {{"in_page(row)", reach}, {"page_rows", rows + "::bigint"}, {"page_from", from}};
}

/// The same of the statement `rest`, whose position has this parameter for the column: null where it is behind all rows
/// before its moment, and none of the moment itself.
std::vector<Fragment> rest_along(const Reconciler& reconciler, const std::string& limit,
                                 const std::string& from, const std::string& at) {
  return page_along(reconciler, limit,
                    fmt::format("{{row}}.{} >= coalesce({}::bigint, {})", along(reconciler), at, kLowest),
                    fmt::format("({}::bigint + ({} IS NULL)::integer)", from, at));
}

// Whose a row is, which only some pages ask.
const std::vector<Fragment> kWhose{
    {"whose(core, holder)",
     R"sql(, {core}.raw_fields->>'namespace' AS name_space, ({holder})::text AS holder)sql"},
    {"and_whose", ", found.name_space, found.holder"}};
const std::vector<Fragment> kNotWhose{{"whose(core, holder)", ""}, {"and_whose", ""}};

/// The same of the statement `still_due`, which looks no further than its keys; and their execution.
std::vector<Fragment> still_along(const Reconciler& reconciler) {
  const std::string execution = reconciler.execution_column.empty()
                                    ? "NULL::uuid"
                                    : fmt::format("candidate.{}", reconciler.execution_column);
  return with(page_along(reconciler, "NULL",
                         fmt::format("{{row}}.{0} <= (SELECT max({0}) FROM key)", along(reconciler))),
              {{"its_execution", execution}});
}

/// page, rest, page_whose and rest_whose; `number` as after the holdoff, `make` as in Statements().
template <typename Make>
std::array<Statement, 4> pages_of(const Reconciler& reconciler, Numbering number,
                                  const std::string& candidate_keys, const Make& make) {
  const std::string limit = number.next();
  const std::string ahead = number.next();
  const std::string from = number.next();
  std::string position = from;
  std::string along_at;
  for (const KeyColumn& column : reconciler.key) {
    const std::string at = number.next();
    position += fmt::format(", {}::{}", at, column.type);
    if (column.name == along(reconciler)) along_at = at;
  }
  const auto page_of = [&](const std::string& behind, const std::string& then_by,
                           const std::vector<Fragment>& column, bool whose) {
    return make(
        "scan", kPage,
        with(column,
             {{"limit", limit}, {"ahead", ahead}, {"from", from}, {"behind", behind}, {"then_by", then_by}}),
        whose);
  };
  const std::string behind_it =
      fmt::format("\n          AND (candidate.due_at_ms, {}) > ({})", candidate_keys, position);
  const auto of_page = page_along(reconciler, limit, "true", from + "::bigint");
  const auto of_rest = rest_along(reconciler, limit, from, along_at);
  std::array<Statement, 4> pages{page_of("", "", of_page, false),
                                 page_of(behind_it, ", " + candidate_keys, of_rest, false)};
  if (!gives_back(reconciler)) return pages;
  pages[2] = page_of("", "", of_page, true);
  pages[3] = page_of(behind_it, ", " + candidate_keys, of_rest, true);
  return pages;
}

/// What `act` returns of who was ended or deleted.
std::vector<Fragment> told_of(const Reconciler& reconciler) {
  if (!ends_or_deletes(reconciler)) return {{"and_execution", ""}, {"ended_beside", ""}};
  std::string no_keys;
  for (const KeyColumn& column : reconciler.key)
    no_keys += fmt::format("{}NULL::{}", no_keys.empty() ? "" : ", ", column.type);
  const bool has_execution = !reconciler.execution_column.empty() &&
                             std::ranges::any_of(reconciler.outcomes, [](const Outcome& outcome) {
                               return ends_or_deletes(outcome.effect);
                             });
  return {{"and_execution", std::string(kAndExecution)},
          {"execution", has_execution ? std::string(reconciler.execution_column) : "NULL"},
          {"ended_beside", reconciler.ends_others.empty() ? "" : std::string(kEndedBeside)},
          {"no_keys", no_keys}};
}

}  // namespace

std::string Statement::over(const Partitions& partitions) const {
  std::string text;
  for (std::size_t from = 0; from < text_.size();) {
    const auto begin = std::min(text_.find(kRow, from), text_.size());
    text.append(text_, from, begin - from);
    if (begin == text_.size()) break;
    const auto end = text_.find(kEnd, begin);
    const std::string row = text_.substr(begin + 1, end - begin - 1);
    text += in_partitions(row, partitions);
    from = end + 1;
  }
  return text;
}

std::size_t Statement::groups_together() const {
  const auto relations = std::max<std::ptrdiff_t>(1, std::ranges::count(text_, kRow));
  return static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(kRelationsTogether / relations, 1, kGroupsTogether));
}

Statement worded(std::string_view text, const std::vector<Fragment>& own) {
  Fragments all = phrases();
  all.add(in_partitions_later()).add(Fragment{"partitions", "$1"}).add(own);
  return Statement(all.expand(text));
}

Statement statement_on_leases(std::string_view verb, std::string_view text) {
  Fragments common = phrases();
  common.add(in_partitions_later());
  Numbering number(0);
  for (const char* name : {"partitions", "namespace", "tag_key", "tag_value", "holdoff", "after"})
    common.add({name, number.next()});
  common.add({"clock", std::string(kClock)});
  return Statement(fmt::format("/* ff-reconcilerd storm {} */", verb) + common.expand(text));
}

Statements::Statements(const Reconciler& reconciler) try {
  Fragments common = phrases();
  common.add(in_partitions_later()).add(reconciler.fragments);
  Numbering number(add_parameters(reconciler, common));
  const std::string keys = key_list(reconciler);
  const std::string candidate_keys = key_list(reconciler, "candidate.");
  common.add({{"holdoff", number.next()},
              {"clock", std::string(kClock)},
              {"key", std::string(kKey)},
              {"key_arrays", key_arrays(reconciler, number)},
              {"keys", keys},
              {"candidate_keys", candidate_keys},
              {"and_weight", reconciler.weighs ? ", (SELECT rows FROM weight) AS weight" : ""},
              {"scan", std::string(reconciler.scan)},
              {"act", std::string(reconciler.act)}});
  const auto make = [&](std::string_view verb, std::string_view text, const std::vector<Fragment>& own = {},
                        bool whose = false) {
    return Statement(fmt::format("/* ff-reconcilerd {} {} */", reconciler.name, verb) +
                     Fragments(common).add(own).add(whose ? kWhose : kNotWhose).expand(text));
  };

  auto pages = pages_of(reconciler, number, candidate_keys, make);
  page = std::move(pages[0]);
  rest = std::move(pages[1]);
  page_whose = std::move(pages[2]);
  rest_whose = std::move(pages[3]);

  const std::string one = Numbering(number).next();
  if (!reconciler.execution_column.empty())
    of_execution =
        make("scan", kOfExecution,
             with(page_along(reconciler, "NULL"),
                  {{"execution_column", std::string(reconciler.execution_column)}, {"execution", one}}));
  still_due = make("check", kStillDue, still_along(reconciler));
  if (!reconciler.lock.empty()) lock = make("lock", kLock, {{"lock", std::string(reconciler.lock)}});
  if (!reconciler.queues_in.empty())
    wait = make("wait", kWait, {{"queue", std::string(reconciler.queues_in)}});
  act = make("act", kAct, told_of(reconciler));
  if (!reconciler.forbidden.empty())
    forbidden = make("check", kForbidden, {{"forbidden", std::string(reconciler.forbidden)}});
  backlog = make("count", kBacklog, with(page_along(reconciler, one), {{"cap", one}}));
  if (const auto& walk = reconciler.walk)
    slice_end = make("scan", walk->phases.empty() ? kSliceEnd : kPartitionsEnd,
                     {{"walk_table", std::string(walk->table)},
                      {"walk_key", std::string(walk->key)},
                      {"phases", std::string(walk->phases)}});
} catch (const std::invalid_argument& error) {
  throw std::invalid_argument(std::string(reconciler.name) + ": " + error.what());
}

}  // namespace ff::reconcile
