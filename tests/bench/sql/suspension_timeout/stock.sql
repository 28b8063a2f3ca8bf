-- A resumed one's worker is at work, and its waitpoint gone; its time-out was left.
-- rows are: suspensions of all behaviours, one in six of an execution that was resumed before,
-- rows per partition: 60
-- tables: ff_exec_core, ff_attempt, ff_suspension_current, ff_waitpoint_pending, ff_completion_event, ff_lease_event
{seed},
suspended AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {suspended}} FROM seed WHERE n % 6 <> 5
),
resumed AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {active}} FROM seed WHERE n % 6 = 5
),
attempts AS ({attempt:id, CASE WHEN n % 6 = 5 THEN 9000000000000 END, seed}),
waitpoints AS ({active_waitpoint:flow, id, seed WHERE n % 6 <> 5})
INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, reason_code, condition,
                                   timeout_at_ms, timeout_behavior)
SELECT partition_key, id, id, 1, 'approval', '{"signals": ["approved"]}', due_ms,
       (ARRAY['fail', 'expire', 'escalate', 'cancel', 'auto_resume_with_timeout_signal'])[1 + n % 6]
  FROM seed;
