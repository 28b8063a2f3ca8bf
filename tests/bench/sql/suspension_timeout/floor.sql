-- Suspensions come last: by then the core tells what becomes of them.
{completion_events:{new_state}, ff_suspension_current s, ff_exec_core c}
 WHERE {lapsed_with_core} AND c.lifecycle_phase = 'suspended';

DELETE FROM ff_waitpoint_pending w USING ff_suspension_current s, ff_exec_core c
 WHERE {mine:w} AND {same_execution:w, s} AND {lapsed_with_core} AND c.lifecycle_phase = 'suspended';

UPDATE ff_exec_core c
   SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', public_state = 'resumable',
       raw_fields = {counted_c}
  FROM ff_suspension_current s
 WHERE {lapsed_with_core} AND c.lifecycle_phase = 'suspended'
   AND s.timeout_behavior = 'auto_resume_with_timeout_signal';

UPDATE ff_exec_core c
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', terminal_at_ms = $3, public_state = {new_state},
       cancellation_reason = 'suspension_timeout_' || coalesce(s.timeout_behavior, 'fail'),
       raw_fields = c.raw_fields || jsonb_build_object('last_failure_message', 'suspension_timeout')
  FROM ff_suspension_current s
 WHERE {lapsed_with_core} AND c.lifecycle_phase = 'suspended';

DELETE FROM ff_suspension_current s USING ff_exec_core c
 WHERE {lapsed_with_core} AND c.lifecycle_phase = 'terminal';

UPDATE ff_suspension_current s
   SET timeout_at_ms = NULL,
       member_map = CASE c.public_state WHEN 'resumable' THEN {signalled:s.member_map, $3} ELSE s.member_map END
  FROM ff_exec_core c
 WHERE {lapsed_with_core};
