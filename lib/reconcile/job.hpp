#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "reconcile/batch_size.hpp"
#include "reconcile/groups.hpp"
#include "reconcile/held_rows.hpp"
#include "reconcile/prelude.hpp"
#include "reconcile/quarantine.hpp"
#include "reconcile/rate_limit.hpp"
#include "reconcile/scope.hpp"
#include "reconcile/server_clock.hpp"
#include "reconcile/statements.hpp"
#include "reconcile/still_rows.hpp"
#include "reconcile/suspects.hpp"
#include "reconcile/walk.hpp"

namespace ff::reconcile {

/// What all pairs of a reconciler share. Safe from any thread.
struct SharedByPairs {
  RateLimit rate_limit;
  ServerClock server_clock;
};

/// What all workers of a pair share: the pair they run, over what, and what was learned on the way. Between ticks
/// only its engine changes it; what changes in a tick is safe from any thread.
struct Job {
  Job(const Reconciler& its, Scope wished, const Clock& its_clock,
      std::shared_ptr<SharedByPairs> with_others = std::make_shared<SharedByPairs>())
      : reconciler(its),
        statements(its),
        scope(std::move(wished)),
        groups(scope.partitions),
        clock(its_clock),
        batch_size(most_in_batch()),
        shared(std::move(with_others)),
        prelude(its.prelude != nullptr ? its.prelude() : nullptr) {}

  /// The parameters that every statement begins with.
  pg::Params params(const Partitions& partitions, const Slice& slice = {}) const;
  /// For the rows of one execution, due or not, oldest first. Only where names_executions().
  pg::Call of_execution(const ExecutionId& execution) const;
  bool names_executions() const { return !statements.of_execution.empty(); }
  /// What is of a tick begins anew; at its end the report has who is in quarantine.
  void begin_tick(const TickOptions& its);
  void end_tick(TickReport& report);

  /// Where the database says how many partitions there are: not while a scan is under way. Throws pg::Error.
  void find_partitions(pg::Connection& connection);
  /// Finds out what the pair has to know before it is looked at; true where there is nothing to find out.
  bool ask(pg::Transaction& transaction);
  /// The moment has come that the prelude's last answer named.
  bool is_time_to_ask_again() const;
  void learn_time(const TimeReading& reading) {
    shared->server_clock.learn(reading);
    if (options.told_time) options.told_time(reading);
  }
  /// How long after its due time a row may be taken.
  Milliseconds holdoff() const { return reconciler.holdoff(scope.settings); }

  /// With these settings it has rows.
  bool is_wanted() const { return reconciler.wanted(scope.family); }

  /// Pages tell whose their rows are.
  bool whose() const { return asks_whose && !statements.page_whose.empty(); }
  /// Storm control holds what this pair gives back, or takes, to a measure. Null: nobody does.
  Storm* storm() const { return options.storm; }

  /// For how long a row has to have stood still (see Reconciler::still_for); 0: it need not.
  Milliseconds still_for() const;
  /// From which moment on a row may be taken that is due at this one.
  UnixMillis takeable_at(UnixMillis due_at) const;
  /// Since when a row is late that is due at this moment: later by a grace, an age or what else holds it off.
  UnixMillis late_since(UnixMillis due_at) const;
  /// The same, but where it has to stand still as well, since it has stood.
  UnixMillis late_since(UnixMillis due_at, const RowKey& key) const;

  /// By the prelude's last answer, if there is one.
  bool is_worth_a_scan(const Partitions& partitions) const;

  /// No transaction takes more rows.
  int most_in_batch() const {
    const int most = reconciler.most_a_batch;
    return most > 0 ? std::min(most, scope.batch_size) : scope.batch_size;
  }

  /// It has deleted too many rows too quickly, and has to rest for so long.
  bool has_to_rest() const { return options.rate_limited && shared->rate_limit.is_spent(clock.now()); }
  Milliseconds rest() const {
    return options.rate_limited ? shared->rate_limit.rest(clock.now()) : Milliseconds{0};
  }

  /// Leaves a row that cannot be moved out for a while, and tells why once. Any thread, with a report of its own.
  void put_in_quarantine(const Fault& row, TickReport& report);

  const Reconciler& reconciler;
  const bool gives_back = reconcile::gives_back(reconciler);
  const Statements statements;
  Scope scope;
  Groups groups;
  const Clock& clock;
  Quarantine quarantine;
  HeldRows held_rows;
  StillRows still_rows;
  BatchSize batch_size;
  const std::shared_ptr<SharedByPairs> shared;
  std::unique_ptr<Prelude> prelude;     ///< null where the pair has none
  std::optional<Prelude::Answer> told;  ///< its last answer

  /// A statement over several groups failed, and perhaps for one of them alone: somebody holds a lock, or it takes too long.
  /// Until a scan is complete.
  std::atomic<bool> one_group_each{false};

  /// Which of the rows that are waited for is the first to be.
  std::atomic<std::size_t> queue_turn{0};

  // Of this tick.
  TickOptions options;
  SteadyTime deadline = SteadyTime::max();  ///< no further batch is started after it
  Suspects suspects;
  bool asks_whose = false;
};

}  // namespace ff::reconcile
