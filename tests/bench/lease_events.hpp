#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/connect.hpp"

namespace ff::bench {

/// What a reader of one partition has to find there, all of it.
struct StoredEvents {
  PartitionKey partition;
  std::int64_t after = 0;  ///< right before the first
  std::int64_t last = 0;
  std::int64_t count = 0;
};

/// Adds `count` lease events, dealt out over partitions `first` to `first` + `partitions` - 1. Then brings
/// statistics and visibility up to date, as an old table's are.
std::vector<StoredEvents> add_lease_events(pg::Connection& connection, int count, PartitionKey first,
                                           int partitions);

/// The newest event; 0: there is none.
std::int64_t newest_lease_event(pg::Connection& connection);

struct Committed {
  std::int64_t event_id = 0;
  SteadyTime at;  ///< when its producer was told so
};

/// Commits one event, in a transaction that, as all producers of leases do, has an id of its own before it
/// draws the event's.
Committed commit_lease_event(pg::Connection& connection, PartitionKey partition);

/// Eight sessions that together commit lease events into one partition at a steady rate, each event in its own transaction.
/// An event that is due while its session is busy is committed late; none is left out. The first is due 200 ms from now,
/// when all are connected. What each of them has committed. The connector must outlive them.
std::vector<std::future<std::vector<Committed>>> produce_lease_events(const pg::Connector& connector,
                                                                      PartitionKey partition, int events,
                                                                      int events_per_second);

}  // namespace ff::bench
