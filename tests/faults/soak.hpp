#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "base/time.hpp"

namespace ff::faults {

struct SoakOptions {
  std::chrono::seconds length{3600};
  int rate = 200;  ///< rows a second that fall due
  std::uint64_t seed = std::random_device()();
  std::string json{};  ///< a file for all samples
};

/// A steady load for long, on a server with PostgreSQL's own settings, with a replica killed or the sessions ended now
/// and then. Prints as it goes, and what came of it. True: everything held. Throws what the world throws.
bool soak(const SoakOptions& options);

}  // namespace ff::faults
