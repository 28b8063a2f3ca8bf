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
};

/// One round trip. Throws Error: timeout, too, where there is a deadline and no answer before it.
ServerInfo server_info(Connection& connection, std::optional<SteadyTime> deadline = std::nullopt);

/// The version of the client library as people know it: 15.4.
std::string libpq_version();

}  // namespace ff::pg
