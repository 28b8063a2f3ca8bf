#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// How long it takes from starting the daemon's process until /readyz says 200.
std::vector<Regime> measure_ready(const Bench& bench);

}  // namespace ff::bench
