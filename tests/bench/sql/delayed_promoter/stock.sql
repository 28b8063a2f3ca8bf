-- rows are: delayed executions that may go on
-- rows per partition: 80
-- tables: ff_exec_core, ff_attempt
{seed},
cores AS (
  INSERT INTO ff_exec_core ({core_columns}, deadline_at_ms)
  SELECT {core:id, {delayed}}, due_ms FROM seed
)
{attempt:id, NULL, seed};
