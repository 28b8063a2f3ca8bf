-- rows are: running executions past their deadline
-- rows per partition: 80
-- tables: ff_exec_core, ff_attempt, ff_completion_event, ff_lease_event
{seed},
cores AS (
  INSERT INTO ff_exec_core ({core_columns}, deadline_at_ms)
  SELECT {core:id, {active}}, due_ms FROM seed
)
{attempt:id, 9000000000000, seed};
