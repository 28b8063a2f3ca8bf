#include "demo/simulation/register.hpp"

#include <algorithm>

namespace ff::simulation {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kHeartbeat = 300ms;
constexpr Milliseconds kLiveness = 1500ms;

}  // namespace

Registration Register::registration(const WorkloadOptions& workload, const std::string& worker) {
  return {workload.name, worker, workload.name, kLiveness};
}

void Register::live() {
  for (;;) {
    std::vector<std::string> living;
    for (const WorkerState& worker : workload_.workers())
      if (worker.doing == WorkerState::Doing::waiting || worker.doing == WorkerState::Doing::working)
        living.push_back(worker.id);
    std::erase(living, "");  // a worker that has not shown itself yet
    if (workload_.finishing_ && living.empty()) return;
    if (!living.empty()) send_heartbeats(living);
    if (!workload_.pause(kHeartbeat)) return;
  }
}

void Register::send_heartbeats(const std::vector<std::string>& workers) {
  std::int64_t entered = 0;
  for (const std::string& worker : workers) {
    const Registration its = registration(workload_.options_, worker);
    if (!send_heartbeat(connection_, its) && enter(connection_, its)) ++entered;
  }
  workload_.ledger_.registered(entered);
}

}  // namespace ff::simulation
