#pragma once

#include "demo/simulation/workload.hpp"

namespace ff::simulation {

/// Whoever the suspended executions wait for: delivers to each that is to be answered its signal, when the time has
/// come. Used by the thread that made it.
class SignalSender {
 public:
  SignalSender(Workload& workload, pg::Connection& connection)
      : workload_(workload), connection_(connection) {}

  /// Until the workload finishes: whoever still waits then runs into its time-out.
  void live();

 private:
  void answer(const ExecutionId& execution);

  Workload& workload_;
  pg::Connection& connection_;
};

}  // namespace ff::simulation
