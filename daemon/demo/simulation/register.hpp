#pragma once

#include "demo/simulation/registration.hpp"
#include "demo/simulation/workload.hpp"

namespace ff::simulation {

/// Keeps the workload's workers on the register: each that lives sends a heartbeat, one that has crashed or
/// ended falls silent without a word. Used by the thread that made it.
class Register {
 public:
  Register(Workload& workload, pg::Connection& connection) : workload_(workload), connection_(connection) {}

  /// As what it enters a worker of the workload.
  static Registration registration(const WorkloadOptions& workload, const std::string& worker);

  /// Until the workload finishes and no worker lives.
  void live();

 private:
  void send_heartbeats(const std::vector<std::string>& workers);

  Workload& workload_;
  pg::Connection& connection_;
};

}  // namespace ff::simulation
