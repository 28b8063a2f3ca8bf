-- rows are: lapsed leases, one in eight of an execution that has ended,
-- rows per partition: 80
-- tables: ff_exec_core, ff_attempt, ff_lease_event
{seed},
at_work AS (
  INSERT INTO ff_exec_core ({core_columns})
  SELECT {core:id, {active}} FROM seed WHERE n % 8 <> 7
),
ended AS (
  INSERT INTO ff_exec_core ({core_columns}, terminal_at_ms)
  SELECT {core:id, {completed}}, 5 FROM seed WHERE n % 8 = 7
)
{attempt:id, due_ms, seed};
