#include "bench/backlog.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "bench/sql_file.hpp"
#include "migrate/migrate.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;
using pg::Params;

// To truncate 256 children takes a second, however little they hold; above that, new files are made faster than the old
// ones are emptied.
constexpr std::int64_t kWorthATruncation = 64LL << 20;

pg::Result ask(pg::Connection& connection, std::string_view name, const Params& params) {
  return connection.execute(sql("leases", name), params, patiently());
}

}  // namespace

SteadyTime patiently() {
  return Clock::system().now() + 10min;
}

pg::Connection connect(const pg::Connector& connector) {
  return connector.connect(Clock::system().now() + 10s);
}

pg::Connection backstage(const pg::Connector& connector) {
  auto connection = connect(connector);
  connection.execute_script("SET synchronous_commit = off");
  return connection;
}

pg::Connector new_database(testserver::PrivateServer& server, const std::string& name, int fan_out) {
  server.drop_database(name);
  server.create_database(name);
  const pg::ConnectOptions options{.conninfo = server.conninfo(name)};
  if (fan_out > 0) {
    auto connection = backstage(pg::Connector(options));
    migrate::up(connection, fan_out);
    connection.execute_script("CHECKPOINT", patiently());
  }
  return pg::Connector(options);
}

void settle(pg::Connection& connection, const Tables& tables) {
  for (const std::string& table : tables)
    connection.execute_script("VACUUM (ANALYZE, TRUNCATE FALSE) " + table, patiently());
  connection.execute_script("CHECKPOINT", patiently());
}

void empty(pg::Connection& connection, const Tables& tables) {
  const pg::Result filled = ask(connection, "filled", Params::of(tables));
  for (const pg::Row& each : filled) {
    const auto table = each.get<std::string>(0);
    if (each.get<std::int64_t>(1) > kWorthATruncation) {
      connection.execute_script("TRUNCATE " + table, patiently());
    } else {
      connection.execute_script("DELETE FROM " + table, patiently());
      connection.execute_script("VACUUM (TRUNCATE FALSE) " + table, patiently());
    }
  }
}

std::int64_t database_now_ms(pg::Connection& connection) {
  return connection.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
      .one()
      .get<std::int64_t>(0);
}

void add_leases(pg::Connection& connection, const LeaseRows& rows) {
  ask(connection, "add", Params::of(rows.count, rows.name_space, rows.from_ms, rows.length_ms, rows.retries));
}

std::int64_t leases_left(pg::Connection& connection, const std::string& name_space) {
  return ask(connection, "left", Params::of(name_space)).one().get<std::int64_t>(0);
}

TakenLeases taken_leases(pg::Connection& connection, const std::string& name_space) {
  const pg::Result found = ask(connection, "taken", Params::of(name_space));
  return {found.one().get<std::int64_t>(0), found.one().get<std::int64_t>(1),
          found.one().get<std::int64_t>(2)};
}

void require_all_expired_once(pg::Connection& connection, const std::string& name_space,
                              std::int64_t expected) {
  const TakenLeases taken = taken_leases(connection, name_space);
  const auto left = leases_left(connection, name_space);
  if (taken.executions != expected || taken.events != expected || left != 0)
    throw std::runtime_error(fmt::format("of {} leases {} have expired, with {} events, and {} are left",
                                         expected, taken.executions, taken.events, left));
}

void add_ended(pg::Connection& connection, const EndedRows& rows) {
  connection.execute(sql("retention", "add ended"),
                     Params::of(rows.count, rows.from_ms, rows.length.count(), rows.kept_for.count()),
                     patiently());
}

}  // namespace ff::bench
