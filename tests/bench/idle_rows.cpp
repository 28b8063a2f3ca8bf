#include "bench/idle_rows.hpp"

#include <array>

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

// In each: $1 how many, $2 now, $3 a day later. The same i is the same execution in all of them.

constexpr std::string_view kActive = R"sql(
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                          public_state, attempt_state, created_at_ms, deadline_at_ms, policy, raw_fields)
SELECT i % 256, md5('active ' || i)::uuid, 'default', 'active', 'leased', 'not_applicable', 'running',
       'running_attempt', $2, $3 + i, '{"retry_policy": {"max_retries": 3}}', '{"namespace": "idle"}'
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kLeased = R"sql(
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms,
                        started_at_ms)
SELECT i % 256, md5('active ' || i)::uuid, 0, 'w-' || i % 100, 1, $3 + i, $2
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kDelayed = R"sql(
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                          public_state, attempt_state, created_at_ms, deadline_at_ms, raw_fields)
SELECT i % 256, md5('delayed ' || i)::uuid, 'default', 'runnable', 'unowned', 'not_eligible_until_time', 'delayed',
       'attempt_interrupted', $2, $3 + i, '{"namespace": "idle"}'
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kSuspended = R"sql(
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                          public_state, attempt_state, created_at_ms, raw_fields)
SELECT i % 256, md5('suspended ' || i)::uuid, 'default', 'suspended', 'released', 'not_applicable', 'suspended',
       'attempt_interrupted', $2 + 0 * $3, '{"namespace": "idle"}'
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kSuspension = R"sql(
INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, timeout_at_ms,
                                   condition, timeout_behavior)
SELECT i % 256, md5('suspended ' || i)::uuid, gen_random_uuid(), $2, $3 + i, '{}', 'fail'
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kWaitpoint = R"sql(
INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms,
                                  expires_at_ms, state)
SELECT i % 256, gen_random_uuid(), md5('suspended ' || i)::uuid, 'k', 't', $2, $3 + i, 'active'
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kBudget = R"sql(
INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, next_reset_at_ms)
SELECT i % 256, 'budget ' || i, '{"reset_interval_ms": 86400000}', $2, $2, $3 + i
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kUsage = R"sql(
INSERT INTO ff_budget_usage (partition_key, budget_id, dimensions_key, current_value, updated_at_ms)
SELECT i % 256, 'budget ' || i, 'tokens', 1, $2 + 0 * $3 FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kWorker = R"sql(
INSERT INTO ff_worker_registry (partition_key, namespace, worker_instance_id, worker_id, lanes, capabilities_csv,
                                last_heartbeat_ms, liveness_ttl_ms, registered_at_ms)
SELECT i % 256, 'idle', 'instance ' || i, 'w-' || i, '{default}', '', $2, $3 - $2, $2
  FROM generate_series(1, $1) AS i)sql";

constexpr std::string_view kDispatched = R"sql(
INSERT INTO ff_completion_event (partition_key, execution_id, outcome, namespace, occurred_at_ms, committed_at_ms,
                                 dispatched_at_ms)
SELECT i % 256, gen_random_uuid(), 'success', 'idle', $2, $2, $2 + 0 * $3 FROM generate_series(1, $1) AS i)sql";

struct Kind {
  std::string_view sql;
  int per_mille;  // of all rows
};

constexpr std::array kKinds{Kind{kActive, 200},    Kind{kLeased, 200},    Kind{kDelayed, 150},
                            Kind{kSuspended, 80},  Kind{kSuspension, 80}, Kind{kWaitpoint, 80},
                            Kind{kBudget, 20},     Kind{kUsage, 20},      Kind{kWorker, 10},
                            Kind{kDispatched, 160}};

}  // namespace

std::int64_t add_idle_rows(pg::Connection& connection, int count) {
  const std::int64_t now = database_now_ms(connection);
  const std::int64_t tomorrow = now + Milliseconds{24h}.count();
  std::int64_t added = 0;
  for (const Kind& kind : kKinds)
    added += connection
                 .execute(kind.sql, pg::Params::of(count / 1000 * kind.per_mille, now, tomorrow),
                          Clock::system().now() + 10min)
                 .affected();
  return added;
}

const Tables& idle_tables() {
  static const Tables tables{"ff_exec_core",         "ff_attempt",         "ff_suspension_current",
                             "ff_waitpoint_pending", "ff_budget_policy",   "ff_budget_usage",
                             "ff_worker_registry",   "ff_completion_event"};
  return tables;
}

}  // namespace ff::bench
