-- Rows of which none falls due for a day. In each: $1 how many, $2 now, $3 a day later, $4 partitions. The same i is the same
-- execution in all of them.

-- tables: ff_exec_core, ff_attempt, ff_suspension_current, ff_waitpoint_pending, ff_budget_policy, ff_budget_usage, ff_worker_registry, ff_completion_event
-- per mille: 200
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                          public_state, attempt_state, created_at_ms, deadline_at_ms, policy, raw_fields)
SELECT i % $4, md5('active ' || i)::uuid, 'default', {active}, $2, $3 + i, '{"retry_policy": {"max_retries": 3}}',
       '{"namespace": "idle"}'
  FROM generate_series(1, $1) AS i;

-- per mille: 200
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms,
                        started_at_ms)
SELECT i % $4, md5('active ' || i)::uuid, 0, 'w-' || i % 100, 1, $3 + i, $2
  FROM generate_series(1, $1) AS i;

-- per mille: 150
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                          public_state, attempt_state, created_at_ms, deadline_at_ms, raw_fields)
SELECT i % $4, md5('delayed ' || i)::uuid, 'default', {delayed}, $2, $3 + i, '{"namespace": "idle"}'
  FROM generate_series(1, $1) AS i;

-- per mille: 80
{idle_suspended};

-- per mille: 80
{idle_suspensions};

-- per mille: 80
{idle_waitpoints};

-- per mille: 20
INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, next_reset_at_ms)
SELECT i % $4, 'budget ' || i, '{"reset_interval_ms": 86400000}', $2, $2, $3 + i
  FROM generate_series(1, $1) AS i;

-- per mille: 20
INSERT INTO ff_budget_usage (partition_key, budget_id, dimensions_key, current_value, updated_at_ms)
SELECT i % $4, 'budget ' || i, 'tokens', 1, $2 + 0 * $3 FROM generate_series(1, $1) AS i;

-- per mille: 10
INSERT INTO ff_worker_registry (partition_key, namespace, worker_instance_id, worker_id, lanes, capabilities_csv,
                                last_heartbeat_ms, liveness_ttl_ms, registered_at_ms)
SELECT i % $4, 'idle', 'instance ' || i, 'w-' || i, ARRAY['default'], '', $2, $3 - $2, $2
  FROM generate_series(1, $1) AS i;

-- per mille: 160
INSERT INTO ff_completion_event (partition_key, execution_id, outcome, namespace, occurred_at_ms, committed_at_ms,
                                 dispatched_at_ms)
SELECT i % $4, gen_random_uuid(), 'success', 'idle', $2, $2, $2 + 0 * $3 FROM generate_series(1, $1) AS i;
