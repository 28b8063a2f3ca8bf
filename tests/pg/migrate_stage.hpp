#pragma once

#include <numeric>

#include "migrate/migrate.hpp"
#include "pg/connect.hpp"
#include "support/database.hpp"

/// What the tests of migrations ask of a database.
namespace ff::test::migrations {

constexpr int kFanOut = 3;

inline pg::Connection connect(const Database& db) {
  pg::ConnectOptions options;
  options.conninfo = db.conninfo();
  return pg::Connector(options).connect(Clock::system().now() + Milliseconds{10'000});
}

inline std::vector<int> all_versions() {
  std::vector<int> versions(migrate::migrations().size());
  std::iota(versions.begin(), versions.end(), 1);
  return versions;
}

inline std::int64_t number(pg::Connection& connection, const std::string& sql) {
  return connection.execute(sql).one().get<std::int64_t>(0);
}

inline std::int64_t children(pg::Connection& connection, const std::string& table) {
  return number(connection, "SELECT count(*) FROM pg_inherits WHERE inhparent = '" + table + "'::regclass");
}

}  // namespace ff::test::migrations
