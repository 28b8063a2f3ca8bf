#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// attempt_timeout over a backlog of lapsed leases in all partitions, beside row by row and the floor:
/// "dense" over the Unix socket, "dense_1ms" with a millisecond added to each round trip.
std::vector<Regime> measure_dense(const Bench& bench);

}  // namespace ff::bench
