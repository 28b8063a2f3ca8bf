-- By an operator, an hour ago, because what is older than a day is no longer told. Half were at work, and have their lease
-- still, as the attempt that the cancel looked for was another one.
-- rows are: cancelled executions that somebody waits for, half of them with a lease left,
-- rows per partition: 80
-- tables: ff_exec_core, ff_attempt, ff_edge, ff_edge_group, ff_completion_event, ff_lease_event
{seed},
pairs AS (
  SELECT s.*, md5('downstream ' || id)::uuid AS downstream, hour_ago + due_ms AS ended_ms
    FROM seed s, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 3600000 AS hour_ago) t
),
upstreams AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id, terminal_at_ms, cancellation_reason, cancelled_by)
  SELECT {core:id, 'cancelled'}, 'unowned', 'not_applicable', 'cancelled', 'cancelled', flow, ended_ms, 'bench',
         'operator_override'
    FROM pairs
),
downstreams AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:downstream, {blocked}}, flow FROM pairs
),
attempts AS ({attempt:id, 9000000000000, seed WHERE n % 2 = 0}),
edges AS (
  INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT partition_key, flow, id, id, downstream, '{}' FROM pairs
)
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, running_count)
SELECT partition_key, flow, downstream, '{"kind": "all_of"}', 1 FROM pairs;
