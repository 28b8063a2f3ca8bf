-- rows are: silent workers
-- rows per partition: 80
-- tables: ff_worker_registry, ff_worker_registry_event
{seed}
INSERT INTO ff_worker_registry (partition_key, namespace, worker_instance_id, worker_id, lanes, capabilities_csv,
                                last_heartbeat_ms, liveness_ttl_ms, registered_at_ms)
SELECT partition_key, 'bench', id::text, 'w-1', ARRAY['default'], 'cpu,gpu', due_ms - 500, 500, 1 FROM seed;
