-- $1 how many, $2 the first partition, $3 partitions.
-- name: add
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT gen_random_uuid(), (ARRAY['acquired', 'renewed', 'expired', 'reclaimed', 'revoked'])[1 + i % 5],
       1700000000000 + i, $2 + i % $3, 'bench', 'i-1'
  FROM generate_series(1, $1) AS i;

-- $1 the first partition, $2 the last one.
-- name: stored
SELECT partition_key::smallint, min(event_id) - 1, max(event_id), count(*)
  FROM ff_lease_event WHERE partition_key BETWEEN $1 AND $2
 GROUP BY partition_key ORDER BY partition_key;

-- $1 partition.
-- name: add one
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
VALUES (gen_random_uuid(), 'renewed', 1700000000000, $1, 'bench', 'i-1')
RETURNING event_id;

-- As FlowFabric's own subscription reads them. $1 partition, $2 the last event that was seen, $3 rows.
-- name: replay
SELECT event_id, execution_id, lease_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag
  FROM ff_lease_event
 WHERE partition_key = $1 AND event_id > $2
 ORDER BY event_id ASC
 LIMIT $3;
