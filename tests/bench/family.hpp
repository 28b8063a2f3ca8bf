#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// Every reconciler but attempt_timeout over a dense backlog of its own, a regime each: ours, row by row, and
/// the floor where there is one. Before anything is timed, each way works off the same small backlog in a
/// database apart, and all have to leave the same rows.
std::vector<Regime> measure_family(const Bench& bench);

}  // namespace ff::bench
