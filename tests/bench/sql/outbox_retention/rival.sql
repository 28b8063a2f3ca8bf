-- $4 event, $5 its outbox.
-- name: list
(SELECT event_id, 'lease' FROM ff_lease_event
  WHERE partition_key = $1 AND occurred_at_ms <= $2
  ORDER BY event_id LIMIT $3)
 UNION ALL
(SELECT event_id, 'completion' FROM ff_completion_event
  WHERE partition_key = $1 AND dispatched_at_ms IS NOT NULL AND committed_at_ms <= $2
  ORDER BY event_id LIMIT $3)
 UNION ALL
(SELECT event_id, 'signal' FROM ff_signal_event
  WHERE partition_key = $1 AND delivered_at_ms <= $2
  ORDER BY event_id LIMIT $3)
 UNION ALL
(SELECT event_id, 'operator' FROM ff_operator_event
  WHERE partition_key = $1 AND occurred_at_ms <= $2
  ORDER BY event_id LIMIT $3);

-- name: lease
-- when: lease
SELECT FROM ff_lease_event WHERE event_id = $4::bigint AND occurred_at_ms <= $3 FOR UPDATE;

-- for each: lease
DELETE FROM ff_lease_event WHERE event_id = $4::bigint;

-- name: completion
-- when: completion
SELECT FROM ff_completion_event
 WHERE partition_key = $1 AND event_id = $4::bigint AND dispatched_at_ms IS NOT NULL AND committed_at_ms <= $3
   FOR UPDATE;

-- for each: completion
DELETE FROM ff_completion_event WHERE partition_key = $1 AND event_id = $4::bigint;

-- name: signal
-- when: signal
SELECT FROM ff_signal_event WHERE event_id = $4::bigint AND delivered_at_ms <= $3 FOR UPDATE;

-- for each: signal
DELETE FROM ff_signal_event WHERE event_id = $4::bigint;

-- name: operator
-- when: operator
SELECT FROM ff_operator_event WHERE event_id = $4::bigint AND occurred_at_ms <= $3 FOR UPDATE;

-- for each: operator
DELETE FROM ff_operator_event WHERE event_id = $4::bigint;
