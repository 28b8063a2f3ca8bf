-- Leases that lapse, what attempt_timeout made of them, and tables as old ones are.

-- $1 how many, $2 partitions, $3 when the first lease ends. Retries by turns within a partition.
-- name: add in turns
WITH fresh AS MATERIALIZED (
  SELECT (i % $2)::smallint AS partition_key, gen_random_uuid() AS execution_id, i FROM generate_series(1, $1) AS i
),
core AS (
  INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                            public_state, attempt_state, created_at_ms, policy, raw_fields)
  SELECT partition_key, execution_id, 'default', {active}, 1,
         CASE WHEN i / $2 % 2 = 0 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END,
         '{"namespace": "bench", "tags": {"cairn.instance_id": "i-1"}}'
    FROM fresh
)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms, started_at_ms)
SELECT partition_key, execution_id, 0, 'w-1', 1, $3 + i, 1 FROM fresh;

-- $1 count, $2 namespace, $3 from, $4 length, $5 with retries
-- name: add at random
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

-- Of the first kind: leases that have lapsed; attempts interrupted; executions that are retried, and that have expired;
-- events of completion, of leases, and leases with an event.
-- name: moved
SELECT (SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms < extract(epoch FROM clock_timestamp()) * 1000),
       (SELECT count(*) FROM ff_attempt
         WHERE lease_expires_at_ms IS NULL AND outcome = 'interrupted' AND lease_epoch = 2 AND terminal_at_ms IS NOT NULL),
       cores.*, (SELECT count(*) FROM ff_completion_event WHERE outcome = 'expired' AND namespace = 'bench'), events.*
  FROM (SELECT count(*) FILTER (WHERE lifecycle_phase = 'runnable' AND attempt_index = 1 AND public_state = 'waiting'
                                  AND raw_fields->>'total_attempt_count' = '1'),
               count(*) FILTER (WHERE lifecycle_phase = 'terminal' AND attempt_index = 0 AND public_state = 'expired')
          FROM ff_exec_core
         WHERE ownership_state = 'unowned' AND raw_fields->>'last_failure_message' = 'attempt_timeout') cores,
       (SELECT count(*), count(DISTINCT execution_id)
          FROM ff_lease_event WHERE event_type = 'expired' AND instance_tag = 'i-1') events;

-- Leases in namespace $1, lapsed or not.
-- name: left
SELECT count(*)
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.lease_expires_at_ms IS NOT NULL AND c.raw_fields->>'namespace' = $1;

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

-- Some of the first kind, of $1 partitions. Their due times count up from row to row, so that these choose rows evenly from
-- each partition; of those with retries (every other one) as well as of those without.
-- name: lock half
SELECT 1 FROM ff_attempt WHERE lease_expires_at_ms / $1 / 2 % 2 = 0 FOR UPDATE;
-- name: poison some
UPDATE ff_exec_core c SET lane_id = 'poison'
  FROM ff_attempt a
 WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id AND a.lease_expires_at_ms / $1 % 100 = 7;

-- $1 a table, partitioned or not: how large its files are.
-- name: bytes
SELECT pg_relation_size($1::text::regclass) + coalesce(sum(pg_relation_size(relid)), 0)::bigint
  FROM pg_partition_tree($1::text::regclass) WHERE isleaf;
