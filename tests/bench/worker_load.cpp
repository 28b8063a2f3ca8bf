#include "bench/worker_load.hpp"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/backlog.hpp"
#include "demo/simulation/worker.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kLease = 10min;
constexpr Milliseconds kCycle = Milliseconds{1s} / kClaimsPerSecond;
constexpr Milliseconds kBetweenSteps = kCycle / 3;
constexpr Milliseconds kRunningIn = 500ms;
constexpr int kExecutions = 300 * kClaimsPerSecond;  // of one worker, for so many seconds
constexpr const char* kLane = "steady";

/// What the workers share.
struct Shift {
  SteadyTime begins;
  std::atomic<bool> measured{false};
  std::atomic<bool> over{false};
};

void require(bool accepted, const char* step) {
  if (!accepted) throw std::runtime_error(fmt::format("a worker's {} was refused", step));
}

/// Waits for the moment, takes the step, and notes how long after that moment it was done.
template <class Step>
void timed(const Shift& shift, SteadyTime moment, Distribution& latency, const Step& step) {
  std::this_thread::sleep_until(moment);
  const bool measured = shift.measured;
  step();
  const std::chrono::duration<double, std::milli> took = Clock::system().now() - moment;
  if (measured) latency.add(took.count());
}

WorkerLatency live(pg::Connection connection, int number, const Shift& shift,
                   const std::vector<ExecutionId>& executions) {
  simulation::Worker worker(connection, fmt::format("steady-{}", number), kLease, kLane);
  WorkerLatency latency;
  Distribution of_no_interest;
  SteadyTime moment = shift.begins + number * kCycle / kWorkers;
  for (const ExecutionId& execution : executions) {
    if (shift.over) return latency;
    std::optional<simulation::Claim> claim;
    timed(shift, moment, latency.claim, [&] { claim = worker.claim_one(execution); });
    require(claim.has_value(), "claim");
    timed(shift, moment + kBetweenSteps, latency.renew, [&] { require(worker.renew(*claim), "renewal"); });
    timed(shift, moment + 2 * kBetweenSteps, of_no_interest,
          [&] { require(worker.complete(*claim), "completion"); });
    moment += kCycle;
  }
  throw std::runtime_error("the workers ran out of executions");
}

}  // namespace

void take_turns(int rounds, std::vector<Beside>& all) {
  std::vector<std::function<void()>> turns;
  for (Beside& each : all)
    turns.emplace_back([&each] {
      const WorkerLatency latency = each.measure();
      each.claim.add(latency.claim);
      each.renew.add(latency.renew);
    });
  take_turns(rounds, turns);
}

WorkerLatency latency_during(const pg::Connector& connector, const std::function<void()>& work) {
  std::vector<pg::Connection> connections;
  std::vector<std::vector<ExecutionId>> executions;
  for (int i = 0; i < kWorkers; ++i) {
    connections.push_back(connect(connector));
    executions.push_back(simulation::create(connections.back(), {.lane = kLane, .name_space = kLane},
                                            all_partitions(kPartitions), kExecutions));
  }
  Shift shift{.begins = Clock::system().now()};
  std::vector<std::future<WorkerLatency>> workers;
  for (int i = 0; i < kWorkers; ++i) {
    const auto number = static_cast<std::size_t>(i);
    workers.push_back(std::async(std::launch::async, live, std::move(connections[number]), i,
                                 std::cref(shift), std::cref(executions[number])));
  }
  std::exception_ptr failure;
  std::this_thread::sleep_for(kRunningIn);
  shift.measured = true;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();  // the workers use what is on our stack: they go first
  }
  shift.measured = false;
  shift.over = true;
  for (const auto& worker : workers) worker.wait();
  if (failure) std::rethrow_exception(failure);
  WorkerLatency latency;
  for (auto& worker : workers) latency.add(worker.get());
  return latency;
}

}  // namespace ff::bench
