#include "bench/living.hpp"

#include <algorithm>
#include <iterator>

#include "bench/gentle.hpp"
#include "bench/idle.hpp"
#include "bench/lateness.hpp"
#include "bench/memory.hpp"
#include "bench/ready.hpp"

namespace ff::bench {

std::vector<Regime> measure_living(const Bench& bench) {
  std::vector<Regime> all;
  for (const auto measure : {measure_lateness, measure_idle, measure_memory, measure_ready, measure_gentle}) {
    auto regimes = measure(bench);
    std::move(regimes.begin(), regimes.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace ff::bench
