#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// attempt_timeout over one backlog by one, two and four replicas at once: "replicas".
std::vector<Regime> measure_replicas(const Bench& bench);

}  // namespace ff::bench
