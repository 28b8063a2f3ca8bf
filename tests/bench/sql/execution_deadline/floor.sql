{completion_events:'expired', ff_exec_core c}
 WHERE {mine:c} AND c.deadline_at_ms <= $4 AND c.lifecycle_phase = 'active';

{expired_events:ff_exec_core c}
 WHERE {mine:c} AND c.deadline_at_ms <= $4 AND c.lifecycle_phase = 'active';

UPDATE ff_attempt a
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1, terminal_at_ms = $3
  FROM ff_exec_core c
 WHERE {same_execution:a, c} AND a.attempt_index = c.attempt_index
   AND {mine:a} AND {mine:c} AND c.deadline_at_ms <= $4 AND c.lifecycle_phase = 'active';

UPDATE ff_exec_core c
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = 'expired', terminal_at_ms = $3,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'execution_deadline')
 WHERE {mine:c} AND c.deadline_at_ms <= $4 AND c.lifecycle_phase = 'active';
