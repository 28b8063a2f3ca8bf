INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
SELECT w.partition_key, w.namespace, w.worker_instance_id, $3, 'ttl_swept' FROM ff_worker_registry w
 WHERE {mine:w} AND w.last_heartbeat_ms + w.liveness_ttl_ms <= $4;

DELETE FROM ff_worker_registry w WHERE {mine:w} AND w.last_heartbeat_ms + w.liveness_ttl_ms <= $4;
