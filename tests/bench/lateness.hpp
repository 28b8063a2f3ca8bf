#pragma once

#include <vector>

#include "bench/bench.hpp"
#include "bench/regime.hpp"

namespace ff::bench {

/// How long after it fell due a row is committed, while 50 and 500 a second fall due at random moments that
/// are known in advance: the real daemon beside polling at an interval. The server has to run with
/// track_commit_timestamp on.
std::vector<Regime> measure_lateness(const Bench& bench);

}  // namespace ff::bench
