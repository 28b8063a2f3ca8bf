{expired_events:ff_attempt a JOIN ff_exec_core c ON {same_execution:c, a}}
 WHERE {mine:c} AND {mine:a} AND a.lease_expires_at_ms <= $4;

UPDATE ff_exec_core c
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting',
       raw_fields = {counted_c} || jsonb_build_object('lease_expired_at_ms', $3)
  FROM ff_attempt a
 WHERE {same_execution:c, a} AND c.attempt_index = a.attempt_index AND c.lifecycle_phase = 'active'
   AND {mine:c} AND {mine:a} AND a.lease_expires_at_ms <= $4;

UPDATE ff_attempt a
   SET outcome = 'lease_expired_reclaimable', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1,
       raw_fields = CASE c.lifecycle_phase WHEN 'runnable'
                            THEN a.raw_fields || jsonb_build_object(
                                   'lease_reclaims', coalesce((a.raw_fields->>'lease_reclaims')::bigint, 0) + 1)
                            ELSE a.raw_fields END
  FROM ff_exec_core c
 WHERE {same_execution:c, a} AND {mine:c} AND {mine:a} AND a.lease_expires_at_ms <= $4;
