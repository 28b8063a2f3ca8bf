#pragma once

#include <cstdio>
#include <numeric>
#include <stdexcept>

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

/// Changes with every change of a table, column, index, function or trigger: xmin is the last one's
/// transaction.
inline std::string catalog(pg::Connection& connection) {
  constexpr std::string_view kEverything = R"(
    SELECT md5(string_agg(line, '|' ORDER BY line)) FROM (
      SELECT 'class ' || oid || ' ' || relname || ' ' || xmin FROM pg_class
      UNION ALL SELECT 'column ' || attrelid || ' ' || attname || ' ' || xmin FROM pg_attribute
      UNION ALL SELECT 'function ' || oid || ' ' || xmin FROM pg_proc
      UNION ALL SELECT 'trigger ' || oid || ' ' || xmin FROM pg_trigger) AS lines(line))";
  return connection.execute(kEverything).one().get<std::string>(0);
}

inline int run_by_psql(const Database& db) {
  FILE* const pipe = ::popen(("psql -X -q -d '" + db.conninfo() + "' -f -").c_str(), "w");
  if (pipe == nullptr) throw std::runtime_error("psql cannot be started");
  std::fputs(migrate::sql(kFanOut).c_str(), pipe);
  return ::pclose(pipe);
}

}  // namespace ff::test::migrations
