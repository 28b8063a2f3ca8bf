#include "bench/row_by_row.hpp"

namespace ff::bench {
namespace {

using pg::Params;

constexpr int kBatch = 1000;

constexpr std::string_view kNow = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

constexpr std::string_view kLapsed = R"sql(
SELECT a.execution_id, a.attempt_index
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.partition_key = $1 AND a.lease_expires_at_ms IS NOT NULL AND a.lease_expires_at_ms < $2
   AND c.lifecycle_phase = 'active'
 ORDER BY a.lease_expires_at_ms
 LIMIT $3)sql";

constexpr std::string_view kLockAttempt = R"sql(
SELECT lease_expires_at_ms FROM ff_attempt
 WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3 FOR UPDATE)sql";

constexpr std::string_view kLockCore = R"sql(
SELECT attempt_index, lifecycle_phase, coalesce((policy->'retry_policy'->>'max_retries')::bigint, 0) AS max_retries
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2 FOR UPDATE)sql";

constexpr std::string_view kInterrupt = R"sql(
UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, terminal_at_ms = $4, lease_epoch = lease_epoch + 1
 WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

constexpr std::string_view kRetry = R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting', attempt_index = attempt_index + 1,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'attempt_timeout',
                                                     'total_attempt_count', (attempt_index + 1)::text)
 WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kExpire = R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = 'expired', terminal_at_ms = $3,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'attempt_timeout')
 WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kCompletion = R"sql(
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, 'expired', raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', $3
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kLeaseEvent = R"sql(
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT execution_id::text, 'expired', $3, partition_key, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2)sql";

bool expire_one(pg::Connection& connection, PartitionKey partition, const Uuid& execution,
                std::int32_t attempt, std::int64_t now) {
  connection.execute_script("BEGIN");
  const auto lease = connection.execute_prepared(kLockAttempt, Params::of(partition, execution, attempt));
  const auto expires = lease.empty() ? std::nullopt : lease[0].get<std::optional<std::int64_t>>(0);
  const auto core = connection.execute_prepared(kLockCore, Params::of(partition, execution));
  if (!expires || *expires >= now || core.empty() || core[0].get<std::string_view>(1) != "active") {
    connection.execute_script("ROLLBACK");
    return false;
  }
  connection.execute_prepared(kInterrupt, Params::of(partition, execution, attempt, now));
  if (core[0].get<std::int32_t>(0) < core[0].get<std::int64_t>(2)) {
    connection.execute_prepared(kRetry, Params::of(partition, execution));
  } else {
    connection.execute_prepared(kExpire, Params::of(partition, execution, now));
    connection.execute_prepared(kCompletion, Params::of(partition, execution, now));
  }
  connection.execute_prepared(kLeaseEvent, Params::of(partition, execution, now));
  connection.execute_script("COMMIT");
  return true;
}

}  // namespace

std::int64_t attempt_timeout_row_by_row(pg::Connection& connection, const Partitions& partitions) {
  std::int64_t moved = 0;
  for (const PartitionKey partition : partitions) {
    for (std::int64_t in_page = -1; in_page != 0;) {
      in_page = 0;
      const auto now = connection.execute(kNow).one().get<std::int64_t>(0);
      const auto rows = connection.execute_prepared(kLapsed, Params::of(partition, now, kBatch));
      for (const pg::Row row : rows)
        in_page += expire_one(connection, partition, row.get<Uuid>(0), row.get<std::int32_t>(1), now) ? 1 : 0;
      moved += in_page;
      if (rows.size() < kBatch) break;
    }
  }
  return moved;
}

}  // namespace ff::bench
