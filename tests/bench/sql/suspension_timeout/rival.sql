-- $4 execution, $5 behaviour, $6 the new public state, $7 what comes of the execution.
-- name: list
SELECT execution_id FROM ff_suspension_current
 WHERE partition_key = $1 AND timeout_at_ms IS NOT NULL AND timeout_at_ms <= $2
 ORDER BY timeout_at_ms LIMIT $3;

-- name: lock
SELECT coalesce(timeout_behavior, 'fail') FROM ff_suspension_current
 WHERE {this_execution:$4} AND timeout_at_ms <= $3
   FOR UPDATE;

-- name: judge
-- for each: lock
SELECT CASE $5 WHEN 'cancel' THEN 'cancelled' ELSE 'expired' END,
       CASE WHEN lifecycle_phase <> 'suspended' THEN 'was resumed'
            WHEN $5 = 'auto_resume_with_timeout_signal' THEN 'resumes' ELSE 'ends' END
  FROM ff_exec_core WHERE {this_execution:$4} FOR UPDATE;

-- for each: judge
-- when: resumes
UPDATE ff_suspension_current
   SET timeout_at_ms = NULL, member_map = {signalled:member_map, $2}
 WHERE {this_execution:$4};

-- for each: judge
-- when: was resumed
UPDATE ff_suspension_current SET timeout_at_ms = NULL
 WHERE {this_execution:$4};

-- for each: judge
-- when: resumes
UPDATE ff_exec_core
   SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', public_state = 'resumable', raw_fields = {counted}
 WHERE {this_execution:$4};

-- for each: judge
-- when: ends
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = $6, terminal_at_ms = $2,
       cancellation_reason = 'suspension_timeout_' || $5,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'suspension_timeout')
 WHERE {this_execution:$4};

-- for each: judge
-- when: ends
DELETE FROM ff_suspension_current WHERE {this_execution:$4};

-- for each: judge
-- when: ends, resumes
DELETE FROM ff_waitpoint_pending WHERE {this_execution:$4};

-- for each: judge
-- when: ends, resumes
{completion_event:$4, public_state};
