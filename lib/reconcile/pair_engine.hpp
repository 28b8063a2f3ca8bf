#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "pg/pool.hpp"
#include "reconcile/backlog.hpp"
#include "reconcile/crew.hpp"
#include "reconcile/limits.hpp"
#include "reconcile/report.hpp"
#include "reconcile/scan_cursor.hpp"
#include "reconcile/scope.hpp"
#include "reconcile/upcoming.hpp"

namespace ff::reconcile {

/// Runs one pair of statements. A tick scans all partitions, which shows what little is due and what comes next; works that
/// off in batches, and where a partition has much, page by page, with as many workers as there are threads for. Each batch
/// is one transaction.
///
/// Not thread-safe: one tick at a time. It stays where it is made: its parts refer to each other. The pool, the reconciler,
/// the fork-join and the hold limit must outlive it.
class PairEngine {
 public:
  /// `number`: of a companion, from 1 on; 0: the reconciler's own pair.
  PairEngine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock,
             ForkJoin& fork_join, int number, std::shared_ptr<SharedByPairs> shared, HoldLimit& hold_limit);
  PairEngine(const PairEngine&) = delete;
  PairEngine& operator=(const PairEngine&) = delete;

  const Reconciler& reconciler() const { return job_.reconciler; }
  const Scope& scope() const { return job_.scope; }
  bool is_wanted() const { return job_.is_wanted(); }
  /// For the ticks to come. Quarantine is kept. What all pairs share is the engine's to set.
  void set_scope(Scope scope);

  /// See Engine. Never throw pg::Error.
  TickReport tick(const TickOptions& options);
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options);

  /// Its scans are so seldom, or of so small parts, that a shortcut may find its rows sooner.
  bool may_show_late() const { return cursor_.may_show_late(); }
  /// Takes over what the shortcut has seen coming. This pair's search will see the same rows, and each is to be tried only
  /// once.
  void adopt_upcoming_of(PairEngine& shortcut);
  /// Instead of a tick, of a shortcut that finds nothing sooner than the pair behind it.
  void skip_tick() { limits_.drop_queue(); }

  /// Counts what is due, up to `cap`. Throws pg::Error.
  Backlog backlog(std::int64_t cap);

 private:
  TickReport run(const TickOptions& options, const std::function<TickReport()>& work);
  void scan_and_work_off(Worker& worker);
  void forget_gone(const Seen& seen);
  void work_off_queue(Worker& worker);
  TickReport work_off_upcoming();
  bool work_off(Worker& worker, std::vector<Candidate> rows);

  Job job_;
  Crew crew_;
  Limits limits_;
  Upcoming upcoming_;
  ScanCursor cursor_;
};

}  // namespace ff::reconcile
