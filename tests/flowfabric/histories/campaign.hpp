#pragma once

#include <cstdint>

#include "histories/trial.hpp"

namespace ff::test {

struct Seeds {
  std::uint64_t first;
  std::uint64_t last;
};

/// Those that FF_HISTORY_SEEDS names, such as 100-199; else the ones given.
Seeds seeds_or(Seeds otherwise);

/// A history as long as FF_HISTORY_EXECUTIONS and FF_HISTORY_STEPS say.
GeneratorOptions generator_of(std::uint64_t seed, bool behind);

/// Plays one history for each seed beside the daemon. Each fault is a failure of the test, with the shortest history
/// that shows it; FF_HISTORY_RAW leaves out the shortening. `behind`: with workers whose clock is.
Coverage play(Seeds seeds, bool behind);

}  // namespace ff::test
