#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "pg/pool.hpp"
#include "reconcile/backlog.hpp"
#include "reconcile/crew.hpp"
#include "reconcile/due_queue.hpp"
#include "reconcile/report.hpp"
#include "reconcile/scan_cursor.hpp"
#include "reconcile/scope.hpp"
#include "reconcile/seen.hpp"
#include "reconcile/upcoming.hpp"

namespace ff::reconcile {

/// How many of the due rows a pair may try; nothing: none. It is asked at most once in a tick, by its thread, when the pair
/// has seen what is due.
using Allowance = std::function<std::optional<std::int64_t>(Worker& worker, bool any_due)>;

/// Runs one pair of statements. A tick scans all partitions, which shows what little is due and what comes next; works that
/// off in batches, and where a partition has much, page by page, with as many workers as there are threads for. Each batch
/// is one transaction.
///
/// Not thread-safe: one tick at a time. The pool, the reconciler and the fork-join must outlive it.
class PairEngine {
 public:
  /// `number`: of a companion, from 1 on; 0: the reconciler's own pair.
  PairEngine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock,
             ForkJoin& fork_join, int number, std::shared_ptr<SharedByPairs> shared);

  const Reconciler& reconciler() const { return job_->reconciler; }
  const Scope& scope() const { return job_->scope; }
  /// With these settings it has rows.
  bool is_wanted() const { return reconciler().wanted(scope().family); }
  /// For the ticks to come. Quarantine is kept. What all pairs share is the engine's to set.
  void set_scope(Scope scope);

  /// See Engine. Never throw pg::Error.
  TickReport tick(const TickOptions& options, const Allowance& allowance);
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options);

  /// Of a report of its own: until when all that falls due was seen. Nothing, where a scan shows a part of what is due, or
  /// its rows not before they are.
  std::optional<UnixMillis> all_known_until(const TickReport& its) const;

  /// Whether a shortcut may find its rows sooner than it does.
  bool may_show_late() const { return cursor_.may_show_late(); }
  /// What a shortcut has seen coming is tried once, by the pair whose search sees it as well, sooner or later.
  void adopt_upcoming_of(PairEngine& shortcut);

  /// The next three throw pg::Error. Counts what is due, up to `cap`.
  Backlog backlog(std::int64_t cap);
  /// The same of what a tick would come to: of a table that is walked through in slices, the slice whose turn it is; without
  /// as many rows as are in quarantine.
  Backlog due_in_reach(pg::Connection& connection, bool in_slices, std::int64_t cap);
  /// Where the database says how many partitions there are: not while a scan is under way.
  void find_partitions(pg::Connection& connection);

 private:
  void begin_tick(const TickOptions& options);
  void end_tick(TickReport& report);
  TickReport with_worker(const std::function<void(Worker&)>& work);
  void scan_and_work_off(Worker& worker, const Allowance& allowance);
  std::vector<Candidate> scan(Worker& worker, std::vector<GroupSlice> slices, Milliseconds ahead);
  void keep_coming(Seen& seen, std::vector<Candidate> known, UnixMillis scanned_up_to);
  void work_off_pages(Worker& worker, const std::vector<Candidate>& oldest,
                      const std::vector<GroupSlice>& slices);
  bool work_off(Worker& worker, std::vector<Candidate> rows);
  std::vector<Candidate> to_be_tried(Worker& worker, std::vector<Candidate> rows);
  bool ask_first(Worker& worker);
  bool is_time_to_ask_again() const;
  void leave_restless(TickReport& report, std::vector<Candidate>& rows);
  TickReport work_off_upcoming(const Allowance& allowance);
  void count_due(pg::Connection& connection, const std::vector<GroupSlice>& slices, std::int64_t cap,
                 Backlog& backlog);
  bool may_act(Worker& worker, const Allowance& allowance, bool any_due);
  void keep_to_allowance(Worker& worker, std::vector<Candidate>& rows);
  bool storm_lets_act(Worker& worker, std::int64_t lapsed, UnixMillis database_now);
  std::int64_t keep_to_rate(Worker& worker, std::vector<Candidate>& rows);
  void leave_held(Worker& worker, std::vector<Candidate>& rows) const;
  void begin_storm();
  void end_storm(const TickReport& report);
  void work_off_queue(Worker& worker, const Allowance& allowance);
  void work_off_paid(Worker& worker, std::int64_t tokens);
  bool allowance_is_spent(Worker& worker);

  Asker asker_;               // who it is to storm control
  std::unique_ptr<Job> job_;  // workers refer to it, wherever the engine is moved
  std::unique_ptr<Crew> crew_;
  pg::Pool& pool_;
  Upcoming upcoming_;
  ScanCursor cursor_;
  DueQueue queue_;
  bool paid_ = false;                     // the rows at work have their tokens
  std::optional<UnixMillis> held_after_;  // in this tick
};

}  // namespace ff::reconcile
