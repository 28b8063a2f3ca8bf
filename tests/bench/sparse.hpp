#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// attempt_timeout where one lease has lapsed in each of the partitions, beside row by row.
std::vector<Regime> measure_sparse(const Bench& bench);

}  // namespace ff::bench
