-- What several of these files say: there it stands as {name} or {name:argument, …}. A brace before a letter is always such
-- a placeholder, in a literal too: '{' || 'fp:1}'.

-- STOCKS. $1 rows, $2 partitions. `n` counts within a partition: mixtures go by it.
-- name: seed
WITH seed AS MATERIALIZED (
  SELECT (i % $2)::smallint AS partition_key, i / $2 AS n, 1000 + i AS due_ms, md5('id ' || i)::uuid AS id,
         md5('flow ' || i)::uuid AS flow
    FROM generate_series(0, $1 - 1) AS i
);

-- name: core_columns
partition_key, execution_id, lane_id, created_at_ms, policy, raw_fields,
lifecycle_phase, ownership_state, eligibility_state, public_state, attempt_state;

-- Its state, the last five columns, is one of the words below.
-- name: core(execution, state)
partition_key, {execution}, 'default', 1, CASE WHEN n % 2 = 0 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END,
'{"namespace": "bench", "tags": {"cairn.instance_id": "i-1"}}', {state};

-- name: active
'active', 'leased', 'not_applicable', 'running', 'running_attempt';
-- name: runnable
'runnable', 'unowned', 'eligible_now', 'waiting', 'pending';
-- name: pending_claim
'runnable', 'unowned', 'pending_claim', 'waiting', 'pending_first_attempt';
-- name: delayed
'runnable', 'unowned', 'not_eligible_until_time', 'delayed', 'attempt_interrupted';
-- name: suspended
'suspended', 'released', 'not_applicable', 'suspended', 'attempt_interrupted';
-- name: blocked
'blocked', 'unowned', 'blocked_by_dependencies', 'waiting', 'pending';
-- name: completed
'terminal', 'unowned', 'not_applicable', 'completed', 'attempt_terminal';

-- name: attempt(execution, lease_expires_at_ms, rows)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, worker_instance_id, lease_epoch,
                        lease_expires_at_ms, started_at_ms)
SELECT partition_key, {execution}, 0, 'w-1', 'w-1-a', 1, {lease_expires_at_ms}, 1 FROM {rows};

-- A waitpoint that a suspension uses.
-- name: active_waitpoint(waitpoint, execution, rows)
INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, state,
                                  activated_at_ms)
SELECT partition_key, {waitpoint}, {execution}, 'k1', md5(id::text), 1, 'active', 1 FROM {rows};

-- Executions that are suspended until tomorrow. In each: $1 how many, $2 now, $3 a day later, $4 partitions.
-- name: idle_suspended
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                          public_state, attempt_state, created_at_ms, raw_fields)
SELECT i % $4, md5('suspended ' || i)::uuid, 'default', {suspended}, $2 + 0 * $3, '{"namespace": "idle"}'
  FROM generate_series(1, $1) AS i;
-- name: idle_suspensions
INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, timeout_at_ms,
                                   condition, timeout_behavior)
SELECT i % $4, md5('suspended ' || i)::uuid, gen_random_uuid(), $2, $3 + i, '{}', 'fail'
  FROM generate_series(1, $1) AS i;
-- name: idle_waitpoints
INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms,
                                  activated_at_ms, expires_at_ms, state)
SELECT i % $4, gen_random_uuid(), md5('suspended ' || i)::uuid, 'k', 't', $2, $2, $3 + i, 'active'
  FROM generate_series(1, $1) AS i;

-- Four siblings to a row.
-- name: siblings
seed, generate_series(1, 4) AS k;
-- name: sibling
md5('sibling ' || id || k)::uuid;

-- Groups whose siblings are to be cancelled where `flag` holds.
-- name: cancel_groups(flag)
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, k_target, success_count, running_count,
                           cancel_siblings_pending_flag, cancel_siblings_pending_members)
SELECT partition_key, flow, id, '{"kind": "any_of"}', 1, 1, 4, {flag},
       CASE WHEN {flag} THEN ARRAY(SELECT {sibling}::text FROM generate_series(1, 4) AS k) ELSE '{}' END
  FROM seed;
-- name: pending_groups
INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
SELECT partition_key, flow, id, due_ms FROM seed;

-- What a suspension's time-out adds to it where it resumes.
-- name: signalled(member_map, now)
{member_map} || jsonb_build_object('__timeout__',
  coalesce({member_map}->'__timeout__', '[]') || jsonb_build_array(jsonb_build_object(
    'signal_id', gen_random_uuid(), 'signal_name', 'timeout', 'signal_category', 'timeout',
    'source_type', 'suspension_timeout', 'source_identity', '', 'correlation_id', '', 'accepted_at', {now},
    'payload_hex', NULL)));

-- RIVALS. $1 partition, $2 now.
-- name: this_execution(parameter)
partition_key = $1 AND execution_id = {parameter}::uuid;
-- name: this_group
partition_key = $1 AND flow_id = $4::uuid AND downstream_eid = $5::uuid;

-- name: last_attempt(execution)
SELECT attempt_index, CASE WHEN lease_expires_at_ms IS NULL THEN 'released' ELSE 'leased' END
  FROM ff_attempt
 WHERE {this_execution:{execution}}
 ORDER BY attempt_index DESC LIMIT 1
   FOR UPDATE;

-- name: lease_event(execution, type)
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT execution_id::text, {type}, $2, partition_key, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_exec_core WHERE {this_execution:{execution}};

-- The public state of an ended execution is the outcome of its event.
-- name: completion_event(execution, outcome)
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, {outcome}, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', $2
  FROM ff_exec_core WHERE {this_execution:{execution}};

-- name: counted
raw_fields || jsonb_build_object('total_attempt_count', attempt_index::text);

-- name: listed_groups
SELECT flow_id, downstream_eid FROM ff_pending_cancel_groups
 WHERE partition_key = $1 AND enqueued_at_ms <= $2
 ORDER BY enqueued_at_ms LIMIT $3;
-- name: clear_group
UPDATE ff_edge_group
   SET cancel_siblings_pending_flag = false, cancel_siblings_pending_members = '{}'
 WHERE {this_group};
-- name: delete_pending
DELETE FROM ff_pending_cancel_groups WHERE {this_group};

-- FLOORS. $1 and $2 the first and the last partition, $3 now, $4 the latest due time that counts.
-- name: mine(alias)
{alias}.partition_key BETWEEN $1 AND $2;
-- name: same_execution(one, other)
{one}.partition_key = {other}.partition_key AND {one}.execution_id = {other}.execution_id;

-- `rows` name the core row c, in this and the next.
-- name: completion_events(outcome, rows)
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT c.partition_key, c.execution_id, c.flow_id, {outcome}, c.raw_fields->>'namespace',
       c.raw_fields->'tags'->>'cairn.instance_id', $3 FROM {rows};
-- name: expired_events(rows)
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT c.execution_id::text, 'expired', $3, c.partition_key, c.raw_fields->>'namespace',
       c.raw_fields->'tags'->>'cairn.instance_id' FROM {rows};
-- Of a core row c whose attempt goes on.
-- name: counted_c
c.raw_fields || jsonb_build_object('total_attempt_count', c.attempt_index::text);

-- Of suspension_timeout.
-- name: lapsed_with_core
{same_execution:c, s} AND {mine:c} AND {mine:s} AND s.timeout_at_ms <= $4;
-- name: new_state
CASE s.timeout_behavior WHEN 'auto_resume_with_timeout_signal' THEN 'resumable' WHEN 'cancel' THEN 'cancelled' ELSE 'expired' END;
