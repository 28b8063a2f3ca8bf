#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// Everything that is measured of the daemon as it lives, as a process of its own: how late it is, what it
/// costs when it is idle, its memory, its start, and how gentle it is with workers. The server has to run
/// with track_commit_timestamp on. Throws std::runtime_error where a measurement is void.
std::vector<Regime> measure_living(const Bench& bench);

}  // namespace ff::bench
