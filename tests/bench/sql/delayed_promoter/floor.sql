UPDATE ff_exec_core c
   SET eligibility_state = 'eligible_now', deadline_at_ms = NULL, public_state = 'waiting', raw_fields = {counted_c}
 WHERE {mine:c} AND c.deadline_at_ms <= $4
   AND c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'not_eligible_until_time';
