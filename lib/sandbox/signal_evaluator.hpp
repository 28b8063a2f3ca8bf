#pragma once

#include "sandbox/workload.hpp"

namespace ff::sandbox {

/// The part of FlowFabric that evaluates signals, reduced to one: a suspended execution that has received the
/// signal of its time-out goes back to the queue as `resumable`. Used by the thread that made it.
class SignalEvaluator {
 public:
  SignalEvaluator(Workload& workload, pg::Connection& connection)
      : workload_(workload), connection_(connection) {}

  /// Until the workload finishes and nothing is left that it may have to resume, or that takes too long.
  void live();

 private:
  void resume();
  bool is_waited_for();

  Workload& workload_;
  pg::Connection& connection_;
};

}  // namespace ff::sandbox
