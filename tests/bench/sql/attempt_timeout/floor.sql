-- $3 now, $5 the partitions, which the planner can be spared the others by. The core comes last: until then its phase
-- tells which rows they are. Only where nobody else is at work and every active execution has a lapsed lease.
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT execution_id::text, 'expired', $3, partition_key, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_exec_core WHERE partition_key = ANY($5) AND lifecycle_phase = 'active';

INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, 'expired', raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', $3
  FROM ff_exec_core
 WHERE partition_key = ANY($5) AND lifecycle_phase = 'active'
   AND attempt_index >= coalesce((policy->'retry_policy'->>'max_retries')::bigint, 0);

UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, terminal_at_ms = $3, lease_epoch = lease_epoch + 1
 WHERE partition_key = ANY($5) AND lease_expires_at_ms < $3;

UPDATE ff_exec_core c
   SET lifecycle_phase = n.lifecycle_phase, ownership_state = 'unowned', eligibility_state = n.eligibility_state,
       attempt_state = n.attempt_state, public_state = n.public_state,
       attempt_index = c.attempt_index + n.attempts,
       terminal_at_ms = CASE WHEN n.attempts = 0 THEN $3 ELSE c.terminal_at_ms END,
       raw_fields = c.raw_fields || '{"last_failure_message": "attempt_timeout"}'
         || CASE WHEN n.retries THEN jsonb_build_object('total_attempt_count', (c.attempt_index + 1)::text) ELSE '{}' END
  FROM (VALUES (true, 'runnable', 'eligible_now', 'pending_retry_attempt', 'waiting', 1),
               (false, 'terminal', 'not_applicable', 'attempt_terminal', 'expired', 0))
       AS n(retries, lifecycle_phase, eligibility_state, attempt_state, public_state, attempts)
 WHERE c.partition_key = ANY($5) AND c.lifecycle_phase = 'active'
   AND n.retries = (c.attempt_index < coalesce((c.policy->'retry_policy'->>'max_retries')::bigint, 0));
