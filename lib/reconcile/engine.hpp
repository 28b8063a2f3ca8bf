#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pg/pool.hpp"
#include "reconcile/agenda.hpp"
#include "reconcile/fork_join.hpp"
#include "reconcile/pass.hpp"
#include "reconcile/report.hpp"
#include "reconcile/scope.hpp"

namespace ff::reconcile {

/// How much is due, as far as it was counted.
struct Backlog {
  std::int64_t due = 0;
  bool capped = false;  ///< there may be more than `due`
  std::optional<UnixMillis> oldest_due;
  std::optional<UnixMillis> next_due;  ///< within a day, where a partition's oldest rows show it
  UnixMillis database_time{};
};

/// Runs one reconciler's pair of statements, and behind it those of its companions. It looks at all partitions at once, and remembers what it sees
/// coming; acts on what is due in one statement over many partitions where that is little, and page by page
/// within a few partitions where it is much, in as many passes side by side as there are threads for; splits
/// a batch that fails until the row at fault is alone, and leaves that row out for a while. Each batch is one
/// transaction.
///
/// Not thread-safe: one tick at a time. The pool, the reconciler and the fork-join must outlive it.
class Engine {
 public:
  Engine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock = Clock::system(),
         ForkJoin& fork_join = ForkJoin::none());

  const Reconciler& reconciler() const { return ground_->reconciler; }
  const Scope& scope() const { return ground_->scope; }
  /// For the ticks to come. Quarantine is kept.
  void set_scope(Scope scope);

  /// One pass over everything that is due, or with TickOptions::look off over what was seen coming. Never
  /// throws pg::Error: see TickReport::failure.
  TickReport tick(const TickOptions& options = {});

  /// The same for the rows of a single execution, due or not: what is not due is reported as no_longer_due.
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options = {});

  /// Counts what is due, up to `cap`. Throws pg::Error.
  Backlog backlog(std::int64_t cap);

 private:
  bool is_shortcut() const { return ground_->reconciler.is_shortcut; }
  TickReport tick_alone(const TickOptions& options);
  TickReport tick_one_alone(const ExecutionId& execution, const TickOptions& options);
  Backlog backlog_alone(std::int64_t cap);
  static void add_companion(TickReport& report, TickReport&& companions);
  Slice slice_behind(Slice::Place place, std::int64_t rows, Pass& pass) const;
  void judge_suspects(TickReport& report, const TickOptions& options);
  TickReport in_a_pass(const TickOptions& options, const std::function<void(Pass&)>& work);
  TickReport in_a_pass(const TickOptions& options, pg::PooledConnection connection,
                       const std::function<void(Pass&)>& work);
  std::optional<pg::PooledConnection> spare_connection();
  void in_company(Pass& pass, const TickOptions& options, std::size_t more,
                  const std::function<void(Pass&)>& work);
  void finish(TickReport& report) const;
  void take_all(Pass& pass, const TickOptions& options);
  std::vector<Candidate> look(Pass& pass, const Partitions& partitions, Milliseconds ahead);
  TickReport take_foreseen(const TickOptions& options);
  void tell_what_comes(TickReport& report) const;
  void share(Pass& pass, const TickOptions& options, const std::vector<Partitions>& groups);
  Partitions partitions(Pass& pass) const;

  std::unique_ptr<Ground> ground_;  // passes refer to it, wherever the engine is moved
  pg::Pool& pool_;
  ForkJoin& fork_join_;
  Agenda agenda_;
  Slice::Place walked_to_ = Slice::before_all();  // where the next slice begins
  std::vector<Engine> companions_;
};

}  // namespace ff::reconcile
