#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// Seven reconcilers beside FlowFabric's own scanners of the same name, each over one connection, on the same rows of a
/// database that FlowFabric's migrations made: a dense backlog, one due row in each partition, and nothing due. Where
/// `./dev conformance` has not built FlowFabric's part, it says so and measures nothing.
std::vector<Regime> measure_flowfabric(const Bench& bench);

}  // namespace ff::bench
