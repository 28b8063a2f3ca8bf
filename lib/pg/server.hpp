#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"
#include "pg/connection.hpp"

namespace ff::pg {

/// What a server says of itself. Two connections with the same `started_at` reach the same, uninterrupted
/// server.
struct ServerInfo {
  UnixMillis now;         ///< by the server's clock
  UnixMillis started_at;  ///< of the postmaster, by the server's clock
  bool writable = false;  ///< neither a standby nor read-only
  int version = 0;        ///< server_version_num: 150004
  /// The role that the session acts as. Sessions outlive one that is dropped, and may do nothing any more, also when another of its
  /// name has been made since.
  bool role_exists = true;
};

/// One round trip. Throws Error: timeout, too, where there is a deadline and no answer before it.
ServerInfo server_info(Connection& connection, std::optional<SteadyTime> deadline = std::nullopt);

/// Where the role of the session does not exist: ends all with its role, database and application_name, itself last. For those that
/// a pooler keeps, and would lend again. Throws nothing: whether it could end them shows in the next session that is lent.
void end_sessions_of_dropped_role(Connection& connection, SteadyTime deadline);

/// The version of the client library as people know it: 15.4.
std::string libpq_version();

}  // namespace ff::pg
