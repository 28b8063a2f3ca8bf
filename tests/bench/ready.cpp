#include <fmt/format.h>

#include "bench/daemon.hpp"
#include "bench/figures.hpp"
#include "bench/regimes.hpp"

namespace ff::bench {
namespace {

constexpr double kWantedMs = 200;

}  // namespace

std::vector<Regime> measure_ready(const Bench& bench) {
  const int starts = bench.quick ? 3 : 10;
  Way ours{"ours", {}};
  for (int i = 0; i < starts; ++i) {
    const SteadyTime started = Clock::system().now();
    Daemon daemon(bench.conninfo());
    ours.rounds.push_back(1000 * seconds_since(started));
    daemon.stop();
  }
  return {{.name = "ready",
           .title = fmt::format("from starting the process to ready, {} starts", starts),
           .unit = "ms",
           .ways = {ours},
           .goals = {at_most(kWantedMs, ours.median(), " ms")},
           .remarks =
               {"/readyz is asked every millisecond. The server is up, and recovery_grace is 0: after an "
                "outage of the server the daemon is ready just as soon, and lets leases be for that long."},
           .plot = {.x = "", .y = "ms"}}};
}

}  // namespace ff::bench
