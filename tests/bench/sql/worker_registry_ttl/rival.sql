-- $4 namespace, $5 instance.
-- name: list
SELECT namespace, worker_instance_id FROM ff_worker_registry
 WHERE partition_key = $1 AND last_heartbeat_ms + liveness_ttl_ms <= $2
 ORDER BY last_heartbeat_ms + liveness_ttl_ms LIMIT $3;

-- name: lock
SELECT FROM ff_worker_registry
 WHERE partition_key = $1 AND namespace = $4 AND worker_instance_id = $5
   AND last_heartbeat_ms + liveness_ttl_ms <= $3
   FOR UPDATE;

-- for each: lock
DELETE FROM ff_worker_registry
 WHERE partition_key = $1 AND namespace = $4 AND worker_instance_id = $5;

-- for each: lock
INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
VALUES ($1, $4, $5, $2, 'ttl_swept') ON CONFLICT DO NOTHING;
