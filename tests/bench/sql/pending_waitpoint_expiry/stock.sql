-- rows are: waitpoints that no suspension uses
-- rows per partition: 80
-- tables: ff_exec_core, ff_waitpoint_pending
{seed},
cores AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {active}} FROM seed
)
INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, expires_at_ms)
SELECT partition_key, flow, id, 'k1', md5(id::text), 1, due_ms FROM seed;
