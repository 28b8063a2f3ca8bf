-- Two siblings at work, one that waits to be claimed, one suspended.
-- rows are: groups with four siblings to cancel each
-- rows per partition: 20
-- tables: ff_exec_core, ff_attempt, ff_suspension_current, ff_waitpoint_pending, ff_edge_group, ff_pending_cancel_groups, ff_completion_event, ff_lease_event
{seed},
downstreams AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:id, {runnable}}, flow FROM seed
),
at_work AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:{sibling}, {active}}, flow FROM {siblings} WHERE k <= 2
),
waiting AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:{sibling}, {runnable}}, flow FROM {siblings} WHERE k = 3
),
suspended AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id)
  SELECT {core:{sibling}, {suspended}}, flow FROM {siblings} WHERE k = 4
),
attempts AS ({attempt:{sibling}, CASE WHEN k <= 2 THEN 9000000000000 END, {siblings} WHERE k <> 3}),
suspensions AS (
  INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, reason_code, condition)
  SELECT partition_key, {sibling}, id, 1, 'approval', '{"signals": ["approved"]}' FROM {siblings} WHERE k = 4
),
waitpoints AS ({active_waitpoint:{sibling}, {sibling}, {siblings} WHERE k = 4}),
groups AS ({cancel_groups:true})
{pending_groups};
