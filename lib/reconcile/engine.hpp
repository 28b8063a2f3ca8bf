#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pg/pool.hpp"
#include "reconcile/crew.hpp"
#include "reconcile/fair_queue.hpp"
#include "reconcile/report.hpp"
#include "reconcile/scan_cursor.hpp"
#include "reconcile/scope.hpp"
#include "reconcile/seen.hpp"
#include "reconcile/upcoming.hpp"

namespace ff::reconcile {

/// How much is due, as far as it was counted.
struct Backlog {
  std::int64_t due = 0;
  bool capped = false;  ///< there may be more than `due`
  std::optional<UnixMillis> oldest_due;
  std::optional<UnixMillis> next_due;  ///< within a day, where a partition's oldest rows show it
  std::optional<UnixMillis>
      known_until;  ///< nothing falls due before but next_due; nothing: not all was read
  UnixMillis database_time{};
};

/// Runs one reconciler's pair of statements, and behind it those of its companions. A tick scans all partitions, which
/// shows what little is due and what comes next; works that off in batches, and where a partition has much, page by page,
/// with as many workers as there are threads for. Each batch is one transaction.
///
/// Not thread-safe: one tick at a time. The pool, the reconciler and the fork-join must outlive it.
class Engine {
 public:
  Engine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock = Clock::system(),
         ForkJoin& fork_join = ForkJoin::none());

  const Reconciler& reconciler() const { return job_->reconciler; }
  const Scope& scope() const { return job_->scope; }
  /// For the ticks to come. Quarantine is kept, and what an operator has released (see Hold) unless settings or filter
  /// are others.
  void set_scope(Scope scope);
  void forget_hold() { hold_.reset(); }

  /// One pass over everything that is due, or with TickOptions::scan off over what was seen coming. Never
  /// throws pg::Error: see TickReport::failure.
  TickReport tick(const TickOptions& options = {});

  /// The same for the rows of a single execution, due or not: what is not due is reported as no_longer_due.
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options = {});

  /// Counts what is due, up to `cap`. Throws pg::Error.
  Backlog backlog(std::int64_t cap);

 private:
  TickReport tick_alone(const TickOptions& options);
  TickReport tick_one_alone(const ExecutionId& execution, const TickOptions& options);
  Backlog backlog_alone(std::int64_t cap);
  void begin_tick(const TickOptions& options);
  void end_tick(TickReport& report);
  TickReport with_worker(const std::function<void(Worker&)>& work);
  void scan_and_work_off(Worker& worker);
  std::vector<Candidate> scan(Worker& worker, const std::vector<GroupSlice>& slices, Milliseconds ahead);
  void keep_coming(Seen& seen, std::vector<Candidate> known, UnixMillis scanned_up_to);
  void work_off_pages(Worker& worker, const std::vector<Candidate>& oldest,
                      const std::vector<GroupSlice>& slices);
  bool work_off(Worker& worker, std::vector<Candidate> rows);
  std::vector<Candidate> to_be_tried(Worker& worker, std::vector<Candidate> rows);
  bool ask_first(Worker& worker);
  bool is_time_to_ask_again() const;
  void leave_restless(TickReport& report, std::vector<Candidate>& rows);
  std::optional<UnixMillis> all_known_until(const TickReport& its) const;
  void tick_companion(Engine& companion, const TickOptions& options, TickReport& report);
  void tick_shortcut(Engine& shortcut, const TickOptions& options, TickReport& report);
  Engine& pair_of(const Engine& shortcut);
  TickReport work_off_upcoming();
  void find_partitions(pg::Connection& connection);
  void count_due(pg::Connection& connection, const std::vector<GroupSlice>& slices, std::int64_t cap,
                 Backlog& backlog);
  Backlog due_in_reach(pg::Connection& connection, bool in_slices, std::int64_t cap);
  Backlog due_of_all(pg::Connection& connection, const Engine& acting, std::int64_t most);
  bool may_act(Worker& worker, bool any_due);
  bool lets_act(Engine& acting, Worker& worker, bool any_due);
  void keep_to_allowance(Worker& worker, std::vector<Candidate>& rows);
  bool storm_lets_act(Worker& worker, std::int64_t lapsed, UnixMillis database_now);
  std::int64_t keep_to_rate(Worker& worker, std::vector<Candidate>& rows);
  void leave_held(Worker& worker, std::vector<Candidate>& rows) const;
  void begin_storm();
  void end_storm(const TickReport& report);
  Asker asker() const { return {std::string(job_->reconciler.name), pair_}; }
  void work_off_queue(Worker& worker);
  void work_off_paid(Worker& worker, std::int64_t tokens);
  void read_into_queue(Worker& worker);
  bool allowance_is_spent(Worker& worker);

  std::unique_ptr<Job> job_;  // workers refer to it, wherever the engine is moved
  std::unique_ptr<Crew> crew_;
  pg::Pool& pool_;
  Upcoming upcoming_;
  ScanCursor cursor_;
  std::vector<Engine> companions_;
  int pair_ = 0;              // of a companion its number, from 1 on
  Engine* root_ = nullptr;    // in a tick: whose companion this is, or itself
  std::optional<Hold> hold_;  // of the root, as is the next
  bool holds_back_ = false;   // in this tick
  // What is due while it is more than may be given back, and until when it has been read; nothing: it need not be.
  FairQueue queue_;
  std::optional<UnixMillis> queue_read_until_;
  SteadyTime queue_read_again_at_{};
  SteadyTime queue_read_anew_at_{};
  std::size_t queue_first_group_ = 0;     // of the next reading
  bool paid_ = false;                     // the rows at work have their tokens
  std::optional<UnixMillis> held_after_;  // in this tick
};

}  // namespace ff::reconcile
