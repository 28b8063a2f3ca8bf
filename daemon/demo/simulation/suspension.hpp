#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/connection.hpp"

namespace ff::simulation {

/// Where a signal can be delivered to, by whoever knows the token. (FlowFabric signs it. Here it is drawn, and nothing
/// but its equality is checked.)
struct Waitpoint {
  std::string key{};         ///< may be empty
  std::optional<Uuid> id{};  ///< of one that is pending; nothing: a fresh one
  std::string token{};
};

/// Durations count from the moment of suspension.
struct Suspension {
  std::optional<Milliseconds> timeout_in{};
  std::optional<std::string> timeout_behavior{};  ///< see ff_suspension_current; nothing means `fail`
  /// The first is the one that matters: a signal `kSignal` for it ends the suspension. Without any, only time does.
  std::vector<Waitpoint> waitpoints{};
};

inline constexpr const char* kSignal = "answer";

/// The open waitpoints of an execution with their tokens, by key.
std::vector<Waitpoint> waitpoints_of(pg::Connection& connection, const ExecutionId& execution);

enum class Delivery {
  refused,   ///< there is no such waitpoint, or no suspension
  appended,  ///< kept for whoever observes the signals; it ends nothing
  satisfied  ///< the execution is `resumable`
};
/// Delivers a signal as FlowFabric does it, SERIALIZABLE and in three tries. Whatever phase the execution is in, a
/// signal that satisfies makes it runnable. Throws pg::Error.
Delivery deliver_signal(pg::Connection& connection, const ExecutionId& execution, const Waitpoint& waitpoint,
                        const std::string& name = kSignal);

}  // namespace ff::simulation
