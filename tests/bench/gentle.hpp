#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// How long workers wait for a claim and for a renewal while a hundred thousand leases that have lapsed are
/// worked off by the daemon; beside that, while they just lie there, and while one bulk transaction expires
/// them all.
std::vector<Regime> measure_gentle(const Bench& bench);

/// The same with storm control as it is by default, in pairs with nobody.
std::vector<Regime> measure_storm(const Bench& bench);

}  // namespace ff::bench
