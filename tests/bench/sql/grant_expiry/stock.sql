-- rows are: grants that nobody took up, every other one of an execution that is at work,
-- rows per partition: 80
-- tables: ff_exec_core, ff_claim_grant
{seed},
waiting AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {pending_claim}} FROM seed WHERE n % 2 = 0
),
at_work AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {active}} FROM seed WHERE n % 2 = 1
)
INSERT INTO ff_claim_grant (partition_key, grant_id, execution_id, kind, worker_id, worker_instance_id, grant_ttl_ms,
                            issued_at_ms, expires_at_ms)
SELECT partition_key, sha256(id::text::bytea), id, 'claim', 'w-1', 'w-1-a', 1, due_ms - 1, due_ms FROM seed;
