-- Executions that ended at a steady rate, and what is left of them.

-- $1 how many, $2 when the first one ended, $3 how long after it the last one did, $4 for how long they are kept.
-- name: add ended
WITH fresh AS MATERIALIZED (
  SELECT floor(random() * 256)::smallint AS partition_key, gen_random_uuid() AS execution_id,
         $2 + i * $3 / $1 AS ended_ms
    FROM generate_series(0::bigint, $1 - 1) AS i
),
core AS (
  INSERT INTO ff_exec_core ({core_columns}, started_at_ms, terminal_at_ms)
  SELECT partition_key, execution_id, 'default', ended_ms,
         jsonb_build_object('stream_policy', jsonb_build_object('retention_ttl_ms', $4::bigint)),
         '{"namespace": "ended"}', {completed}, ended_ms, ended_ms
    FROM fresh
),
attempt AS (
  INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, started_at_ms, terminal_at_ms,
                          outcome)
  SELECT partition_key, execution_id, 0, 'w-1', 1, ended_ms, ended_ms, 'success' FROM fresh
)
INSERT INTO ff_completion_event (partition_key, execution_id, outcome, namespace, occurred_at_ms, committed_at_ms,
                                 dispatched_at_ms)
SELECT partition_key, execution_id, 'success', 'ended', ended_ms, ended_ms, ended_ms FROM fresh;

-- name: kept
SELECT count(*) FROM ff_exec_core WHERE raw_fields->>'namespace' = 'ended';
