#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "demo/simulation/worker.hpp"

namespace ff::simulation {

/// What a worker does with an execution, where that is not left to chance.
struct Plan {
  enum class Kind {
    crash,              ///< whoever works on it
    hang,               ///< never ends: its deadline has to end it
    fall_silent,        ///< crashes, whoever works on it, under a lease that holds for `length` still
    complete,           ///< works for `length` and completes
    delay,              ///< works a little, then delays itself by `length`
    suspend,            ///< works a little, then suspends itself
    answered_suspend,   ///< the same, and a signal comes after `length`
    wait_for_children,  ///< works for `length`, then waits for those that it depends on
    forget_waitpoint,   ///< makes a waitpoint, never uses it, and completes after `length`
    taken_over          ///< crashes, and somebody with a reclaim grant takes over before the daemon does
  };
  Kind kind = Kind::complete;
  Milliseconds length{0};
  Suspension suspension{};
};

/// The plans of executions that have one. Safe from any thread.
class Plans {
 public:
  /// Notes the plans that `make` returns for executions that it makes. Nobody gets an answer meanwhile, so
  /// that no worker can meet one of them before its plan is known.
  void note(const std::function<std::map<Uuid, Plan>()>& make);

  /// The plan for whoever has just claimed the execution. It is carried out once; plans to crash, to hang or to fall
  /// silent hold for whoever comes after as well.
  std::optional<Plan> take(const Uuid& execution);

 private:
  std::mutex mutex_;
  std::map<Uuid, Plan> plans_;
};

}  // namespace ff::simulation
