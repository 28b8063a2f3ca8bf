#include "bench/lease_rows.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace ff::bench {
namespace {

using namespace std::chrono_literals;
using pg::Params;

// $1 count, $2 namespace, $3 from, $4 length, $5 with retries
constexpr std::string_view kAdd = R"sql(
WITH fresh AS MATERIALIZED (
  SELECT (i % 256)::smallint AS partition_key, gen_random_uuid() AS execution_id,
         $3 + floor(random() * $4)::bigint AS due_ms
    FROM generate_series(1, $1) AS i
),
core AS (
  INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                            public_state, attempt_state, created_at_ms, policy, raw_fields)
  SELECT partition_key, execution_id, 'default', 'active', 'leased', 'not_applicable', 'running', 'running_attempt', 1,
         CASE WHEN $5 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END,
         jsonb_build_object('namespace', $2::text, 'tags', '{"cairn.instance_id": "i-1"}'::jsonb)
    FROM fresh
)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms,
                        started_at_ms, raw_fields)
SELECT partition_key, execution_id, 0, 'w-1', 1, due_ms, 1, jsonb_build_object('lease_reclaims', 3, 'due_ms', due_ms)
  FROM fresh)sql";

constexpr std::string_view kLeft = R"sql(
SELECT count(*)
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.lease_expires_at_ms IS NOT NULL AND c.raw_fields->>'namespace' = $1)sql";

constexpr std::string_view kExpiredOnce = R"sql(
SELECT count(*), coalesce(sum(events), 0)::bigint
  FROM (SELECT count(*) AS events FROM ff_lease_event
         WHERE namespace = $1 AND event_type = 'expired' GROUP BY partition_key, execution_id) AS execution)sql";

SteadyTime patient() {
  return Clock::system().now() + 10min;
}

}  // namespace

void add_leases(pg::Connection& connection, const LeaseRows& rows) {
  connection.execute(
      kAdd, Params::of(rows.count, rows.name_space, rows.from_ms, rows.length_ms, rows.retries), patient());
}

std::int64_t leases_left(pg::Connection& connection, const std::string& name_space) {
  return connection.execute(kLeft, Params::of(name_space), patient()).one().get<std::int64_t>(0);
}

void require_all_expired_once(pg::Connection& connection, const std::string& name_space,
                              std::int64_t expected) {
  const auto found = connection.execute(kExpiredOnce, Params::of(name_space), patient());
  const auto executions = found.one().get<std::int64_t>(0);
  const auto events = found.one().get<std::int64_t>(1);
  const auto left = leases_left(connection, name_space);
  if (executions != expected || events != expected || left != 0)
    throw std::runtime_error(fmt::format("of {} leases {} have expired, with {} events, and {} are left",
                                         expected, executions, events, left));
}

const Tables& lease_tables() {
  static const Tables tables{"ff_exec_core", "ff_attempt", "ff_completion_event", "ff_lease_event"};
  return tables;
}

void settle(pg::Connection& connection, const Tables& tables) {
  for (const std::string& table : tables) connection.execute_script("VACUUM (ANALYZE) " + table, patient());
  connection.execute_script("CHECKPOINT", patient());
}

void clear_out(pg::Connection& connection, const Tables& tables) {
  // To truncate 256 children takes a second, however few rows there are.
  constexpr std::int64_t kWorthATruncation = 50'000;
  for (const std::string& table : tables) {
    const auto counted = connection.execute("SELECT count(*) FROM " + table, {}, patient());
    if (counted.one().get<std::int64_t>(0) >= kWorthATruncation) {
      connection.execute_script("TRUNCATE " + table, patient());
    } else {
      connection.execute_script("DELETE FROM " + table, patient());
      connection.execute_script("VACUUM (ANALYZE) " + table, patient());
    }
  }
}

std::int64_t database_now_ms(pg::Connection& connection) {
  return connection.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
      .one()
      .get<std::int64_t>(0);
}

}  // namespace ff::bench
