// A network on which nothing arrives, in one direction or both, or everything late.
#include <thread>

#include "faults/faults.hpp"
#include "faults/world.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;
using test::Proxy;

Fault silence(const std::string& name, const std::string& what, Proxy::Silence which, int in_short) {
  return {.name = name,
          .what = what,
          .repetitions = 10,
          .in_short = in_short,
          .wanted = 10s,
          .inject = [which](World& world) -> Heal {
            world.network().silence(which);
            std::this_thread::sleep_for(12s);
            const int victim = static_cast<int>(world.random(0, kReplicas - 1));
            world.measured("SIGTERM in mid-fault to the end", world.replicas().stop(victim), kShutdownLimit);
            return [&world, victim] {
              world.network().silence(Proxy::Silence::none);
              world.replicas().start(victim);
            };
          }};
}

}  // namespace

Fault silence_to_server() {
  return silence("silence to server", "what the daemons send does not arrive, for 12 s",
                 Proxy::Silence::to_server, 0);
}

Fault silence_to_daemons() {
  return silence("silence to daemons", "what the server sends does not arrive, for 12 s",
                 Proxy::Silence::to_client, 1);
}

Fault silence_both_ways() {
  return silence("silence both ways", "nothing arrives, for 12 s", Proxy::Silence::both, 0);
}

Fault slow_network() {
  return {.name = "slow network",
          .what = "half a second for a round trip, for 20 s",
          .repetitions = 1,
          .in_short = 0,
          .wanted = 10s,
          .inject = [](World& world) -> Heal {
            world.network().delay(500ms);
            std::this_thread::sleep_for(20s);
            return [&world] { world.network().delay(0ms); };
          }};
}

}  // namespace ff::faults
