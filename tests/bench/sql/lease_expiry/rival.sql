-- $4 execution, $5 attempt, $6 what becomes of it.
-- name: list
SELECT execution_id, attempt_index FROM ff_attempt
 WHERE partition_key = $1 AND lease_expires_at_ms IS NOT NULL AND lease_expires_at_ms <= $2
 ORDER BY lease_expires_at_ms LIMIT $3;

-- name: lock
SELECT FROM ff_attempt
 WHERE {this_execution:$4} AND attempt_index = $5::integer AND lease_expires_at_ms <= $3
   FOR UPDATE;

-- name: judge
-- for each: lock
SELECT CASE WHEN lifecycle_phase = 'active' AND attempt_index = $5::integer THEN 'reclaimable' ELSE 'released' END
  FROM ff_exec_core WHERE {this_execution:$4} FOR UPDATE;

-- for each: judge
UPDATE ff_attempt
   SET outcome = 'lease_expired_reclaimable', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1,
       raw_fields = CASE $6 WHEN 'reclaimable'
                            THEN raw_fields || jsonb_build_object(
                                   'lease_reclaims', coalesce((raw_fields->>'lease_reclaims')::bigint, 0) + 1)
                            ELSE raw_fields END
 WHERE {this_execution:$4} AND attempt_index = $5::integer;

-- for each: judge
-- when: reclaimable
UPDATE ff_exec_core
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting',
       raw_fields = raw_fields
         || jsonb_build_object('lease_expired_at_ms', $2, 'total_attempt_count', attempt_index::text)
 WHERE {this_execution:$4};

-- for each: judge
{lease_event:$4, 'expired'};
