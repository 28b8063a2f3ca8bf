#pragma once

#include "pg/connection.hpp"

namespace ff::bench {

/// Adds `count` active executions with a lapsed lease each, dealt out over partitions 0 to `partitions` - 1;
/// every other one has three retries. Then brings statistics and visibility up to date, as an old table's
/// are.
void add_lapsed_leases(pg::Connection& connection, int count, int partitions);

/// How many lapsed leases there are.
std::int64_t lapsed_leases(pg::Connection& connection);

}  // namespace ff::bench
