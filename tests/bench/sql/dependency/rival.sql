-- $4 event, $5 execution, $6 flow, $7 outcome, $8 a downstream; the counts of its group after the event: $9 success,
-- $10 fail, $11 skip, $12 running, and $13 what they mean; $14 members to cancel, or who is skipped with $14 and $15.
-- name: list
SELECT event_id FROM ff_completion_event
 WHERE partition_key = $1 AND dispatched_at_ms IS NULL AND committed_at_ms <= $2
 ORDER BY committed_at_ms LIMIT $3;

-- name: lock
SELECT execution_id, flow_id, outcome FROM ff_completion_event
 WHERE partition_key = $1 AND event_id = $4::bigint AND dispatched_at_ms IS NULL AND committed_at_ms <= $3
   FOR UPDATE SKIP LOCKED;

-- name: edge
-- for each: lock
SELECT downstream_eid FROM ff_edge
 WHERE partition_key = $1 AND flow_id = $6::uuid AND upstream_eid = $5::uuid
   AND policy->>'edge_state' IS DISTINCT FROM 'pending'
 ORDER BY downstream_eid;

-- name: judge
-- for each: edge
SELECT success, fail, skip, running,
       CASE WHEN was_satisfied THEN 'was satisfied'
            WHEN satisfied AND kind IN ('any_of', 'quorum') AND NOT let_run THEN 'cancels the rest'
            WHEN satisfied THEN 'satisfied'
            WHEN impossible THEN 'impossible' ELSE 'undecided' END
  FROM (SELECT t.*,
               CASE kind WHEN 'any_of' THEN success >= 1 WHEN 'quorum' THEN success >= k
                         ELSE success = n AND n > 0 END AS satisfied,
               CASE kind WHEN 'any_of' THEN success_count >= 1 WHEN 'quorum' THEN success_count >= k
                         ELSE false END AS was_satisfied,
               CASE kind WHEN 'any_of' THEN fail + skip >= n AND n > 0 WHEN 'quorum' THEN success + running < k
                         ELSE fail + skip > 0 END AS impossible
          FROM (SELECT g.*, success + fail + skip + running AS n
                  FROM (SELECT coalesce(policy->>'kind', 'all_of') AS kind, coalesce((policy->>'k')::integer, 1) AS k,
                               coalesce(policy->>'on_satisfied', '') = 'let_run' AS let_run, success_count,
                               success_count + CASE $7 WHEN 'success' THEN 1 ELSE 0 END AS success,
                               skip_count + CASE $7 WHEN 'skipped' THEN 1 ELSE 0 END AS skip,
                               fail_count + CASE WHEN $7 IN ('success', 'skipped') THEN 0 ELSE 1 END AS fail,
                               greatest(running_count - 1, 0) AS running
                          FROM ff_edge_group
                         WHERE partition_key = $1 AND flow_id = $6::uuid AND downstream_eid = $8::uuid
                           FOR UPDATE) g) t) judged;

-- for each: judge
UPDATE ff_edge_group
   SET success_count = $9::integer, fail_count = $10::integer, skip_count = $11::integer,
       running_count = $12::integer
 WHERE partition_key = $1 AND flow_id = $6::uuid AND downstream_eid = $8::uuid;

-- for each: judge
-- when: satisfied, cancels the rest
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', public_state = 'waiting',
       lifecycle_phase = CASE WHEN lifecycle_phase = 'blocked' THEN 'runnable' ELSE lifecycle_phase END,
       raw_fields = {counted}
 WHERE {this_execution:$8}
   AND lifecycle_phase IN ('submitted', 'runnable', 'blocked');

-- name: members
-- for each: judge
-- when: cancels the rest
SELECT array_agg(DISTINCT c.execution_id::text)
  FROM ff_edge d
  JOIN ff_exec_core c ON c.partition_key = $1 AND c.execution_id = d.upstream_eid
 WHERE d.partition_key = $1 AND d.flow_id = $6::uuid AND d.downstream_eid = $8::uuid
   AND c.lifecycle_phase NOT IN ('terminal', 'cancelled') AND c.public_state <> 'skipped'
   AND c.execution_id <> $5::uuid
HAVING count(*) > 0;

-- for each: members
INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
VALUES ($1, $6::uuid, $8::uuid, $2) ON CONFLICT DO NOTHING;

-- for each: members
UPDATE ff_edge_group
   SET cancel_siblings_pending_flag = true, cancel_siblings_pending_members = $14::text[]
 WHERE partition_key = $1 AND flow_id = $6::uuid AND downstream_eid = $8::uuid;

-- name: skip
-- for each: judge
-- when: impossible
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = 'skipped', terminal_at_ms = $2
 WHERE {this_execution:$8} AND lifecycle_phase NOT IN ('terminal', 'cancelled')
RETURNING raw_fields->>'namespace', raw_fields->'tags'->>'cairn.instance_id';

-- for each: skip
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
VALUES ($1, $8::uuid, $6::uuid, 'skipped', $14, $15, $2);

-- for each: lock
UPDATE ff_completion_event SET dispatched_at_ms = $2
 WHERE partition_key = $1 AND event_id = $4::bigint;
