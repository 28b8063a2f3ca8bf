-- rows are: suspended executions that are one ahead of their attempt
-- rows per partition: 80
-- tables: ff_exec_core, ff_attempt
{seed},
cores AS (
  INSERT INTO ff_exec_core ({core_columns}, attempt_index)
  SELECT {core:id, {suspended}}, 1 FROM seed
)
{attempt:id, NULL, seed};
