UPDATE ff_attempt a
   SET lease_expires_at_ms = $3,
       raw_fields = a.raw_fields || jsonb_build_object('ended_by', jsonb_build_object('by', 'dead_worker', 'at', $3))
  FROM ff_worker_registry w
 WHERE {mine:a} AND w.worker_instance_id = a.worker_instance_id AND w.last_heartbeat_ms + w.liveness_ttl_ms <= $4
   AND a.lease_expires_at_ms > $3;
