#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "lease/event.hpp"
#include "lease/frontier.hpp"
#include "pg/connection.hpp"

/// Everything that is asked of the database for the lease history: each function is one statement in a
/// transaction of its own. All throw pg::Error.
namespace ff::lease {

/// The channel that the outbox's trigger notifies.
inline constexpr const char* kChannel = "ff_lease_event";

/// The newest event and the oldest running transaction, in one snapshot. Takes a mark (which costs a
/// transaction id, and needs a server that takes writes) only when there is an event above `marks_above`.
Sighting look(pg::Connection& connection, std::int64_t marks_above);

/// Which part of the outbox to read: events after `after`, of one partition or of all.
struct Stretch {
  std::optional<PartitionKey> partition;
  std::int64_t after = 0;
};

/// The rows of each stretch up to and including `up_to`, by rising event id, at most `most` of each.
/// Stretches that name a partition share a round trip.
std::vector<std::vector<OutboxRow>> read(pg::Connection& connection, const std::vector<Stretch>& stretches,
                                         std::int64_t up_to, std::int64_t most);

/// Who the running transaction with this id is, for people: pid, application, state and age.
std::string describe_transaction(pg::Connection& connection, std::int64_t transaction);

/// The sequence gives each session a stock of ids in advance (CACHE above 1): then a session may use a low id
/// in a transaction that started long after a higher one was seen, and nothing here can know.
bool ids_are_stocked(pg::Connection& connection);

}  // namespace ff::lease
