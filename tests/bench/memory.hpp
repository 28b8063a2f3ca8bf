#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// The daemon, with its defaults, over a backlog of a million lapsed leases: how much memory it takes at
/// most, and how soon /metrics answers meanwhile. Two regimes from one run.
std::vector<Regime> measure_memory(const Bench& bench);

}  // namespace ff::bench
