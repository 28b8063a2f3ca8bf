#include "demo/simulation/short_lived.hpp"

#include <stdexcept>

namespace ff::simulation {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 400ms;
constexpr Milliseconds kKeptFor = 1s;
constexpr Milliseconds kLease = 60s;  // longer than any machine stands still

}  // namespace

void ShortLived::live() {
  const WorkloadOptions& options = workload_.options_;
  NewExecution next;
  next.lane = lane_of_short_lived(options.name);
  next.name_space = options.name;
  next.kept_for = kKeptFor;
  Worker worker(connection_, next.lane, kLease, next.lane);
  for (std::size_t turn = 0; !workload_.finishing_; ++turn) {
    next.partition = options.partitions[turn % options.partitions.size()];
    const auto claim = worker.claim_one(create(connection_, next));
    if (!claim || !worker.complete(*claim)) throw std::runtime_error("somebody else took its execution");
    workload_.ledger_.short_lived();
    if (!workload_.pause(kBetween)) return;
  }
}

std::string lane_of_short_lived(const std::string& name) {
  return name + "-short-lived";
}

}  // namespace ff::simulation
