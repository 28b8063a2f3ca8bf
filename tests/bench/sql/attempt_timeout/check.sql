-- Where its stock and such leases were all that there was: what is not as it has to be when $1 have been moved, each once and
-- with all that belongs to it, and $2 are left.
WITH attempts AS (
  SELECT count(*) FILTER (WHERE lease_expires_at_ms < extract(epoch FROM clock_timestamp()) * 1000) AS lapsed,
         count(*) FILTER (WHERE lease_expires_at_ms IS NULL AND outcome = 'interrupted' AND lease_epoch = 2
                            AND terminal_at_ms IS NOT NULL) AS interrupted
    FROM ff_attempt
),
cores AS (
  SELECT count(*) FILTER (WHERE lifecycle_phase = 'runnable' AND attempt_index = 1 AND public_state = 'waiting'
                            AND raw_fields->>'total_attempt_count' = '1') AS retried,
         count(*) FILTER (WHERE lifecycle_phase = 'terminal' AND attempt_index = 0 AND public_state = 'expired') AS expired
    FROM ff_exec_core
   WHERE ownership_state = 'unowned' AND raw_fields->>'last_failure_message' = 'attempt_timeout'
),
completions AS (SELECT count(*) AS n FROM ff_completion_event WHERE outcome = 'expired' AND namespace = 'bench'),
events AS (
  SELECT count(*) AS n, count(DISTINCT execution_id) AS leases
    FROM ff_lease_event WHERE event_type = 'expired' AND instance_tag = 'i-1'
)
SELECT what, found, expected
  FROM attempts, cores, completions, events,
       LATERAL (VALUES ('lapsed leases left', lapsed, $2), ('attempts interrupted', interrupted, $1),
                       ('executions retried or expired', retried + expired, $1),
                       ('completion events', completions.n, expired), ('lease events', events.n, $1),
                       ('leases with an event', leases, $1)) AS facts (what, found, expected)
 WHERE found <> expected;
