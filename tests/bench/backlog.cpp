#include "bench/backlog.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "bench/sql_file.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;
using pg::Params;

constexpr std::int64_t kLongAgo = 1000;
constexpr std::int64_t kHours = Milliseconds{10h}.count();
constexpr std::int64_t kWorthATruncation = 32LL << 20;

void add(pg::Connection& connection, int count, int partitions, std::int64_t first_ends_at) {
  connection.execute(sql("leases", "add in turns"), Params::of(count, partitions, first_ends_at),
                     patiently());
}

void expect(std::string_view what, std::int64_t found, std::int64_t expected) {
  if (found != expected) throw std::runtime_error(fmt::format("{}: {} instead of {}", what, found, expected));
}

const SqlStatement& stock_of(const std::string& reconciler) {
  return sql_file(reconciler + "/stock").at(0);
}

}  // namespace

Partitions first_partitions(int count) {
  return partition_range({0}, {static_cast<std::int16_t>(count - 1)});
}

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

const Tables& lease_tables() {
  static const Tables tables{"ff_exec_core", "ff_attempt", "ff_completion_event", "ff_lease_event"};
  return tables;
}

const Tables& all_tables() {
  static const Tables tables{"ff_exec_core",
                             "ff_flow_core",
                             "ff_attempt",
                             "ff_claim_grant",
                             "ff_edge",
                             "ff_edge_group",
                             "ff_pending_cancel_groups",
                             "ff_suspension_current",
                             "ff_waitpoint_pending",
                             "ff_completion_event",
                             "ff_lease_event",
                             "ff_signal_event",
                             "ff_operator_event",
                             "ff_budget_policy",
                             "ff_budget_usage",
                             "ff_budget_usage_by_exec",
                             "ff_quota_policy",
                             "ff_quota_admitted",
                             "ff_quota_window",
                             "ff_worker_registry",
                             "ff_worker_registry_event"};
  return tables;
}

void settle(pg::Connection& connection, const Tables& tables) {
  for (const std::string& table : tables)
    connection.execute_script("VACUUM (ANALYZE, TRUNCATE FALSE) " + table, patiently());
  connection.execute_script("CHECKPOINT", patiently());
}

void empty(pg::Connection& connection, const Tables& tables, std::int64_t large) {
  for (const std::string& table : tables) {
    const auto bytes = connection.execute(sql("leases", "bytes"), pg::Params::of(table), patiently());
    const auto size = bytes.one().get<std::int64_t>(0);
    if (size == 0) continue;
    if (size > large) {
      connection.execute_script("TRUNCATE " + table, patiently());
      continue;
    }
    connection.execute_script("DELETE FROM " + table, patiently());
    connection.execute_script("VACUUM (TRUNCATE FALSE) " + table, patiently());
  }
}

std::int64_t database_now_ms(pg::Connection& connection) {
  return connection.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
      .one()
      .get<std::int64_t>(0);
}

void add_lapsed_leases(pg::Connection& connection, int count, int partitions) {
  add(connection, count, partitions, kLongAgo);
  settle(connection, {"ff_exec_core", "ff_attempt"});
}

void add_a_lapsed_lease_each(pg::Connection& connection) {
  add(connection, kPartitions, kPartitions, count(Clock::system().wall()) - std::int64_t{2} * kPartitions);
}

void add_healthy_leases(pg::Connection& connection, int count) {
  add(connection, count, kPartitions, ff::count(Clock::system().wall()) + kHours);
  settle(connection, {"ff_exec_core", "ff_attempt"});
}

void expect_moved(pg::Connection& connection, std::int64_t moved, std::int64_t left) {
  const pg::Result found = connection.execute(sql("leases", "moved"), {}, patiently());
  const auto figure = [&](int column) { return found.one().get<std::int64_t>(column); };
  expect("lapsed leases left", figure(0), left);
  expect("attempts interrupted", figure(1), moved);
  expect("executions retried or expired", figure(2) + figure(3), moved);
  expect("completion events", figure(4), figure(3));
  expect("lease events", figure(5), moved);
  expect("leases with an event", figure(6), moved);
}

void add_leases(pg::Connection& connection, const LeaseRows& rows) {
  connection.execute(sql("leases", "add at random"),
                     Params::of(rows.count, rows.name_space, rows.from_ms, rows.length_ms, rows.retries),
                     patiently());
}

void clear_leases(pg::Connection& connection, const Tables& tables) {
  empty(connection, tables, kWorthATruncation);
}

std::int64_t leases_left(pg::Connection& connection, const std::string& name_space) {
  return connection.execute(sql("leases", "left"), Params::of(name_space), patiently())
      .one()
      .get<std::int64_t>(0);
}

TakenLeases taken_leases(pg::Connection& connection, const std::string& name_space) {
  const pg::Result found = connection.execute(sql("leases", "taken"), Params::of(name_space), patiently());
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

Stock::Stock(const std::string& reconciler)
    : insert_(stock_of(reconciler).text),
      rows_are_(stock_of(reconciler).note("rows are")),
      per_partition_(stock_of(reconciler).number("rows per partition")),
      tables_(stock_of(reconciler).words("tables")) {}

void Stock::add(pg::Connection& connection, int rows, int partitions) const {
  connection.execute(insert_, pg::Params::of(rows, partitions), patiently());
  connection.execute_script(fmt::format("VACUUM {}", fmt::join(tables_, ", ")), patiently());
}

void Stock::analyze(pg::Connection& connection) const {
  connection.execute_script(fmt::format("ANALYZE {}", fmt::join(tables_, ", ")), patiently());
}

void Stock::clear(pg::Connection& connection) const {
  empty(connection, tables_);
}

Settings settings_for_stock(const reconcile::Reconciler& reconciler) {
  Settings settings = reconcile::default_settings(reconciler);
  if (const auto found = settings.find("stale_threshold"); found != settings.end())
    found->second = kStale.count();
  return settings;
}

}  // namespace ff::bench
