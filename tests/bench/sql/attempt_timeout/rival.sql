-- $4 execution, $5 attempt, $6 what becomes of it.
-- name: list
SELECT a.execution_id, a.attempt_index
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.partition_key = $1 AND a.lease_expires_at_ms IS NOT NULL AND a.lease_expires_at_ms < $2
   AND c.lifecycle_phase = 'active'
 ORDER BY a.lease_expires_at_ms
 LIMIT $3;

-- name: lock
SELECT FROM ff_attempt
 WHERE {this_execution:$4} AND attempt_index = $5::integer AND lease_expires_at_ms < $2
   FOR UPDATE;

-- name: judge
-- for each: lock
SELECT CASE WHEN attempt_index < coalesce((policy->'retry_policy'->>'max_retries')::bigint, 0)
            THEN 'retries' ELSE 'ends' END
  FROM ff_exec_core WHERE {this_execution:$4} AND lifecycle_phase = 'active' FOR UPDATE;

-- for each: judge
UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, terminal_at_ms = $2, lease_epoch = lease_epoch + 1
 WHERE {this_execution:$4} AND attempt_index = $5::integer;

-- for each: judge
-- when: retries
UPDATE ff_exec_core
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting', attempt_index = attempt_index + 1,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'attempt_timeout',
                                                     'total_attempt_count', (attempt_index + 1)::text)
 WHERE {this_execution:$4};

-- for each: judge
-- when: ends
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = 'expired', terminal_at_ms = $2,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'attempt_timeout')
 WHERE {this_execution:$4};

-- for each: judge
-- when: ends
{completion_event:$4, 'expired'};

-- for each: judge
{lease_event:$4, 'expired'};
