#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// What a row of a backlog costs attempt_timeout, from ten thousand to a million lapsed leases: "growth".
std::vector<Regime> measure_growth(const Bench& bench);

}  // namespace ff::bench
