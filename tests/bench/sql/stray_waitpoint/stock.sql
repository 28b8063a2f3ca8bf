-- Of four, two were left by an operator's resume, one by a suspension before the present one, which has a waitpoint of its
-- own; and one was written anew with the key '', and has been sent a signal since.
-- rows are: waitpoints, three in four of a former suspension and one that has lost its key,
-- rows per partition: 80
-- tables: ff_exec_core, ff_suspension_current, ff_waitpoint_pending
{seed},
resumed AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {runnable}} FROM seed WHERE n % 4 < 2
),
waiting AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {suspended}} FROM seed WHERE n % 4 >= 2
),
suspensions AS (
  INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, reason_code, condition,
                                     member_map)
  SELECT partition_key, id, id, CASE n % 4 WHEN 2 THEN due_ms + 1 ELSE due_ms END, 'approval',
         '{"Single": {"waitpoint_key": "approval", "matcher": {"ByName": "approved"}}}',
         CASE n % 4 WHEN 2 THEN '{}'::jsonb ELSE jsonb_build_object('', jsonb_build_array(jsonb_build_object(
           'signal_id', id, 'signal_name', 'approved', 'accepted_at', due_ms))) END
    FROM seed WHERE n % 4 >= 2
),
present AS (
  INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, state,
                                    activated_at_ms, waitpoint_key, required_signal_names)
  SELECT partition_key, flow, id, 'k1', md5(id::text), 1, 'active', due_ms + 1, 'approval', ARRAY['approved']
    FROM seed WHERE n % 4 = 2
)
INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, state,
                                  activated_at_ms, waitpoint_key, required_signal_names)
SELECT partition_key, id, id, 'k1', md5(id::text), 1, 'active', due_ms, CASE n % 4 WHEN 3 THEN '' ELSE 'approval' END,
       CASE n % 4 WHEN 3 THEN '{}' ELSE ARRAY['approved'] END
  FROM seed;
