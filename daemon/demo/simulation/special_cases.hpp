#pragma once

#include "demo/simulation/workload.hpp"

namespace ff::simulation {

/// Makes executions with a plan, one after the other, so that every kind of delay, deadline and suspension
/// comes round within a few seconds. Used by the thread that made it.
class SpecialCases {
 public:
  SpecialCases(Workload& workload, pg::Connection& connection)
      : workload_(workload), connection_(connection) {}

  /// Until the workload finishes.
  void live();

 private:
  void make(const Plan& plan, PartitionKey partition);

  Workload& workload_;
  pg::Connection& connection_;
};

}  // namespace ff::simulation
