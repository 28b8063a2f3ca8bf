-- $4 execution, $5 attempt, $6 worker, $7 its partition of the register. Of workers of one namespace, whose leases are no
-- younger than their last heartbeat.
-- name: list
SELECT a.execution_id, a.attempt_index, w.worker_instance_id, w.partition_key
  FROM ff_attempt a
  JOIN ff_worker_registry w ON w.worker_instance_id = a.worker_instance_id
  JOIN ff_exec_core c ON c.partition_key = $1 AND c.execution_id = a.execution_id
 WHERE a.partition_key = $1 AND a.lease_expires_at_ms > $2 + 1 AND w.last_heartbeat_ms + w.liveness_ttl_ms <= $2
   AND c.lifecycle_phase = 'active' AND c.raw_fields->>'namespace' = w.namespace
 ORDER BY w.last_heartbeat_ms LIMIT $3;

-- name: lock
SELECT FROM ff_attempt a
  JOIN ff_worker_registry w ON w.partition_key = $7::smallint AND w.worker_instance_id = $6
 WHERE a.partition_key = $1 AND a.execution_id = $4::uuid AND a.attempt_index = $5::integer
   AND a.worker_instance_id = $6 AND a.lease_expires_at_ms > $2 AND w.last_heartbeat_ms + w.liveness_ttl_ms <= $3
   FOR UPDATE OF a;

-- for each: lock
UPDATE ff_attempt
   SET lease_expires_at_ms = $2,
       raw_fields = raw_fields || jsonb_build_object('ended_by', jsonb_build_object('by', 'dead_worker', 'at', $2))
 WHERE {this_execution:$4} AND attempt_index = $5::integer;
