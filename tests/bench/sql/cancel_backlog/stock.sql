-- Of a flow of five, which cancel_flow_header cancelled, four are to be cancelled for good: two were at work, and their
-- leases have lapsed, one waited to be claimed, and one was suspended. The fifth may finish, as the policy says, and keeps
-- the flow's own row.
-- rows are: members of cancelled flows, four to a flow,
-- rows per partition: 80
-- tables: ff_exec_core, ff_flow_core, ff_attempt, ff_suspension_current, ff_waitpoint_pending, ff_cancel_backlog, ff_cancel_backlog_member, ff_completion_event, ff_lease_event
{seed},
grouped AS (
  SELECT *, md5('cancelled flow ' || partition_key || ' ' || n / 4)::uuid AS of_flow FROM seed
),
flows AS (
  INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms, terminal_at_ms, raw_fields)
  SELECT partition_key, of_flow, 'cancelled', 1, due_ms,
         '{"cancellation_policy": "cancel_pending", "cancel_reason": "bench"}'
    FROM grouped WHERE n % 4 = 0
),
at_work AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id, terminal_at_ms, cancellation_reason, cancelled_by)
  SELECT {core:id, 'cancelled'}, 'leased', 'cancelled', 'cancelled', 'running_attempt', of_flow, 5, 'bench',
         'cancel_flow_header'
    FROM grouped WHERE n % 4 < 2
),
waiting AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id, terminal_at_ms, cancellation_reason, cancelled_by)
  SELECT {core:id, 'cancelled'}, 'unowned', 'cancelled', 'cancelled', 'pending', of_flow, 5, 'bench',
         'cancel_flow_header'
    FROM grouped WHERE n % 4 = 2
),
suspended AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id, terminal_at_ms, cancellation_reason, cancelled_by)
  SELECT {core:id, 'cancelled'}, 'released', 'cancelled', 'cancelled', 'attempt_interrupted', of_flow, 5, 'bench',
         'cancel_flow_header'
    FROM grouped WHERE n % 4 = 3
),
finishing AS (
  INSERT INTO ff_exec_core ({core_columns}, flow_id, terminal_at_ms, cancellation_reason, cancelled_by)
  SELECT {core:flow, 'cancelled'}, 'leased', 'cancelled', 'cancelled', 'running_attempt', of_flow, 5, 'bench',
         'cancel_flow_header'
    FROM grouped WHERE n % 4 = 0
),
attempts AS ({attempt:id, CASE WHEN n % 4 < 2 THEN due_ms END, seed WHERE n % 4 <> 2}),
finishing_attempts AS ({attempt:flow, 9000000000000, seed WHERE n % 4 = 0}),
suspensions AS (
  INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, reason_code, condition)
  SELECT partition_key, id, id, 1, 'approval', '{"signals": ["approved"]}' FROM seed WHERE n % 4 = 3
),
waitpoints AS ({active_waitpoint:id, id, seed WHERE n % 4 = 3}),
cancels AS (
  INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, reason, cancellation_policy)
  SELECT partition_key, of_flow, due_ms, 'bench', 'cancel_pending' FROM grouped WHERE n % 4 = 0
)
INSERT INTO ff_cancel_backlog_member (partition_key, flow_id, execution_id)
SELECT partition_key, of_flow, concat('{', 'fp:', partition_key, '}:', id) FROM grouped
 UNION ALL
SELECT partition_key, of_flow, concat('{', 'fp:', partition_key, '}:', flow) FROM grouped WHERE n % 4 = 0;
