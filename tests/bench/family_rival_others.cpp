#include "bench/family_rival.hpp"

// The reconcilers that touch no execution.

namespace ff::bench {
namespace {

// $4 budget, $5 its next reset.
RowByRow budget_reset() {
  return {.name = "budget_reset",
          .list = R"sql(
SELECT budget_id FROM ff_budget_policy
 WHERE partition_key = $1 AND next_reset_at_ms IS NOT NULL AND next_reset_at_ms <= $2
 ORDER BY next_reset_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT $2 + (policy_json->>'reset_interval_ms')::bigint FROM ff_budget_policy
 WHERE partition_key = $1 AND budget_id = $4 AND next_reset_at_ms <= $3
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
UPDATE ff_budget_usage SET current_value = 0, last_reset_at_ms = $2, updated_at_ms = $2
 WHERE partition_key = $1 AND budget_id = $4)sql"},
                      {R"sql(
DELETE FROM ff_budget_usage_by_exec WHERE partition_key = $1 AND budget_id = $4)sql"},
                      {R"sql(
UPDATE ff_budget_policy
   SET last_breach_at_ms = NULL, last_breach_dim = NULL, updated_at_ms = $2, next_reset_at_ms = $5::bigint
 WHERE partition_key = $1 AND budget_id = $4)sql"}}}}};
}

// $4 quota.
RowByRow quota_concurrency() {
  return {.name = "quota_concurrency",
          .list = R"sql(
SELECT quota_policy_id FROM ff_quota_policy q
 WHERE partition_key = $1
   AND active_concurrency > (SELECT count(*) FROM ff_quota_admitted g
                              WHERE g.partition_key = $1 AND g.quota_policy_id = q.quota_policy_id
                                AND g.expires_at_ms >= $2 - 60000)
 LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_quota_policy WHERE partition_key = $1 AND quota_policy_id = $4 AND $3::bigint > 0 FOR UPDATE)sql",
                     {},
                     {{R"sql(
DELETE FROM ff_quota_admitted
 WHERE partition_key = $1 AND quota_policy_id = $4 AND expires_at_ms < $2 - 60000)sql"},
                      {R"sql(
UPDATE ff_quota_policy
   SET active_concurrency = (SELECT count(*) FROM ff_quota_admitted
                              WHERE partition_key = $1 AND quota_policy_id = $4),
       updated_at_ms = $2
 WHERE partition_key = $1 AND quota_policy_id = $4)sql"}}}}};
}

// $4 quota, $5 execution. Whether the quota is idle is not asked.
RowByRow quota_window() {
  return {.name = "quota_window",
          .list = R"sql(
SELECT quota_policy_id, execution_id FROM ff_quota_window
 WHERE partition_key = $1 AND admitted_at_ms <= $2
 ORDER BY quota_policy_id, dimension, admitted_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_quota_window
 WHERE partition_key = $1 AND quota_policy_id = $4 AND execution_id = $5 AND admitted_at_ms <= $3
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
DELETE FROM ff_quota_window
 WHERE partition_key = $1 AND quota_policy_id = $4 AND execution_id = $5)sql"}}}}};
}

// $4 namespace, $5 instance.
RowByRow worker_registry_ttl() {
  return {.name = "worker_registry_ttl",
          .list = R"sql(
SELECT namespace, worker_instance_id FROM ff_worker_registry
 WHERE partition_key = $1 AND last_heartbeat_ms + liveness_ttl_ms <= $2
 ORDER BY last_heartbeat_ms + liveness_ttl_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_worker_registry
 WHERE partition_key = $1 AND namespace = $4 AND worker_instance_id = $5
   AND last_heartbeat_ms + liveness_ttl_ms <= $3
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
DELETE FROM ff_worker_registry
 WHERE partition_key = $1 AND namespace = $4 AND worker_instance_id = $5)sql"},
                      {R"sql(
INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
VALUES ($1, $4, $5, $2, 'ttl_swept') ON CONFLICT DO NOTHING)sql"}}}}};
}

// $4 event, $5 its outbox.
RowByRow outbox_retention() {
  return {.name = "outbox_retention",
          .list = R"sql(
(SELECT event_id, 'lease' FROM ff_lease_event
  WHERE partition_key = $1 AND occurred_at_ms <= $2
  ORDER BY event_id LIMIT $3)
 UNION ALL
(SELECT event_id, 'completion' FROM ff_completion_event
  WHERE partition_key = $1 AND dispatched_at_ms IS NOT NULL AND committed_at_ms <= $2
  ORDER BY event_id LIMIT $3)
 UNION ALL
(SELECT event_id, 'signal' FROM ff_signal_event
  WHERE partition_key = $1 AND delivered_at_ms <= $2
  ORDER BY event_id LIMIT $3)
 UNION ALL
(SELECT event_id, 'operator' FROM ff_operator_event
  WHERE partition_key = $1 AND occurred_at_ms <= $2
  ORDER BY event_id LIMIT $3))sql",
          .steps = {{R"sql(
SELECT FROM ff_lease_event WHERE event_id = $4::bigint AND occurred_at_ms <= $3 FOR UPDATE)sql",
                     {"lease"},
                     {{"DELETE FROM ff_lease_event WHERE event_id = $4::bigint"}}},
                    {R"sql(
SELECT FROM ff_completion_event
 WHERE partition_key = $1 AND event_id = $4::bigint AND dispatched_at_ms IS NOT NULL AND committed_at_ms <= $3
   FOR UPDATE)sql",
                     {"completion"},
                     {{R"sql(
DELETE FROM ff_completion_event WHERE partition_key = $1 AND event_id = $4::bigint)sql"}}},
                    {R"sql(
SELECT FROM ff_signal_event WHERE event_id = $4::bigint AND delivered_at_ms <= $3 FOR UPDATE)sql",
                     {"signal"},
                     {{"DELETE FROM ff_signal_event WHERE event_id = $4::bigint"}}},
                    {R"sql(
SELECT FROM ff_operator_event WHERE event_id = $4::bigint AND occurred_at_ms <= $3 FOR UPDATE)sql",
                     {"operator"},
                     {{"DELETE FROM ff_operator_event WHERE event_id = $4::bigint"}}}}};
}

}  // namespace

std::vector<RowByRow> other_rivals() {
  return {budget_reset(), quota_concurrency(), quota_window(), worker_registry_ttl(), outbox_retention()};
}

}  // namespace ff::bench
