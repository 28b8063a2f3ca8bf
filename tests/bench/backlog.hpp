#pragma once

#include "base/partitions.hpp"
#include "pg/connect.hpp"

namespace ff::bench {

constexpr int kPartitions = 256;
Partitions all_partitions();

/// A session for preparing and checking, whose own commits need not wait for the disk: a checkpoint follows
/// them.
pg::Connection backstage(const pg::Connector& connector);

/// Adds `count` active executions with a lapsed lease each, dealt out over partitions 0 to `partitions` - 1;
/// every other one in a partition has three retries. Then brings statistics and visibility up to date, as an
/// old table's are.
void add_lapsed_leases(pg::Connection& connection, int count, int partitions);

/// The same, with nothing brought up to date, of leases that lapse at this moment: one in each partition.
void add_a_lapsed_lease_each(pg::Connection& connection);

/// Adds `count` active executions whose leases hold for hours, over all partitions.
void add_healthy_leases(pg::Connection& connection, int count);

/// Statistics and visibility of what was added or changed; everything is on disk afterwards.
void bring_up_to_date(pg::Connection& connection);

/// How many lapsed leases there are.
std::int64_t lapsed_leases(pg::Connection& connection);

/// Throws std::runtime_error unless exactly so many lapsed leases have been moved since the tables were
/// empty, each once and with everything that belongs to it, and so many are left.
void expect_moved(pg::Connection& connection, std::int64_t moved, std::int64_t left = 0);

/// Deletes all rows that a measurement may have made, in all tables, and what they leave in the files.
void empty_tables(pg::Connection& connection);

}  // namespace ff::bench
