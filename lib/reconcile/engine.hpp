#pragma once

#include <functional>
#include <memory>

#include "pg/pool.hpp"
#include "reconcile/lane.hpp"
#include "reconcile/lanes.hpp"
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

/// Runs one reconciler's pair of statements. It probes all partitions at once; acts on what is due in one
/// statement over many partitions where that is little, and page by page within a few partitions where it is
/// much, on as many lanes as there are; splits a batch that fails until the row at fault is alone, and leaves
/// that row out for a while. Each batch is one transaction.
///
/// Not thread-safe: one tick at a time. The pool, the reconciler and the lanes must outlive it.
class Engine {
 public:
  Engine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock = Clock::system(),
         Lanes& lanes = Lanes::none());

  const Reconciler& reconciler() const { return ground_->reconciler; }
  const Scope& scope() const { return ground_->scope; }
  /// For the ticks to come. Quarantine is kept.
  void set_scope(Scope scope) { ground_->scope = std::move(scope); }

  /// One pass over everything that is due. Never throws pg::Error: see TickReport::failure.
  TickReport tick(const TickOptions& options = {});

  /// The same for the rows of a single execution, due or not: what is not due is reported as no_longer_due.
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options = {});

  /// Counts what is due, up to `cap`. Throws pg::Error.
  Backlog backlog(std::int64_t cap);

 private:
  TickReport on_a_lane(const TickOptions& options, const std::function<void(Lane&)>& work);
  void take_all(Lane& lane, const TickOptions& options);
  void share(Lane& lane, const TickOptions& options, const std::vector<Partitions>& groups);
  Partitions partitions(Lane& lane) const;

  std::unique_ptr<Ground> ground_;  // lanes refer to it, wherever the engine is moved
  pg::Pool& pool_;
  Lanes& lanes_;
};

}  // namespace ff::reconcile
