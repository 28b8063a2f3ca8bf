#include "bench/idle.hpp"

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <thread>

#include "bench/daemon.hpp"
#include "bench/polling.hpp"
#include "bench/process_cost.hpp"
#include "bench/sql_file.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kManyPartitions = 1024;

/// `asker`: what whoever asks the server has cost so far, in seconds.
Cost cost_of(const Bench& bench, const Times& times, const std::function<double()>& asker) {
  std::this_thread::sleep_for(times.warm_up);
  const SteadyTime started = Clock::system().now();
  const Cost before{cpu_seconds_of_server(bench.server), asker()};
  std::this_thread::sleep_for(times.measured);
  const Cost after{cpu_seconds_of_server(bench.server), asker()};
  const double percent = 100 / seconds_since(started);
  return {(after.server - before.server) * percent, (after.asker - before.asker) * percent};
}

Cost cost_of_nobody(const Bench& bench) {
  return cost_of(bench, {0s, bench.quick ? 1s : 10s}, [] { return 0.0; });
}

void require_idle(const std::string& metrics) {
  if (const auto moved = processed_rows(metrics); moved != 0)
    throw std::runtime_error(fmt::format("{} rows were moved while nothing was due", moved));
  for (const reconcile::Reconciler& each : reconcile::registry())
    if (test::metric_sum(metrics, "ff_reconciler_last_success_timestamp_seconds",
                         fmt::format("reconciler=\"{}\"", each.name)) == 0)
      throw std::runtime_error(fmt::format("{} has not looked", each.name));
}

std::string everything_on() {
  std::string config = "reconcilers:\n";
  for (const reconcile::Reconciler& each : reconcile::registry())
    if (!each.on_by_default) config += fmt::format("  {}: {{enabled: true}}\n", each.name);
  return config;
}

/// The daemon over rows that are there, beside a server that nobody asks.
Findings over_idle_rows(const Bench& bench, std::string regime, const IdleRows& rows, const Times& times) {
  const Cost ours = cost_of_daemon(bench, times), alone = cost_of_nobody(bench);
  return {.regime = std::move(regime),
          .ways = {{"ours", {ours.together()}}, {"server alone", {alone.together()}}},
          .numbers = {{"rows", static_cast<double>(rows.added)},
                      {"in_server", ours.server},
                      {"in_daemon", ours.asker},
                      {"warm_up", seconds(times.warm_up)},
                      {"seconds", seconds(times.measured)}}};
}

// Of the rival's looks almost all come every 5 s or sooner.
void add_polling(const Bench& bench, Findings& found) {
  const Times times = bench.quick ? Times{1s, 2s} : Times{2s, 15s};
  Polling polling(bench.connector, polls_for_nothing());
  const Cost cost = cost_of(bench, times, [&] { return polling.cpu_seconds(); });
  const double passes = polling.polls();
  polling.stop();
  found.ways.insert(found.ways.begin() + 1, {"seeds' polling", {cost.together()}});
  found.numbers.insert({{"polling_in_server", cost.server},
                        {"polling_outside", cost.asker},
                        {"polling_seconds", seconds(times.measured)},
                        {"passes", passes / seconds(times.warm_up + times.measured)}});
}

int rows_of_each(const Bench& bench) {
  return bench.quick ? 20'000 : 1'000'000;
}

}  // namespace

Times usual_times(const Bench& bench) {
  return bench.quick ? Times{12s, 2s} : Times{75s, 70s};
}

Times settled_times(const Bench& bench) {
  return bench.quick ? usual_times(bench) : Times{10min, 2min};
}

Cost cost_of_daemon(const Bench& bench, const Times& times) {
  Daemon daemon(bench.conninfo(), everything_on());
  const Cost cost = cost_of(bench, times, [&] { return cpu_seconds_of(daemon.pid()); });
  require_idle(daemon.metrics());
  daemon.stop();
  return cost;
}

IdleRows add_idle_rows(pg::Connection& connection, const std::string& file, int count, int partitions) {
  IdleRows rows{.tables = sql_file(file).at(0).words("tables")};
  const std::int64_t now = database_now_ms(connection);
  const std::int64_t tomorrow = now + Milliseconds{24h}.count();
  for (const SqlStatement& each : sql_file(file)) {
    const auto params = pg::Params::of(count / 1000 * each.number("per mille"), now, tomorrow, partitions);
    rows.added += connection.execute(each.text, params, patiently()).affected();
  }
  return rows;
}

std::vector<Findings> measure_idle(const Bench& bench) {
  auto connection = connect(bench.connector);
  const IdleRows rows = add_idle_rows(connection, "idle_rows", rows_of_each(bench));
  settle(connection, rows.tables);
  Findings found = over_idle_rows(bench, "idle", rows, usual_times(bench));
  add_polling(bench, found);
  empty(connection);
  return {std::move(found)};
}

std::vector<Findings> measure_size(const Bench& bench) {
  auto connection = connect(bench.connector);
  const IdleRows rows = add_idle_rows(connection, "waiting_rows", rows_of_each(bench));
  settle(connection, rows.tables);
  Findings found = over_idle_rows(bench, "size", rows, settled_times(bench));
  found.numbers["each"] = rows_of_each(bench);
  empty(connection);
  return {std::move(found)};
}

std::vector<Findings> measure_partitions(const Bench& bench) {
  const std::string database = "partitions";
  const int hash_children = bench.quick ? 256 : kManyPartitions;  // to make so many takes minutes
  const pg::Connector connector = new_database(bench.server, database, hash_children);
  Findings found;
  {
    auto connection = connect(connector);
    connection.execute(
        "UPDATE ff_partition_config SET num_flow_partitions = $1, num_budget_partitions = $1, "
        "num_quota_partitions = $1",
        pg::Params::of(kManyPartitions));
    const IdleRows rows = add_idle_rows(connection, "idle_rows", rows_of_each(bench), kManyPartitions);
    settle(connection, rows.tables);
    found = over_idle_rows({bench.server, database, connector, bench.quick}, "partitions", rows,
                           usual_times(bench));
    found.numbers["partitions"] = kManyPartitions;
    found.numbers["hash_children"] = hash_children;
  }
  bench.server.drop_database(database);
  return {std::move(found)};
}

}  // namespace ff::bench
