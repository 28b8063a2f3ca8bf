-- $4 waitpoint.
-- name: list
SELECT waitpoint_id FROM ff_waitpoint_pending
 WHERE partition_key = $1 AND expires_at_ms IS NOT NULL AND expires_at_ms <= $2 AND state = 'pending'
 ORDER BY expires_at_ms LIMIT $3;

-- name: lock
SELECT FROM ff_waitpoint_pending
 WHERE partition_key = $1 AND waitpoint_id = $4::uuid AND expires_at_ms <= $3 AND state = 'pending'
   FOR UPDATE;

-- for each: lock
DELETE FROM ff_waitpoint_pending WHERE partition_key = $1 AND waitpoint_id = $4::uuid;
