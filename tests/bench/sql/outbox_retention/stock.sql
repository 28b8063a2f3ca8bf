-- rows are: events, a quarter of them in each outbox,
-- rows per partition: 80
-- tables: ff_lease_event, ff_completion_event, ff_signal_event, ff_operator_event
{seed},
of_leases AS (
  INSERT INTO ff_lease_event (partition_key, execution_id, event_type, occurred_at_ms, namespace, instance_tag)
  SELECT partition_key, id::text, 'expired', due_ms, 'bench', 'i-1' FROM seed WHERE n % 4 = 0
),
of_completions AS (
  INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms,
                                   committed_at_ms, dispatched_at_ms)
  SELECT partition_key, id, flow, 'success', 'bench', 'i-1', due_ms, due_ms, due_ms FROM seed WHERE n % 4 = 1
),
of_signals AS (
  INSERT INTO ff_signal_event (partition_key, execution_id, signal_id, delivered_at_ms)
  SELECT partition_key, id::text, 's', due_ms FROM seed WHERE n % 4 = 2
)
INSERT INTO ff_operator_event (partition_key, execution_id, event_type, occurred_at_ms)
SELECT partition_key, id::text, 'replayed', due_ms FROM seed WHERE n % 4 = 3;
