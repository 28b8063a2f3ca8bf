#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pg/connection.hpp"

namespace ff::bench {

/// Active executions with a lease each, dealt out over partitions 0 to 255. They have been reclaimed as often
/// as lease_expiry does it, so that attempt_timeout takes them, whichever of the two are on.
struct LeaseRows {
  int count = 0;
  std::string name_space;  ///< that the events will carry
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

/// Throws std::runtime_error unless each of the namespace's `expected` executions has exactly one event
/// `expired` and no lease any more.
void require_all_expired_once(pg::Connection& connection, const std::string& name_space,
                              std::int64_t expected);

using Tables = std::vector<std::string>;

/// Those that leases and their end touch.
const Tables& lease_tables();

/// Brings statistics and visibility up to date, as old tables' are, and writes everything out.
void settle(pg::Connection& connection, const Tables& tables);

/// Takes all rows out, and what is left of them.
void clear_out(pg::Connection& connection, const Tables& tables);

/// The database's clock.
std::int64_t database_now_ms(pg::Connection& connection);

}  // namespace ff::bench
