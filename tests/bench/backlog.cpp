#include "bench/backlog.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

// $1: how many, $2: partitions, $3: when the first lease ends. Retries by turns within a partition.
constexpr std::string_view kAdd = R"sql(
WITH fresh AS MATERIALIZED (
  SELECT (i % $2)::smallint AS partition_key, gen_random_uuid() AS execution_id, i FROM generate_series(1, $1) AS i
),
core AS (
  INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                            public_state, attempt_state, created_at_ms, policy, raw_fields)
  SELECT partition_key, execution_id, 'default', 'active', 'leased', 'not_applicable', 'running', 'running_attempt', 1,
         CASE WHEN i / $2 % 2 = 0 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END,
         '{"namespace": "bench", "tags": {"cairn.instance_id": "i-1"}}'
    FROM fresh
)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms, started_at_ms)
SELECT partition_key, execution_id, 0, 'w-1', 1, $3 + i, 1 FROM fresh)sql";

constexpr std::string_view kLapsed = R"sql(
SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms < extract(epoch FROM clock_timestamp()) * 1000)sql";

constexpr std::string_view kAttempts = R"sql(
SELECT count(*) FROM ff_attempt
 WHERE lease_expires_at_ms IS NULL AND outcome = 'interrupted' AND lease_epoch = 2 AND terminal_at_ms IS NOT NULL)sql";

constexpr std::string_view kExecutions = R"sql(
SELECT count(*) FILTER (WHERE lifecycle_phase = 'runnable' AND attempt_index = 1 AND public_state = 'waiting'
                          AND raw_fields->>'total_attempt_count' = '1'),
       count(*) FILTER (WHERE lifecycle_phase = 'terminal' AND attempt_index = 0 AND public_state = 'expired')
  FROM ff_exec_core WHERE ownership_state = 'unowned' AND raw_fields->>'last_failure_message' = 'attempt_timeout')sql";

constexpr std::string_view kEvents = R"sql(
SELECT (SELECT count(*) FROM ff_completion_event WHERE outcome = 'expired' AND namespace = 'bench'),
       count(*), count(DISTINCT execution_id)
  FROM ff_lease_event WHERE event_type = 'expired' AND instance_tag = 'i-1')sql";

constexpr Milliseconds kConnectTime = 10s;
constexpr std::int64_t kLongAgo = 1000;
constexpr std::int64_t kHours = Milliseconds{10h}.count();

constexpr std::string_view kTables[] = {"ff_exec_core",
                                        "ff_flow_core",
                                        "ff_attempt",
                                        "ff_edge",
                                        "ff_edge_group",
                                        "ff_pending_cancel_groups",
                                        "ff_suspension_current",
                                        "ff_waitpoint_pending",
                                        "ff_completion_event",
                                        "ff_lease_event",
                                        "ff_budget_policy",
                                        "ff_budget_usage",
                                        "ff_budget_usage_by_exec",
                                        "ff_worker_registry",
                                        "ff_worker_registry_event"};

// Above that, new files are made faster than the old ones are emptied; they are made in any number of hash
// children, and most hold little.
constexpr std::int64_t kLarge = 256LL << 20;

// $1: a table, partitioned or not.
constexpr std::string_view kBytes = R"sql(
SELECT pg_relation_size($1::text::regclass) + coalesce(sum(pg_relation_size(relid)), 0)::bigint
  FROM pg_partition_tree($1::text::regclass) WHERE isleaf)sql";

SteadyTime in_ten_minutes() {
  return Clock::system().now() + 10min;
}

void add(pg::Connection& connection, int count, int partitions, std::int64_t first_ends_at) {
  connection.execute(kAdd, pg::Params::of(count, partitions, first_ends_at), in_ten_minutes());
}

void expect(std::string_view what, std::int64_t found, std::int64_t expected) {
  if (found != expected) throw std::runtime_error(fmt::format("{}: {} instead of {}", what, found, expected));
}

}  // namespace

Partitions all_partitions() {
  return partition_range({0}, {kPartitions - 1});
}

pg::Connection backstage(const pg::Connector& connector) {
  auto connection = connector.connect(Clock::system().now() + kConnectTime);
  connection.execute_script("SET synchronous_commit = off");
  return connection;
}

void bring_up_to_date(pg::Connection& connection) {
  const auto deadline = in_ten_minutes();
  connection.execute_script("VACUUM (ANALYZE, TRUNCATE FALSE) ff_exec_core", deadline);
  connection.execute_script("VACUUM (ANALYZE, TRUNCATE FALSE) ff_attempt", deadline);
  connection.execute_script("CHECKPOINT", deadline);
}

void add_lapsed_leases(pg::Connection& connection, int count, int partitions) {
  add(connection, count, partitions, kLongAgo);
  bring_up_to_date(connection);
}

void add_a_lapsed_lease_each(pg::Connection& connection) {
  add(connection, kPartitions, kPartitions, count(Clock::system().wall()) - std::int64_t{2} * kPartitions);
}

void add_healthy_leases(pg::Connection& connection, int count) {
  add(connection, count, kPartitions, ff::count(Clock::system().wall()) + kHours);
  bring_up_to_date(connection);
}

std::int64_t lapsed_leases(pg::Connection& connection) {
  return connection.execute(kLapsed, {}, in_ten_minutes()).one().get<std::int64_t>(0);
}

void expect_moved(pg::Connection& connection, std::int64_t moved, std::int64_t left) {
  const auto deadline = in_ten_minutes();
  expect("lapsed leases left", lapsed_leases(connection), left);
  expect("attempts interrupted", connection.execute(kAttempts, {}, deadline).one().get<std::int64_t>(0),
         moved);
  const pg::Result executions = connection.execute(kExecutions, {}, deadline);
  const auto retried = executions.one().get<std::int64_t>(0);
  const auto expired = executions.one().get<std::int64_t>(1);
  expect("executions moved", retried + expired, moved);
  const pg::Result events = connection.execute(kEvents, {}, deadline);
  expect("completion events", events.one().get<std::int64_t>(0), expired);
  expect("lease events", events.one().get<std::int64_t>(1), moved);
  expect("leases with an event", events.one().get<std::int64_t>(2), moved);
}

void empty_tables(pg::Connection& connection) {
  const auto deadline = in_ten_minutes();
  for (const std::string_view table : kTables) {
    const auto bytes = connection.execute(kBytes, pg::Params::of(table), deadline).one().get<std::int64_t>(0);
    if (bytes == 0) continue;
    if (bytes > kLarge) {
      connection.execute_script(fmt::format("TRUNCATE {}", table), deadline);
      continue;
    }
    connection.execute_script(fmt::format("DELETE FROM {}", table), deadline);
    connection.execute_script(fmt::format("VACUUM (TRUNCATE FALSE) {}", table), deadline);
  }
}

}  // namespace ff::bench
