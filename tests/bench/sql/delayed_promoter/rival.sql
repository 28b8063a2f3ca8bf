-- $4 execution.
-- name: list
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND deadline_at_ms <= $2
   AND lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time'
 ORDER BY deadline_at_ms LIMIT $3;

-- name: lock
SELECT FROM ff_exec_core
 WHERE {this_execution:$4} AND deadline_at_ms <= $3
   AND lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time'
   FOR UPDATE;

-- for each: lock
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', deadline_at_ms = NULL, public_state = 'waiting', raw_fields = {counted}
 WHERE {this_execution:$4};
