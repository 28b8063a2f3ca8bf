#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pg/pool.hpp"
#include "reconcile/backlog.hpp"
#include "reconcile/fork_join.hpp"
#include "reconcile/hold_limit.hpp"
#include "reconcile/report.hpp"
#include "reconcile/scope.hpp"

namespace ff::reconcile {

class PairEngine;

/// Runs one reconciler: its pair of statements, and behind it those of its companions, each one after the other. What
/// concerns them all together is decided here: whose turn it is, what a shortcut shows sooner than the pair behind it, and
/// what the report says of the whole.
///
/// Not thread-safe: one tick at a time. The pool, the reconciler and the fork-join must outlive it.
class Engine {
 public:
  Engine(const Reconciler& reconciler, const Scope& scope, pg::Pool& pool,
         const Clock& clock = Clock::system(), ForkJoin& fork_join = ForkJoin::none());
  Engine(Engine&&) noexcept;
  ~Engine();

  const Reconciler& reconciler() const;
  const Scope& scope() const;
  /// For the ticks to come. Quarantine is kept, and what an operator has released (see Hold) unless settings or filter
  /// are others.
  void set_scope(const Scope& scope);
  void forget_hold() { hold_limit_->forget(); }

  /// One pass over everything that is due, or with TickOptions::scan off over what was seen coming. Never
  /// throws pg::Error: see TickReport::failure.
  TickReport tick(const TickOptions& options = {});

  /// The same for the rows of a single execution, due or not: where none of them is, they are reported as no_longer_due.
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options = {});

  /// Counts what is due, up to `cap`. Throws pg::Error.
  Backlog backlog(std::int64_t cap);

 private:
  std::shared_ptr<SharedByPairs> shared_ = std::make_shared<SharedByPairs>();
  std::unique_ptr<HoldLimit> hold_limit_ = std::make_unique<HoldLimit>();
  std::vector<std::unique_ptr<PairEngine>> pairs_;  // the reconciler's own, and its companions
};

}  // namespace ff::reconcile
