#include "faults/chapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "faults/audit.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kWarmUp = 3s;
constexpr Milliseconds kPatience = 60s;
constexpr Milliseconds kBetweenLooks = 10ms;
constexpr Milliseconds kLongestPause = 300ms;

/// How long from now on until the last of the replicas has had its first good tick.
Milliseconds first_good_tick(Replicas& replicas) {
  const std::int64_t since_ms = count(Clock::system().wall());
  const SteadyTime deadline = Clock::system().now() + kPatience;
  Milliseconds slowest{0};
  for (int replica = 0; replica < kReplicas; ++replica) {
    for (;;) {
      const auto at_ms = static_cast<std::int64_t>(replicas.last_success(replica) * 1000);
      if (at_ms >= since_ms) {
        slowest = std::max(slowest, Milliseconds{at_ms - since_ms});
        break;
      }
      if (Clock::system().now() > deadline) return kPatience;
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
  return slowest;
}

FaultResult suffer(const Fault& fault, World& world) {
  FaultResult result{.name = fault.name, .what = fault.what, .wanted = world.limit(fault.wanted)};
  world.report_to(result);
  const int repetitions = world.brief() ? fault.in_short : fault.repetitions;
  try {
    for (int i = 0; i < repetitions; ++i) {
      const Heal heal = fault.inject(world);
      heal();
      result.recoveries.push_back(first_good_tick(world.replicas()));
      if (fault.afterwards) fault.afterwards(world);
      std::this_thread::sleep_for(Milliseconds{world.random(0, kLongestPause.count())});
    }
  } catch (const std::exception& error) {
    world.complain(error.what());
  }
  print(result);
  return result;
}

void go_through(const Chapter& chapter, bool brief, std::uint64_t seed, ChapterResult& result) {
  World world(chapter.world, brief, seed);
  if (!world.why_simulated_only().empty())
    fmt::print("   without FlowFabric's own workers: {}\n", world.why_simulated_only());
  std::this_thread::sleep_for(kWarmUp);
  std::array<Footprint, kReplicas> before{};
  for (int i = 0; i < kReplicas; ++i) before.at(static_cast<std::size_t>(i)) = world.replicas().footprint(i);
  for (const Fault& fault : chapter.faults)
    if (!brief || fault.in_short > 0) result.faults.push_back(suffer(fault, world));
  result.verdicts = audit(world, chapter.world.outages, before);
  result.work = world.load().ledger().counts();
}

}  // namespace

ChapterResult run(const Chapter& chapter, bool brief, std::uint64_t seed) {
  ChapterResult result{.name = chapter.name};
  fmt::print("{}\n", chapter.name);
  try {
    go_through(chapter, brief, seed, result);
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  print(result);
  return result;
}

}  // namespace ff::faults
