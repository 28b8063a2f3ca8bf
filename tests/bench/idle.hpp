#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// What it costs to find that nothing is due: the daemon with all its reconcilers over a million rows, beside
/// FlowFabric's way of looking and beside a server that nobody asks anything. Server and asker together.
std::vector<Regime> measure_idle(const Bench& bench);

}  // namespace ff::bench
