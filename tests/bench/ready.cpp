#include "bench/bench.hpp"
#include "bench/daemon.hpp"

namespace ff::bench {

std::vector<Findings> measure_ready(const Bench& bench) {
  const int starts = bench.quick ? 3 : 10;
  Way ours{"ours"};
  for (int i = 0; i < starts; ++i) {
    const SteadyTime started = Clock::system().now();
    Daemon daemon(bench.conninfo());
    ours.rounds.push_back(1000 * seconds_since(started));
    daemon.stop();
  }
  return {{.regime = "ready", .ways = {std::move(ours)}, .numbers = {{"starts", starts}}}};
}

}  // namespace ff::bench
