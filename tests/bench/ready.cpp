#include "bench/ready.hpp"

#include <fmt/format.h>

#include "bench/daemon_process.hpp"
#include "bench/distribution.hpp"

namespace ff::bench {
namespace {

constexpr double kWantedMs = 200;

double start_to_ready_ms(const Bench& bench) {
  const SteadyTime started = Clock::system().now();
  DaemonProcess daemon(bench.conninfo());
  daemon.wait_until_ready();
  const std::chrono::duration<double, std::milli> took = Clock::system().now() - started;
  daemon.stop();
  return took.count();
}

}  // namespace

std::vector<Regime> measure_ready(const Bench& bench) {
  const int starts = bench.quick ? 3 : 10;
  Way ours{"ours", {}};
  for (int i = 0; i < starts; ++i) ours.rounds.push_back(start_to_ready_ms(bench));
  const double reached = ours.median();
  return {{.name = "ready",
           .title = fmt::format("from starting the process to ready, {} starts", starts),
           .unit = "ms",
           .ways = {ours},
           .goals = {{fmt::format("at most {:.0f} ms", kWantedMs), in_ms(reached), reached <= kWantedMs}},
           .remarks =
               {"/readyz is asked every millisecond. The server is up, and recovery_grace is 0: after an "
                "outage of the server the daemon is ready just as soon, and lets leases be for that long."},
           .plot = {.x = "", .y = "ms"}}};
}

}  // namespace ff::bench
