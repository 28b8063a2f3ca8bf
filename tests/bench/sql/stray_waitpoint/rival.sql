-- $4 waitpoint, $5 execution, $6 the key that it has lost, $7 what becomes of it. Of conditions on a single signal by its
-- name only, and of what has a suspension or has not ended.
-- name: list
SELECT w.waitpoint_id, w.execution_id
  FROM ff_waitpoint_pending w
  JOIN ff_exec_core c ON c.partition_key = $1 AND c.execution_id = w.execution_id
  LEFT JOIN ff_suspension_current s ON s.partition_key = $1 AND s.execution_id = w.execution_id
 WHERE w.partition_key = $1 AND w.state = 'active' AND w.activated_at_ms <= $2
   AND (s.execution_id IS NULL OR c.lifecycle_phase <> 'suspended' OR s.suspended_at_ms <> w.activated_at_ms
        OR w.waitpoint_key = '')
 ORDER BY w.activated_at_ms LIMIT $3;

-- name: lock
SELECT FROM ff_waitpoint_pending
 WHERE partition_key = $1 AND waitpoint_id = $4::uuid AND state = 'active' AND activated_at_ms <= $3
   FOR UPDATE;

-- name: judge
-- for each: lock
SELECT s.condition->'Single'->>'waitpoint_key',
       CASE WHEN s.execution_id IS NULL OR c.lifecycle_phase <> 'suspended' OR s.suspended_at_ms <> w.activated_at_ms
            THEN 'former' ELSE 'present' END
  FROM ff_exec_core c
  JOIN ff_waitpoint_pending w ON w.partition_key = $1 AND w.waitpoint_id = $4::uuid
  LEFT JOIN ff_suspension_current s ON s.partition_key = $1 AND s.execution_id = c.execution_id
 WHERE c.partition_key = $1 AND c.execution_id = $5::uuid
   FOR UPDATE OF c;

-- for each: judge
-- when: former
DELETE FROM ff_waitpoint_pending WHERE partition_key = $1 AND waitpoint_id = $4::uuid;

-- for each: judge
-- when: present
UPDATE ff_waitpoint_pending w
   SET waitpoint_key = $6,
       required_signal_names = w.required_signal_names
         || ARRAY[(SELECT s.condition->'Single'->'matcher'->>'ByName' FROM ff_suspension_current s
                    WHERE s.partition_key = $1 AND s.execution_id = $5::uuid)]
 WHERE w.partition_key = $1 AND w.waitpoint_id = $4::uuid;

-- for each: judge
-- when: present
UPDATE ff_suspension_current
   SET member_map = (member_map - ''::text)
         || jsonb_build_object($6::text, coalesce(member_map->$6::text, '[]') || (member_map->''))
 WHERE {this_execution:$5} AND jsonb_typeof(member_map->'') = 'array';
