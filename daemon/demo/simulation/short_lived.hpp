#pragma once

#include "demo/simulation/workload.hpp"

namespace ff::simulation {

/// Makes executions whose policy says that they are kept for a second after their end, in a lane of their own, and
/// completes each at once. Used by the thread that made it.
class ShortLived {
 public:
  ShortLived(Workload& workload, pg::Connection& connection) : workload_(workload), connection_(connection) {}

  /// Until the workload finishes.
  void live();

 private:
  Workload& workload_;
  pg::Connection& connection_;
};

/// Where they are, of those whose lane has this name.
std::string lane_of_short_lived(const std::string& name);

}  // namespace ff::simulation
