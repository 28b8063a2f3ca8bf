-- $4 flow, $5 downstream, $6 true, $7 to $9 the counts, $10 whether all have succeeded. Of all_of and what can be
-- satisfied only.
-- name: list
SELECT g.flow_id, g.downstream_eid
  FROM ff_edge_group g
  JOIN ff_exec_core c ON c.partition_key = $1 AND c.execution_id = g.downstream_eid
 WHERE g.partition_key = $1 AND g.running_count > 0 AND NOT g.cancel_siblings_pending_flag
   AND c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
   AND (SELECT max(u.terminal_at_ms)
          FROM ff_edge d
          JOIN ff_exec_core u ON u.partition_key = $1 AND u.execution_id = d.upstream_eid
         WHERE d.partition_key = $1 AND d.flow_id = g.flow_id AND d.downstream_eid = g.downstream_eid
        HAVING bool_and(u.lifecycle_phase IN ('terminal', 'cancelled'))) <= $2
 LIMIT $3;

-- name: lock
SELECT true FROM ff_edge_group
 WHERE {this_group} AND running_count > 0
   FOR UPDATE SKIP LOCKED;

-- name: count
-- for each: lock
SELECT count(*) FILTER (WHERE e.outcome = 'success'), count(*) FILTER (WHERE e.outcome = 'skipped'),
       count(*) FILTER (WHERE e.outcome NOT IN ('success', 'skipped')),
       CASE WHEN bool_and(e.outcome = 'success') THEN 'satisfied' ELSE 'open' END
  FROM ff_edge d
 CROSS JOIN LATERAL (SELECT outcome
                       FROM ff_completion_event e
                      WHERE e.partition_key = $1 AND e.execution_id = d.upstream_eid AND e.outcome <> 'resumable'
                      ORDER BY e.event_id DESC
                      LIMIT 1) e
 WHERE d.partition_key = $1 AND d.flow_id = $4::uuid AND d.downstream_eid = $5::uuid;

-- for each: count
UPDATE ff_edge_group
   SET success_count = $7::integer, skip_count = $8::integer, fail_count = $9::integer, running_count = 0
 WHERE {this_group};

-- for each: count
-- when: satisfied
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', public_state = 'waiting', lifecycle_phase = 'runnable', raw_fields = {counted}
 WHERE {this_execution:$5};
