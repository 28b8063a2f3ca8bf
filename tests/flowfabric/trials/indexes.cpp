// Suspended after a typed claim, and signalled: the real claim_resumed_execution takes each.
#include <thread>

#include "trials/trial.hpp"

namespace ff::test::trials {
namespace {

constexpr Milliseconds kAtMost{60'000};

struct Suspended {
  std::string execution;
  Json waitpoint;
};

Suspended suspend(World& world, int i) {
  const std::string execution = world.execution({{"partition", i % kDaemonPartitions}});
  world.take(i % 2 == 0 ? "claim_execution" : "issue_grant_and_claim", execution, "h");
  return {execution, world.real.call("suspend", {{"handle", "h"}}).at("waitpoints").at(0)};
}

void signal(World& world, const Suspended& its) {
  world.real.call("deliver_signal", {{"execution", its.execution},
                                     {"waitpoint", its.waitpoint.at("waitpoint")},
                                     {"token", its.waitpoint.at("token")}});
}

/// How long it took until it could be taken, and completed, as the attempt that it was; nothing: never.
std::optional<Milliseconds> taken_after(World& world, const Suspended& its) {
  const SteadyTime started = Clock::system().now();
  const auto passed = [&] {
    return std::chrono::duration_cast<Milliseconds>(Clock::system().now() - started);
  };
  while (!world.real.refusal("claim_resumed_execution", {{"execution", its.execution}, {"as", "next"}})
              .empty()) {
    if (passed() > kAtMost) return std::nullopt;
    std::this_thread::sleep_for(Milliseconds{10});
  }
  const Milliseconds after = passed();
  const bool goes_on = world.core(its.execution).at("attempt_index") == 0 &&
                       world.real.call("observe_signals", {{"handle", "next"}}).size() == 1 &&
                       world.real.refusal("complete", {{"handle", "next"}}).empty();
  return goes_on ? std::optional(after) : std::nullopt;
}

}  // namespace

Seen indexes(World& world, const Scale& scale) {
  Seen seen;
  Lateness late;
  int taken = 0;
  RunningDaemon daemon({.conninfo = world.conninfo(), .config = kSixteenPartitions});
  wait_until_ready(daemon);
  for (int i = 0; i < scale.count; ++i) {
    const Suspended its = suspend(world, i);
    signal(world, its);
    const auto after = taken_after(world, its);
    seen.expect(after.has_value(), its.execution + " is not taken by claim_resumed_execution");
    if (after) late.add(after->count());
    taken += after ? 1 : 0;
  }
  seen.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
  seen.figures = fmt::format("{} of {} signalled after a typed claim were taken, {} (after their signal)",
                             taken, scale.count, late.text());
  return seen;
}

}  // namespace ff::test::trials
