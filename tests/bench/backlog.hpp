#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/partitions.hpp"
#include "pg/connect.hpp"
#include "testserver/private_server.hpp"

namespace ff::bench {

constexpr int kPartitions = 256;

/// For what is not measured: ten minutes from now.
SteadyTime patiently();

/// A session, within ten seconds.
pg::Connection connect(const pg::Connector& connector);

/// One for preparing and checking, whose own commits need not wait for the disk: a checkpoint follows them.
pg::Connection backstage(const pg::Connector& connector);

/// An empty database, in place of one that had this name: with our schema in so many hash children, or without any.
pg::Connector new_database(testserver::PrivateServer& server, const std::string& name, int fan_out = 0);

using Tables = std::vector<std::string>;

/// Statistics and visibility of what was added or changed, as old tables' are; everything is on disk afterwards. As it is:
/// of the tables that leases and their end touch.
void settle(pg::Connection& connection,
            const Tables& tables = {"ff_exec_core", "ff_attempt", "ff_completion_event", "ff_lease_event"});

/// Deletes all rows, and what they leave in the files; of these tables, or of all that have partition keys.
void empty(pg::Connection& connection, const Tables& tables = {});

/// The database's clock.
std::int64_t database_now_ms(pg::Connection& connection);

/// Active executions with a lease each, dealt out over all partitions. They have been reclaimed as often as lease_expiry
/// does it, so that attempt_timeout takes them, whichever of the two are on.
struct LeaseRows {
  int count = 0;
  std::string name_space = "bench";  ///< that the events will carry
  /// The leases lapse at random moments from here on for so long. As it is: long ago, few at the same one (of
  /// equal times a scan has to sort all).
  std::int64_t from_ms = 1000;
  std::int64_t length_ms = 1'000'000;
  bool retries = true;  ///< their executions have retries left; else they will expire
};

/// Adds them. What falls due when stays in ff_attempt.raw_fields as `due_ms`.
void add_leases(pg::Connection& connection, const LeaseRows& rows);

/// How many leases there are, lapsed or not, of executions in that namespace.
std::int64_t leases_left(pg::Connection& connection, const std::string& name_space);

/// Leases that were taken away, in a namespace.
struct TakenLeases {
  std::int64_t executions = 0;
  std::int64_t events = 0;  ///< that say so
  std::int64_t twice = 0;   ///< executions with more than one
};
TakenLeases taken_leases(pg::Connection& connection, const std::string& name_space = "bench");

/// Throws std::runtime_error unless each of the namespace's `expected` executions has exactly one event `expired` and no
/// lease any more.
void require_all_expired_once(pg::Connection& connection, const std::string& name_space,
                              std::int64_t expected);

/// Executions that ended at a steady rate: each with its attempt and a dispatched completion event.
struct EndedRows {
  std::int64_t count = 0;
  std::int64_t from_ms = 0;  ///< when the first one ended
  Milliseconds length{0};    ///< how long after it the last one did
  Milliseconds kept_for{0};  ///< by its policy
};
void add_ended(pg::Connection& connection, const EndedRows& rows);

}  // namespace ff::bench
