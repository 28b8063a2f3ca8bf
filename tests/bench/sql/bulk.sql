-- All that attempt_timeout does to executions that have a retry left, in plain statements of one transaction.
UPDATE ff_exec_core c
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting', attempt_index = c.attempt_index + 1,
       raw_fields = c.raw_fields || jsonb_build_object('last_failure_message', 'attempt_timeout',
                                                       'total_attempt_count', (c.attempt_index + 1)::text)
  FROM ff_attempt a
 WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id
   AND a.lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint;

INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT c.execution_id::text, 'expired', floor(extract(epoch FROM now()) * 1000)::bigint, c.partition_key,
       c.raw_fields->>'namespace', c.raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint;

UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1,
       terminal_at_ms = floor(extract(epoch FROM now()) * 1000)::bigint
 WHERE lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint;
