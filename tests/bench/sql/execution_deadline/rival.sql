-- $4 execution, $5 attempt.
-- name: list
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND deadline_at_ms <= $2 AND lifecycle_phase = 'active'
 ORDER BY deadline_at_ms LIMIT $3;

-- name: lock
SELECT attempt_index FROM ff_exec_core
 WHERE {this_execution:$4} AND deadline_at_ms <= $3 AND lifecycle_phase = 'active'
   FOR UPDATE;

-- for each: lock
UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1, terminal_at_ms = $2
 WHERE {this_execution:$4} AND attempt_index = $5::integer;

-- for each: lock
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = 'expired', terminal_at_ms = $2,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'execution_deadline')
 WHERE {this_execution:$4};

-- for each: lock
DELETE FROM ff_suspension_current WHERE {this_execution:$4};

-- for each: lock
DELETE FROM ff_waitpoint_pending WHERE {this_execution:$4};

-- for each: lock
{completion_event:$4, public_state};

-- for each: lock
{lease_event:$4, 'expired'};
