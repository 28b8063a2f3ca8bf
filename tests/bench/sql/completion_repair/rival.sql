-- $4 execution, $5 its end; then $6 attempt, $7 what it has of a lease. Of what was cancelled, nothing was replayed, and no
-- worker may finish.
-- name: list
SELECT c.execution_id, c.terminal_at_ms
  FROM ff_exec_core c
 WHERE c.partition_key = $1 AND c.lifecycle_phase = 'cancelled'
   AND c.terminal_at_ms <= $2 AND c.terminal_at_ms >= $2 - 86400000
   AND c.raw_fields->'completion_repaired_for' IS DISTINCT FROM to_jsonb(c.terminal_at_ms)
   AND NOT EXISTS (SELECT FROM ff_completion_event e
                    WHERE e.partition_key = $1 AND e.execution_id = c.execution_id AND e.outcome <> 'resumable')
   AND EXISTS (SELECT FROM ff_edge g
                 JOIN ff_exec_core d ON d.partition_key = $1 AND d.execution_id = g.downstream_eid
                WHERE g.partition_key = $1 AND g.flow_id = c.flow_id AND g.upstream_eid = c.execution_id
                  AND g.policy->>'edge_state' IS DISTINCT FROM 'pending'
                  AND d.lifecycle_phase IN ('submitted', 'runnable', 'blocked'))
 ORDER BY c.terminal_at_ms LIMIT $3;

-- name: lock
SELECT FROM ff_exec_core c
 WHERE {this_execution:$4} AND lifecycle_phase = 'cancelled' AND terminal_at_ms = $5::bigint AND terminal_at_ms <= $3
   AND NOT EXISTS (SELECT FROM ff_completion_event e
                    WHERE e.partition_key = $1 AND e.execution_id = c.execution_id AND e.outcome <> 'resumable')
   FOR UPDATE;

-- name: attempt
-- for each: lock
{last_attempt:$4};

-- for each: attempt
-- when: leased
{lease_event:$4, 'revoked'};

-- for each: attempt
UPDATE ff_attempt
   SET outcome = CASE $7 WHEN 'leased' THEN coalesce(outcome, 'cancelled') ELSE outcome END, lease_expires_at_ms = NULL,
       lease_epoch = lease_epoch + 1
 WHERE {this_execution:$4} AND attempt_index = $6::integer;

-- for each: lock
DELETE FROM ff_suspension_current WHERE {this_execution:$4};

-- for each: lock
DELETE FROM ff_waitpoint_pending WHERE {this_execution:$4};

-- for each: lock
UPDATE ff_exec_core
   SET ownership_state = CASE ownership_state WHEN 'leased' THEN 'unowned' ELSE ownership_state END,
       raw_fields = raw_fields || jsonb_build_object('completion_repaired_for', terminal_at_ms)
 WHERE {this_execution:$4};

-- for each: lock
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, 'cancelled', raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', terminal_at_ms
  FROM ff_exec_core WHERE {this_execution:$4};
