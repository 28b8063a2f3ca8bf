-- rows are: lapsed leases, every other one of an execution with a retry left,
-- rows per partition: 80
-- tables: ff_exec_core, ff_attempt, ff_completion_event, ff_lease_event
{seed},
cores AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {active}} FROM seed
)
{attempt:id, due_ms, seed};
