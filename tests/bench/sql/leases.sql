-- Leases that lapse, what became of them, and how large tables are.

-- $1 count, $2 namespace, $3 from, $4 length, $5 with retries
-- name: add
WITH fresh AS MATERIALIZED (
  SELECT (i % 256)::smallint AS partition_key, gen_random_uuid() AS execution_id,
         $3 + floor(random() * $4)::bigint AS due_ms
    FROM generate_series(1, $1) AS i
),
core AS (
  INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                            public_state, attempt_state, created_at_ms, policy, raw_fields)
  SELECT partition_key, execution_id, 'default', {active}, 1,
         CASE WHEN $5 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END,
         jsonb_build_object('namespace', $2::text, 'tags', '{"cairn.instance_id": "i-1"}'::jsonb)
    FROM fresh
)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms,
                        started_at_ms, raw_fields)
SELECT partition_key, execution_id, 0, 'w-1', 1, due_ms, 1, jsonb_build_object('lease_reclaims', 3, 'due_ms', due_ms)
  FROM fresh;

-- Leases in namespace $1, lapsed or not.
-- name: left
SELECT count(*)
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.lease_expires_at_ms IS NOT NULL AND c.raw_fields->>'namespace' = $1;

-- All executions in namespace $1, with what they have left.
-- name: clear
WITH cores AS (
  DELETE FROM ff_exec_core WHERE raw_fields->>'namespace' = $1 RETURNING partition_key, execution_id
),
attempts AS (
  DELETE FROM ff_attempt a USING cores c
   WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id
),
completions AS (DELETE FROM ff_completion_event WHERE namespace = $1)
DELETE FROM ff_lease_event WHERE namespace = $1;

-- Executions in namespace $1 whose lease was taken, the events that say so, and executions with more than one. However
-- often a lease has been taken, its attempt is one.
-- name: taken
SELECT count(*), coalesce(sum(events), 0)::bigint, count(*) FILTER (WHERE events > 1)
  FROM (SELECT count(*) AS events FROM ff_lease_event
         WHERE namespace = $1 AND event_type = 'expired' GROUP BY partition_key, execution_id) AS execution;

-- By how many milliseconds each lease in namespace $1 was taken too late. The server takes the time of a commit right
-- before it flushes it.
-- name: lateness
SELECT (extract(epoch FROM pg_xact_commit_timestamp(e.xmin)) * 1000 - (a.raw_fields->>'due_ms')::bigint)::float8
  FROM ff_lease_event e
  JOIN ff_attempt a ON a.partition_key = e.partition_key AND a.execution_id = e.execution_id::uuid
 WHERE e.namespace = $1 AND e.event_type = 'expired';

-- Some of attempt_timeout's stock in $1 partitions. Its due times count up from row to row, so that these choose rows evenly
-- from each partition; of those with retries (every other one) as well as of those without.
-- name: lock half
SELECT 1 FROM ff_attempt WHERE lease_expires_at_ms / $1 / 2 % 2 = 0 FOR UPDATE;
-- name: poison some
UPDATE ff_exec_core c SET lane_id = 'poison'
  FROM ff_attempt a
 WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id AND a.lease_expires_at_ms / $1 % 100 = 7;

-- $1 tables, none: all of ours with partition keys. Those that hold anything, and how large their files are.
-- name: filled
SELECT relname, bytes
  FROM (SELECT t.relname::text, pg_relation_size(t.oid) + (SELECT coalesce(sum(pg_relation_size(relid)), 0)::bigint
                                                             FROM pg_partition_tree(t.oid) WHERE isleaf) AS bytes
          FROM pg_class t
          JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'partition_key'
         WHERE t.relkind IN ('r', 'p') AND NOT t.relispartition AND starts_with(t.relname::text, 'ff_')
           AND (cardinality($1::text[]) = 0 OR t.relname::text = ANY($1))) sizes
 WHERE bytes > 0
 ORDER BY relname;
