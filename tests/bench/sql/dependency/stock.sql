-- Four ended upstreams meet in one group. Of eight groups five wait for four more upstreams, one waited for these only
-- and is satisfied, one wants any of them and has four more to cancel, one wanted all and one has failed.
-- rows are: events, four of them to a group and three groups in eight decided by them,
-- rows per partition: 48
-- tables: ff_exec_core, ff_edge, ff_edge_group, ff_pending_cancel_groups, ff_completion_event
{seed},
grouped AS (
  SELECT *, md5('group ' || partition_key || ' ' || n / 4)::uuid AS of_group,
         md5('downstream ' || partition_key || ' ' || n / 4)::uuid AS downstream, (n / 4 + partition_key) % 8 AS kind
    FROM seed
),
ended AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id, terminal_at_ms)
  SELECT {core:id, {completed}}, of_group, 5 FROM grouped
),
at_work AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:flow, {active}}, of_group FROM grouped WHERE kind NOT IN (5, 7)
),
downstreams AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:downstream, {blocked}}, of_group FROM grouped WHERE n % 4 = 0
),
edges AS (
  INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT partition_key, of_group, id, id, downstream, '{}' FROM grouped
),
edges_at_work AS (
  INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT partition_key, of_group, flow, flow, downstream, '{}' FROM grouped WHERE kind NOT IN (5, 7)
),
groups AS (
  INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, running_count)
  SELECT partition_key, of_group, downstream,
         CASE WHEN kind = 6 THEN '{"kind": "any_of"}'::jsonb ELSE '{"kind": "all_of"}' END,
         CASE WHEN kind IN (5, 7) THEN 4 ELSE 8 END
    FROM grouped WHERE n % 4 = 0
)
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms,
                                 committed_at_ms)
SELECT partition_key, id, of_group, CASE WHEN kind = 7 AND n % 4 = 2 THEN 'failed' ELSE 'success' END, 'bench', 'i-1',
       due_ms, due_ms
  FROM grouped;
