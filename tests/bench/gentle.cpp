#include "bench/gentle.hpp"

#include <fmt/format.h>

#include <array>

#include <stdexcept>
#include <thread>

#include "bench/daemon_process.hpp"
#include "bench/lease_rows.hpp"
#include "bench/worker_load.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kConnectTime = 5s;
constexpr Milliseconds kPatience = 5min;
constexpr const char* kNameSpace = "lapsed";

// All that attempt_timeout does to executions that have a retry left, in plain statements of one transaction.
constexpr const char* kBulk = R"sql(
UPDATE ff_exec_core c
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting', attempt_index = c.attempt_index + 1,
       raw_fields = c.raw_fields || '{"last_failure_message": "attempt_timeout"}'
  FROM ff_attempt a
 WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id
   AND a.lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint;
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT c.execution_id::text, 'expired', floor(extract(epoch FROM now()) * 1000)::bigint, c.partition_key,
       c.raw_fields->>'namespace', c.raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint;
UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1,
       terminal_at_ms = floor(extract(epoch FROM now()) * 1000)::bigint
 WHERE lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint)sql";

/// The latencies of one way, all rounds together and each round's quantiles.
struct Gentleness {
  std::string name;
  WorkerLatency all{};
  std::vector<double> claim_p50{};
  std::vector<double> claim_p99{};
  std::vector<double> renew_p50{};
  std::vector<double> renew_p99{};

  void add(const WorkerLatency& round) {
    all.add(round);
    claim_p50.push_back(round.claim.quantile(0.5));
    claim_p99.push_back(round.claim.quantile(0.99));
    renew_p50.push_back(round.renew.quantile(0.5));
    renew_p99.push_back(round.renew.quantile(0.99));
  }
};

void add_backlog(pg::Connection& connection, int rows) {
  add_leases(connection, {.count = rows, .name_space = kNameSpace});
  settle(connection, lease_tables());
}

void clear_backlog(pg::Connection& connection, int rows) {
  require_all_expired_once(connection, kNameSpace, rows);
  clear_out(connection, lease_tables());
}

double seconds_since(SteadyTime started) {
  return std::chrono::duration<double>(Clock::system().now() - started).count();
}

void work_off(const Bench& bench, Gentleness& ours, int rows) {
  const SteadyTime started = Clock::system().now();
  std::optional<DaemonProcess> daemon;
  ours.add(latency_during(bench.connector, [&] {
    daemon.emplace(bench.conninfo());
    daemon->wait_until_ready();
    while (processed_rows(daemon->metrics(), "attempt_timeout") < rows) {
      if (seconds_since(started) > seconds(kPatience))
        throw std::runtime_error("the daemon does not get through the backlog");
      std::this_thread::sleep_for(50ms);
    }
  }));
  require_no_errors(daemon->metrics());
  daemon->stop();
}

void measure_round(const Bench& bench, pg::Connection& connection, std::array<Gentleness, 3>& ways,
                   int rows) {
  auto& [ours, alone, floor] = ways;
  add_backlog(connection, rows);
  alone.add(latency_during(bench.connector, [&] { std::this_thread::sleep_for(bench.quick ? 1s : 5s); }));
  if (leases_left(connection, kNameSpace) != rows) throw std::runtime_error("somebody took the leases");
  clear_out(connection, lease_tables());
  add_backlog(connection, rows);
  work_off(bench, ours, rows);
  clear_backlog(connection, rows);
  add_backlog(connection, rows);
  floor.add(latency_during(bench.connector,
                           [&] { connection.execute_script(kBulk, Clock::system().now() + kPatience); }));
  clear_backlog(connection, rows);
}

Regime regime_of(const std::array<Gentleness, 3>& ways, int rows) {
  Regime regime{
      .name = "gentle",
      .title = fmt::format("{} workers claim and renew while {} leases have lapsed", kWorkers, rows),
      .unit = "ms",
      .ways = {},
      .plot = {.x = "until the step is committed, ms", .y = "share of steps, %", .logarithmic_x = true}};
  for (const Gentleness& way : ways) {
    regime.ways.push_back({way.name + ", claim p50", way.claim_p50});
    regime.ways.push_back({way.name + ", claim p99", way.claim_p99});
    regime.ways.push_back({way.name + ", renew p50", way.renew_p50});
    regime.ways.push_back({way.name + ", renew p99", way.renew_p99});
    regime.remarks.push_back(
        fmt::format("{}: {} claims, {} renewals.", way.name, way.all.claim.size(), way.all.renew.size()));
    regime.plot.curves.push_back(way.all.claim.cumulative(way.name + ", claim"));
    regime.plot.curves.push_back(way.all.renew.cumulative(way.name + ", renew"));
  }
  regime.remarks.push_back(
      fmt::format("{} workers, each over its own connection, claim {} executions a second each; every step "
                  "at its moment, from "
                  "which its time is counted.",
                  kWorkers, kClaimsPerSecond));
  return regime;
}

}  // namespace

std::vector<Regime> measure_gentle(const Bench& bench) {
  const int rows = bench.quick ? 20'000 : 100'000;
  const int rounds = bench.quick ? 1 : 2;
  auto connection = bench.connector.connect(Clock::system().now() + kConnectTime);
  std::array<Gentleness, 3> ways{Gentleness{"ours"}, Gentleness{"nobody"}, Gentleness{"floor (one bulk)"}};
  for (int i = 0; i < rounds; ++i) measure_round(bench, connection, ways, rows);
  return {regime_of(ways, rows)};
}

}  // namespace ff::bench
