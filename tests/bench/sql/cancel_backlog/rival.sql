-- $4 flow, $5 member, $6 execution; then $7 attempt, $8 what it has of a lease. Of what the header has cancelled and nobody
-- has revived or told of.
-- name: list
SELECT b.flow_id, m.execution_id
  FROM ff_cancel_backlog b
  JOIN ff_cancel_backlog_member m ON m.partition_key = $1 AND m.flow_id = b.flow_id
 WHERE b.partition_key = $1 AND greatest(b.requested_at_ms, b.grace_until_ms) <= $2
   AND (b.cancellation_policy = 'cancel_all'
        OR NOT EXISTS (SELECT FROM ff_attempt a
                        WHERE a.partition_key = $1 AND a.execution_id = split_part(m.execution_id, '}:', 2)::uuid
                          AND a.lease_expires_at_ms > $2))
 ORDER BY b.requested_at_ms LIMIT $3;

-- name: lock
SELECT split_part(m.execution_id, '}:', 2)
  FROM ff_cancel_backlog_member m
  JOIN ff_cancel_backlog b ON b.partition_key = $1 AND b.flow_id = $4::uuid
 WHERE m.partition_key = $1 AND m.flow_id = $4::uuid AND m.execution_id = $5
   AND greatest(b.requested_at_ms, b.grace_until_ms) <= $3
   FOR UPDATE OF m;

-- for each: lock
UPDATE ff_exec_core
   SET ownership_state = 'unowned', eligibility_state = 'not_applicable', public_state = 'cancelled',
       attempt_state = 'cancelled',
       raw_fields = raw_fields || jsonb_build_object('completion_repaired_for', terminal_at_ms)
 WHERE {this_execution:$6} AND lifecycle_phase = 'cancelled';

-- name: attempt
-- for each: lock
{last_attempt:$6};

-- for each: attempt
-- when: leased
{lease_event:$6, 'revoked'};

-- for each: attempt
UPDATE ff_attempt
   SET outcome = coalesce(outcome, 'cancelled'), terminal_at_ms = coalesce(terminal_at_ms, $2), lease_expires_at_ms = NULL,
       lease_epoch = lease_epoch + 1
 WHERE {this_execution:$6} AND attempt_index = $7::integer;

-- for each: lock
DELETE FROM ff_suspension_current WHERE {this_execution:$6};

-- for each: lock
DELETE FROM ff_waitpoint_pending WHERE {this_execution:$6};

-- for each: lock
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, 'cancelled', raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', terminal_at_ms
  FROM ff_exec_core WHERE {this_execution:$6};

-- for each: lock
DELETE FROM ff_cancel_backlog_member WHERE partition_key = $1 AND flow_id = $4::uuid AND execution_id = $5;
