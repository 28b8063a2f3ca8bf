-- Executions that nobody has to move, in numbers: they wait for a worker, every other one in a flow, or for a signal.
-- Everywhere $1 is how many, $2 now, $3 a day later, $4 partitions.

-- tables: ff_exec_core, ff_attempt, ff_suspension_current, ff_waitpoint_pending
-- per mille: 1000
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                          public_state, attempt_state, created_at_ms, flow_id, raw_fields)
SELECT i % $4, md5('waiting ' || i)::uuid, 'default', {runnable}, $2 + 0 * $3,
       CASE WHEN i / 256 % 2 = 0 THEN md5('flow ' || i % $4 || ' ' || i / 4096)::uuid END, '{"namespace": "idle"}'
  FROM generate_series(1, $1) AS i;

-- per mille: 1000
{idle_suspended};

-- per mille: 1000
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, started_at_ms, outcome)
SELECT i % $4, md5('suspended ' || i)::uuid, 0, 'w-' || i % 100, 1, $2 + 0 * $3, 'interrupted'
  FROM generate_series(1, $1) AS i;

-- per mille: 1000
{idle_suspensions};

-- per mille: 1000
{idle_waitpoints};
