// Another server takes over: because an administrator wants it, because the power of the first is gone, or because it
// stands still and does not even say so.
#include <future>
#include <memory>
#include <stdexcept>

#include "faults/cluster.hpp"
#include "faults/faults.hpp"
#include "faults/world.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kPromotionTime = 60s;
constexpr Milliseconds kBetweenLooks = 20ms;

int other_than(int node) {
  return 1 - node;
}

/// Returns when the other one has been promoted: from then on the replicas have their time.
void wait_for_promotion(const Cluster& cluster, int old) {
  if (!test::wait_until([&] { return cluster.takes_writes(other_than(old)).value_or(false); }, kPromotionTime,
                        kBetweenLooks))
    throw std::runtime_error("nothing was promoted");
}

Heal nothing() {
  return [] {};
}

// Patroni's command looks once a second whether it has come true: the time is taken from the promotion on.
Heal switch_over(World& world) {
  const int old = world.cluster().primary();
  const auto asked = std::make_shared<std::future<void>>(
      std::async(std::launch::async, [&world] { world.cluster().switch_over(); }));
  wait_for_promotion(world.cluster(), old);
  return [asked] {};
}

Heal kill_primary(World& world) {
  const int old = world.cluster().primary();
  world.cluster().kill(old);
  wait_for_promotion(world.cluster(), old);
  return nothing();
}

void restart_standby(World& world) {
  world.cluster().start(other_than(world.cluster().primary()));
  world.cluster().wait_until_whole();
}

Heal freeze_primary(World& world) {
  const int old = world.cluster().primary();
  world.cluster().freeze(old);
  wait_for_promotion(world.cluster(), old);
  return nothing();
}

// Until Patroni has noticed, the old one takes writes again. Whoever were told of one would have been told something that
// is lost, which the audit finds.
void thaw_old_primary(World& world) {
  Cluster& cluster = world.cluster();
  cluster.thaw(other_than(cluster.primary()));
  cluster.wait_until_whole();
}

}  // namespace

Fault switchover() {
  return {.name = "switchover",
          .what = "an administrator makes the standby the primary",
          .repetitions = 4,
          .wanted = 3s,
          .inject = switch_over,
          .afterwards = [](World& world) { world.cluster().wait_until_whole(); }};
}

Fault killed_primary() {
  return {.name = "killed primary",
          .what = "SIGKILL for all of the primary's node, and the standby is promoted",
          .repetitions = 3,
          .wanted = 3s,
          .inject = kill_primary,
          .afterwards = restart_standby};
}

Fault frozen_primary() {
  return {.name = "frozen primary",
          .what = "SIGSTOP for all of the primary's node, and the standby is promoted",
          .repetitions = 3,
          .wanted = 3s,
          .inject = freeze_primary,
          .afterwards = thaw_old_primary};
}

}  // namespace ff::faults
