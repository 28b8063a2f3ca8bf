-- An edge that was applied after its upstream's end.
-- rows are: fan-ins that count one edge as running whose upstream had ended before,
-- rows per partition: 80
-- tables: ff_exec_core, ff_edge, ff_edge_group, ff_completion_event
{seed},
pairs AS (
  SELECT *, md5('upstream ' || id)::uuid AS upstream FROM seed
),
downstreams AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:id, {blocked}}, flow FROM pairs
),
upstreams AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id, terminal_at_ms)
  SELECT {core:upstream, {completed}}, flow, due_ms FROM pairs
),
edges AS (
  INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT partition_key, flow, id, upstream, id, '{}' FROM pairs
),
groups AS (
  INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, running_count)
  SELECT partition_key, flow, id, '{"kind": "all_of"}', 1 FROM pairs
)
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms,
                                 committed_at_ms, dispatched_at_ms)
SELECT partition_key, upstream, flow, 'success', 'bench', 'i-1', due_ms, due_ms, due_ms FROM pairs;
