#pragma once

#include <cstdint>

#include "base/partitions.hpp"
#include "pg/connection.hpp"

namespace ff::bench {

/// The rival: attempt_timeout as FlowFabric's own reconciler does it. Partition after partition it lists up
/// to 1000 lapsed leases, then moves each in a transaction of its own with seven or eight round trips. All
/// statements are prepared once. Lists again until a partition has none left. Returns how many rows it moved.
std::int64_t attempt_timeout_row_by_row(pg::Connection& connection, const Partitions& partitions);

}  // namespace ff::bench
