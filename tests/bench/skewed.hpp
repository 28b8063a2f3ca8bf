#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// attempt_timeout over backlogs that are not as they should be, each beside the plain case of as many rows
/// and row by row: "skewed_one_partition", "skewed_locked" (somebody holds every other row) and
/// "skewed_poison" (every hundredth row cannot be changed).
std::vector<Regime> measure_skewed(const Bench& bench);

}  // namespace ff::bench
