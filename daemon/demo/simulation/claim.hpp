#pragma once

#include <cstdint>

#include "base/ids.hpp"

namespace ff::simulation {

/// What a worker holds: an attempt, by the epoch at which it was given. Spent once it has been completed,
/// failed, delayed or suspended: the fence is the epoch alone, and not every one of these steps moves it.
struct Claim {
  ExecutionId execution;
  std::int32_t attempt_index = 0;
  std::int64_t lease_epoch = 0;
};

}  // namespace ff::simulation
