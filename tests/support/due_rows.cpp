#include "support/due_rows.hpp"

#include <string>

namespace ff::test {
namespace {

// One line per partition and number; `v` counts the due ones and the others of a partition, and chooses the kind
// of row. Executions of their own come from `execution`, those of flows from `flow` and its `upstream`s.
constexpr std::string_view kSeeds = R"sql(
CREATE TEMP TABLE seed AS
  SELECT partition_key, due, v,
         floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
           + CASE WHEN due THEN -60000 - 10 * v ELSE 86400000 + 10 * v END AS at_ms
    FROM (SELECT partition_key, due, row_number() OVER (PARTITION BY partition_key, due) AS v
            FROM (SELECT p::smallint AS partition_key, (n % one_due_in = 0) <> (p = crowded) AS due
                    FROM wanted, generate_series(0, partitions - 1) p, generate_series(1, per_partition) n) line) line;
CREATE TEMP TABLE execution AS
  SELECT seed.*, kind, gen_random_uuid() AS execution_id
    FROM seed, unnest('{delayed,retried,parent,late,lapsed,again,suspended,waiting,cancelled,promised,abandoned,
                       ahead,stray,kept,revived}'::text[]) kind;
CREATE TEMP TABLE flow AS
  SELECT seed.*, kind, gen_random_uuid() AS flow_id, gen_random_uuid() AS downstream_eid
    FROM seed, unnest('{fan_in,cancel,untold,misled,dropped}'::text[]) kind;
CREATE TEMP TABLE upstream AS
  SELECT flow.*, j, gen_random_uuid() AS execution_id
    FROM flow, generate_series(1, CASE WHEN due THEN 4 ELSE 1 END) j;
CREATE TEMP TABLE core AS
  SELECT partition_key, execution_id, CASE kind WHEN 'parent' THEN execution_id END AS flow_id, at_ms, kind,
         CASE WHEN kind IN ('delayed', 'retried', 'parent', 'promised', 'abandoned') OR kind = 'suspended' AND v % 13 = 0
                THEN 'runnable'
              WHEN kind IN ('cancelled', 'kept') AND due THEN 'cancelled'
              WHEN kind = 'kept' OR kind = 'late' AND v % 3 > 0 OR kind IN ('lapsed', 'again') AND v % 4 < 3 THEN 'active'
              WHEN kind IN ('lapsed', 'again') OR kind = 'suspended' AND v % 7 = 0 THEN 'terminal'
              ELSE 'suspended' END AS lifecycle_phase,
         CASE WHEN kind IN ('delayed', 'retried') THEN 'not_eligible_until_time'
              WHEN kind IN ('promised', 'abandoned') THEN 'pending_claim'
              WHEN kind = 'parent' THEN 'blocked_by_dependencies' ELSE 'not_applicable' END AS eligibility_state,
         CASE WHEN kind IN ('delayed', 'late') THEN at_ms END AS deadline_at_ms,
         CASE WHEN kind IN ('lapsed', 'again') AND v % 4 = 2 OR kind = 'ahead' AND due THEN 1 ELSE 0 END AS attempt_index,
         CASE WHEN kind IN ('lapsed', 'again') AND v % 4 = 0 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END AS policy
    FROM execution
   WHERE NOT (kind IN ('lapsed', 'again') AND v % 16 = 7 OR kind = 'suspended' AND v % 11 = 0)
   UNION ALL
  SELECT partition_key, downstream_eid, flow_id, at_ms, kind,
         CASE WHEN kind = 'cancel' THEN 'runnable' WHEN kind = 'dropped' OR v % 5 = 0 THEN 'suspended'
              ELSE 'blocked' END,
         'not_applicable', NULL, 0, NULL
    FROM flow
   UNION ALL
  SELECT partition_key, execution_id, flow_id, at_ms, kind,
         CASE WHEN kind IN ('untold', 'dropped') AND j = 1 OR kind = 'untold' AND j < 4 THEN 'cancelled'
              WHEN kind = 'fan_in' AND j < 4 OR kind = 'cancel' AND v % 2 = 1 OR kind = 'misled' AND due
                OR kind IN ('untold', 'dropped') AND j = 4 THEN 'terminal'
              WHEN j = 3 THEN 'suspended' ELSE 'active' END,
         'not_applicable', NULL, 0, NULL
    FROM upstream;
)sql";

// Whatever is not due itself, such as the lease of an execution whose deadline has passed, ends in two hours.
constexpr std::string_view kExecutions = R"sql(
INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, ownership_state,
                          eligibility_state, public_state, attempt_state, attempt_index, created_at_ms,
                          deadline_at_ms, policy, blocking_reason, raw_fields, cancelled_by,
                          terminal_at_ms)
  SELECT partition_key, execution_id, flow_id, 'default', lifecycle_phase, 'unowned', eligibility_state,
         CASE kind WHEN 'retried' THEN 'delayed' ELSE 'running' END,
         CASE kind WHEN 'ahead' THEN 'attempt_interrupted' ELSE 'running_attempt' END, attempt_index,
         CASE kind WHEN 'parent' THEN at_ms ELSE 0 END, deadline_at_ms, policy,
         CASE kind WHEN 'retried' THEN 'waiting_for_retry_backoff' WHEN 'parent' THEN 'waiting_for_children' END,
         CASE kind WHEN 'retried' THEN jsonb_build_object('delay_until', at_ms::text)
                   WHEN 'late' THEN jsonb_build_object('namespace', CASE WHEN at_ms / 10 % 4 = 0 THEN 'b' ELSE 'a' END)
                   WHEN 'abandoned' THEN jsonb_build_object('claim_grant', jsonb_build_object('expires_at_ms', at_ms)) ELSE '{}' END,
         CASE kind WHEN 'revived' THEN 'operator_override' END,
         CASE WHEN lifecycle_phase = 'cancelled' OR kind = 'revived' OR kind IN ('untold', 'misled') AND lifecycle_phase = 'terminal'
                THEN at_ms END
    FROM core;
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, lease_epoch, lease_expires_at_ms, worker_instance_id)
  SELECT partition_key, execution_id, CASE kind WHEN 'ahead' THEN 0 ELSE attempt_index END, 1,
         CASE WHEN lifecycle_phase = 'active' OR kind = 'kept' THEN at_ms + 7200000 END, CASE kind WHEN 'late' THEN 'dead' END
    FROM core
   WHERE lifecycle_phase IN ('active', 'suspended') OR kind = 'kept';
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, lease_epoch, lease_expires_at_ms, raw_fields)
  SELECT partition_key, execution_id, 0, 1, at_ms, CASE kind WHEN 'again' THEN '{"lease_reclaims": 1}'::jsonb ELSE '{}' END
    FROM execution WHERE kind IN ('lapsed', 'again')
  ON CONFLICT (partition_key, execution_id, attempt_index)
    DO UPDATE SET lease_expires_at_ms = excluded.lease_expires_at_ms, raw_fields = excluded.raw_fields;
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, lease_epoch)
  SELECT partition_key, execution_id, 0, 1 FROM upstream WHERE kind = 'untold' AND due AND j = 1;
INSERT INTO ff_claim_grant (partition_key, grant_id, execution_id, kind, worker_id, worker_instance_id, grant_ttl_ms,
                            issued_at_ms, expires_at_ms)
  SELECT partition_key, sha256(execution_id::text::bytea), execution_id, 'claim', 'w', 'w', 1000, at_ms - 1000, at_ms
    FROM execution
   WHERE kind = 'promised' OR kind = 'late' AND v % 3 = 1;
INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, condition,
                                   timeout_at_ms, timeout_behavior)
  SELECT partition_key, execution_id, execution_id, 0, '{}', at_ms,
         ('{auto_resume_with_timeout_signal,expire,escalate,cancel,fail}'::text[])[v % 6]
    FROM execution
   WHERE kind = 'suspended';
INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, condition,
                                   timeout_at_ms)
  SELECT c.partition_key, c.execution_id, c.execution_id, CASE WHEN e.is_keyless THEN c.at_ms ELSE 0 END,
         CASE WHEN e.is_keyless THEN '{"Single": {"waitpoint_key": "lost", "matcher": {"ByName": "go"}}}'
              ELSE '{}' END::jsonb,
         c.at_ms + 7200000
    FROM core c
    LEFT JOIN (SELECT *, kind = 'stray' AND due AND v % 5 = 1 AS is_keyless FROM execution) e USING (execution_id)
   WHERE c.lifecycle_phase IN ('suspended', 'cancelled') AND (e.kind IS NULL OR e.v % 5 > 0 OR NOT (e.kind = 'waiting' OR e.kind = 'stray' AND e.due))
  ON CONFLICT DO NOTHING;
INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms,
                                  expires_at_ms, waitpoint_key, state, activated_at_ms)
  SELECT c.partition_key, gen_random_uuid(), c.execution_id, 'k', 't', 0,
         CASE WHEN e.kind = 'waiting' THEN c.at_ms ELSE c.at_ms + 7200000 END, key,
         CASE WHEN e.kind = 'stray' THEN 'active' ELSE 'pending' END,
         CASE WHEN e.kind = 'stray' THEN CASE WHEN e.due THEN c.at_ms ELSE 0 END END
    FROM core c
    LEFT JOIN execution e USING (execution_id), unnest('{named,""}'::text[]) key
   WHERE c.lifecycle_phase IN ('suspended', 'cancelled');
)sql";

constexpr std::string_view kFlows = R"sql(
INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT partition_key, flow_id, gen_random_uuid(), execution_id, downstream_eid, '{}' FROM upstream;
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, success_count)
  SELECT partition_key, flow_id, execution_id, '{}', 1 FROM core WHERE kind = 'parent';
-- What was over a month ago: executions by themselves, and flows of two.
CREATE TEMP TABLE past AS
  SELECT partition_key, due, v, gen_random_uuid() AS flow_id, gen_random_uuid() AS execution_id,
         CASE WHEN due THEN at_ms - 2592000000 ELSE at_ms END AS at_ms
    FROM seed;
INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms)
  SELECT partition_key, flow_id, 'open', at_ms FROM past;
INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, ownership_state,
                          eligibility_state, public_state, attempt_state, created_at_ms, terminal_at_ms)
  SELECT partition_key, id, flow, 'default', 'terminal', 'unowned', 'not_applicable', 'completed', 'attempt_terminal',
         least(at_ms, 0), at_ms
    FROM past,
         LATERAL (VALUES (gen_random_uuid(), NULL::uuid), (execution_id, flow_id), (gen_random_uuid(), flow_id)) m(id, flow);
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, started_at_ms, terminal_at_ms)
  SELECT c.partition_key, c.execution_id, 0, c.terminal_at_ms, c.terminal_at_ms
    FROM ff_exec_core c
   WHERE c.public_state = 'completed';
INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT partition_key, flow_id, gen_random_uuid(), gen_random_uuid(), execution_id, '{}' FROM past;
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy)
  SELECT partition_key, flow_id, execution_id, '{}' FROM past;
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, running_count)
  SELECT partition_key, flow_id, downstream_eid,
         ('{"{}","{\"kind\": \"any_of\"}","{\"kind\": \"quorum\", \"k\": 2}"}'::jsonb[])[v % 3 + 1], 4
    FROM flow
   WHERE kind = 'fan_in';
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, running_count)
  SELECT partition_key, flow_id, downstream_eid, CASE WHEN v % 2 = 0 THEN '{"kind": "any_of"}' ELSE '{}' END::jsonb, 1
    FROM flow
   WHERE kind = 'misled';
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, occurred_at_ms, committed_at_ms,
                                 dispatched_at_ms)
  SELECT partition_key, execution_id, flow_id,
         CASE WHEN v % 4 = 3 OR v % 4 = 1 AND j = 1 THEN 'failed' WHEN v % 4 = 2 AND j = 1 THEN 'skipped'
              ELSE 'success' END,
         happened_at_ms, happened_at_ms, CASE WHEN NOT due OR kind = 'misled' THEN at_ms END
    FROM upstream,
 LATERAL (SELECT CASE WHEN NOT due OR kind = 'misled' THEN at_ms - 864000000 ELSE at_ms END AS happened_at_ms) h
   WHERE kind = 'fan_in' AND j < 4 OR kind = 'misled' AND due OR kind = 'untold' AND NOT due;
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, success_count, running_count,
                           cancel_siblings_pending_flag, cancel_siblings_pending_members)
  SELECT partition_key, flow_id, downstream_eid, '{"kind": "any_of"}', 1, 3, v % 8 <> 7,
         array_agg(execution_id::text) || CASE WHEN v % 5 = 0 THEN '{malformed}'::text[] END
    FROM upstream
   WHERE kind = 'cancel' AND v % 16 <> 3
   GROUP BY partition_key, flow_id, downstream_eid, v;
INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
  SELECT partition_key, flow_id, downstream_eid, at_ms FROM flow WHERE kind = 'cancel';
INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, cancellation_policy)
  SELECT partition_key, flow_id, at_ms, CASE WHEN v % 2 = 0 THEN 'cancel_all' ELSE 'cancel_pending' END
    FROM flow
   WHERE kind = 'dropped'
   UNION ALL
  SELECT partition_key, gen_random_uuid(), at_ms, 'cancel_all' FROM seed;
INSERT INTO ff_cancel_backlog_member (partition_key, flow_id, execution_id)
  SELECT partition_key, flow_id, '{fp:' || partition_key || '}:' || execution_id FROM upstream WHERE kind = 'dropped'
   UNION ALL
  SELECT partition_key, flow_id, 'malformed' FROM flow WHERE kind = 'dropped' AND v % 5 = 0;
)sql";

// Several times as many that are not due: else reading all is the right choice.
constexpr std::string_view kOthers = R"sql(
CREATE TEMP TABLE other AS
  SELECT seed.*, due || ' ' || v || ' ' || copy AS name,
         CASE WHEN due THEN at_ms - 691200000 ELSE at_ms END AS occurred_at_ms
    FROM seed, generate_series(1, CASE WHEN due THEN 1 ELSE 6 END) copy
   ORDER BY due DESC;
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)
  SELECT gen_random_uuid()::text, 'expired', occurred_at_ms, partition_key FROM other;
-- The newest of all, fewer than the ten thousand that are read.
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)
  SELECT execution_id::text, 'revoked', at_ms + 86400000, partition_key
    FROM execution
   WHERE kind = 'cancelled' AND (due OR v % 2 = 0) OR kind IN ('ahead', 'stray') AND due AND v % 2 = 0 OR kind IN ('retried', 'parent') AND due
   UNION ALL
  SELECT execution_id::text, 'revoked', at_ms + 86400000, partition_key
    FROM upstream
   WHERE kind = 'untold' AND due AND v % 6 = 2;
INSERT INTO ff_signal_event (execution_id, signal_id, delivered_at_ms, partition_key)
  SELECT gen_random_uuid()::text, 's', occurred_at_ms, partition_key FROM other;
INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key)
  SELECT gen_random_uuid()::text, 'priority_changed', occurred_at_ms, partition_key FROM other;
INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
  SELECT partition_key, 'a', name, occurred_at_ms, 'heartbeat' FROM other;
INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms, committed_at_ms, dispatched_at_ms)
  SELECT partition_key, gen_random_uuid(), 'success', occurred_at_ms, occurred_at_ms, at_ms
    FROM other, generate_series(1, CASE WHEN due THEN 1 ELSE 4 END)
   ORDER BY due DESC;
INSERT INTO ff_budget_usage_dedup (partition_key, dedup_key, outcome_json, applied_at_ms, expires_at_ms)
  SELECT partition_key, name, '{}', 0, CASE WHEN due THEN at_ms - 3600000 ELSE at_ms END FROM other;
INSERT INTO ff_suspend_dedup (partition_key, idempotency_key, outcome_json, created_at_ms)
  SELECT partition_key, name, '{}', CASE WHEN due THEN at_ms - 2592000000 ELSE at_ms END FROM other;
INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, next_reset_at_ms)
  SELECT partition_key, name, CASE v % 2 WHEN 0 THEN '{"reset_interval_ms": 60000}'::jsonb ELSE '{}' END, 0, 0, at_ms
    FROM other;
INSERT INTO ff_budget_usage (partition_key, budget_id, dimensions_key, current_value, updated_at_ms)
  SELECT partition_key, name, dimension, 5, 0 FROM other, unnest('{one,two,three}'::text[]) dimension WHERE due;
INSERT INTO ff_budget_usage (partition_key, budget_id, dimensions_key, current_value, updated_at_ms)
  SELECT partition_key, name, 'one', 5, 0 FROM other WHERE NOT due;
INSERT INTO ff_budget_usage_by_exec (partition_key, budget_id, execution_id, dimensions_key, delta_total, updated_at_ms)
  SELECT partition_key, name, gen_random_uuid(), dimension, 5, 0
    FROM other, unnest('{one,two,three}'::text[]) dimension;
INSERT INTO ff_quota_policy (partition_key, quota_policy_id, requests_per_window_seconds, max_requests_per_window,
                             active_concurrency_cap, active_concurrency, created_at_ms, updated_at_ms)
  SELECT partition_key, name, 60, 0, 5, CASE WHEN due THEN 4 ELSE 1 END, 0, 0 FROM other;
INSERT INTO ff_quota_admitted (partition_key, quota_policy_id, execution_id, admitted_at_ms, expires_at_ms)
  SELECT partition_key, name, '{fp:1}:' || gen_random_uuid(), at_ms - 120000,
         CASE WHEN due THEN at_ms - 60000 ELSE at_ms END
    FROM other;
INSERT INTO ff_quota_window (partition_key, quota_policy_id, admitted_at_ms, execution_id)
  SELECT partition_key, name, occurred_at_ms, '{fp:1}:' || gen_random_uuid() FROM other;
INSERT INTO ff_worker_registry (partition_key, namespace, worker_instance_id, worker_id, lanes, capabilities_csv,
                                last_heartbeat_ms, liveness_ttl_ms, registered_at_ms)
  SELECT partition_key, 'a', name, 'w', '{}', '', at_ms, 1, 0 FROM other
   UNION ALL
  SELECT 7, 'a', 'dead', 'w', '{}'::text[], '', 0, 1, 0;
)sql";

}  // namespace

void insert_due_rows(pg::Connection& connection, const DueRows& wanted) {
  connection.execute(
      "CREATE TEMP TABLE wanted (partitions integer, per_partition integer, one_due_in integer, crowded "
      "integer)");
  connection.execute(
      "INSERT INTO wanted VALUES ($1, $2, $3, $4)",
      pg::Params::of(wanted.partitions, wanted.per_partition, wanted.one_due_in, wanted.crowded));
  for (const std::string_view part : {kSeeds, kExecutions, kFlows, kOthers})
    connection.execute_script(std::string(part));
  connection.execute_script("DROP TABLE wanted, seed, execution, flow, past, upstream, core, other");
  connection.execute_script("ANALYZE");
}

}  // namespace ff::test
