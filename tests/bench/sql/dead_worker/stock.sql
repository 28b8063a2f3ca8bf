-- Each worker has 64 leases, over as many partitions, and is on the register in the partition that FNV-1a gives its name, of
-- which the last byte tells.
-- rows are: leases of workers that have fallen silent
-- rows per partition: 80
-- tables: ff_exec_core, ff_attempt, ff_worker_registry
{seed},
leased AS (
  SELECT *, 'w-' || (due_ms - 1000) / 64 AS instance FROM seed
),
cores AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {active}} FROM seed
),
register AS (
  INSERT INTO ff_worker_registry (partition_key, namespace, worker_instance_id, worker_id, lanes, capabilities_csv,
                                  last_heartbeat_ms, liveness_ttl_ms, registered_at_ms)
  WITH RECURSIVE hashed AS (
    SELECT DISTINCT instance, 0 AS bytes, 37 AS hash FROM leased
     UNION ALL
    SELECT instance, bytes + 1, (hash # ascii(substr(instance, bytes + 1, 1))) * 179 % 256
      FROM hashed WHERE bytes < length(instance)
  )
  SELECT hash, 'bench', instance, 'w-1', ARRAY['default'], 'cpu,gpu', 500, 500, 1
    FROM hashed WHERE bytes = length(instance)
)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, worker_instance_id, lease_epoch,
                        lease_expires_at_ms, started_at_ms)
SELECT partition_key, id, 0, 'w-1', instance, 1, 9000000000000, 1 FROM leased;
