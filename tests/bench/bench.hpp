#pragma once

#include "pg/connect.hpp"
#include "testserver/private_server.hpp"

namespace ff::bench {

/// What every measurement is given. The database is migrated with 256 hash children and has no rows when a
/// measurement starts; it leaves none behind.
struct Bench {
  testserver::PrivateServer& server;
  std::string database;
  const pg::Connector& connector;  ///< to that database over the Unix socket
  bool quick = false;              ///< few rows, one round: to see that it works, not to quote
  int rounds() const { return quick ? 1 : 3; }
  std::string conninfo() const { return server.conninfo(database); }
};

}  // namespace ff::bench
