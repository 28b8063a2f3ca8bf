-- $4 execution, which is suspended.
-- name: list
SELECT c.execution_id FROM ff_exec_core c
 WHERE c.partition_key = $1 AND c.lifecycle_phase = 'suspended' AND c.attempt_state = 'attempt_interrupted'
   AND c.created_at_ms <= $2
   AND NOT EXISTS (SELECT FROM ff_attempt a
                    WHERE a.partition_key = $1 AND a.execution_id = c.execution_id
                      AND a.attempt_index = c.attempt_index)
 LIMIT $3;

-- name: lock
SELECT FROM ff_exec_core
 WHERE {this_execution:$4} AND lifecycle_phase = 'suspended' AND created_at_ms <= $3
   FOR UPDATE;

-- for each: lock
UPDATE ff_exec_core c
   SET attempt_index = newest.attempt_index,
       raw_fields = raw_fields || jsonb_build_object('total_attempt_count', newest.attempt_index::text)
  FROM (SELECT max(attempt_index) AS attempt_index FROM ff_attempt
         WHERE {this_execution:$4}) newest
 WHERE c.partition_key = $1 AND c.execution_id = $4::uuid;
