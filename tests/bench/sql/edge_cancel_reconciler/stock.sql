-- Every other flag is down already; of the others all siblings have ended.
-- rows are: groups with nothing left to cancel, half of them with four siblings listed,
-- rows per partition: 20
-- tables: ff_exec_core, ff_edge_group, ff_pending_cancel_groups
{seed},
downstreams AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:id, {runnable}}, flow FROM seed
),
ended AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:{sibling}, {completed}}, flow FROM {siblings}
),
groups AS ({cancel_groups:n % 2 = 0})
{pending_groups};
