#pragma once

#include <boost/uuid/random_generator.hpp>

#include "demo/simulation/workload.hpp"

namespace ff::simulation {

/// Has executions admitted to a quota that nobody gives back, as if more than a minute ago: FlowFabric counts each up,
/// and none down. Used by the thread that made it.
class QuotaUser {
 public:
  QuotaUser(Workload& workload, pg::Connection& connection) : workload_(workload), connection_(connection) {}

  /// Until the workload finishes.
  void live();

 private:
  Workload& workload_;
  pg::Connection& connection_;
  boost::uuids::random_generator new_uuid_;
};

}  // namespace ff::simulation
