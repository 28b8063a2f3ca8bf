-- $4 quota, $5 execution. Whether the quota is idle is not asked.
-- name: list
SELECT quota_policy_id, execution_id FROM ff_quota_window
 WHERE partition_key = $1 AND admitted_at_ms <= $2
 ORDER BY quota_policy_id, dimension, admitted_at_ms LIMIT $3;

-- name: lock
SELECT FROM ff_quota_window
 WHERE partition_key = $1 AND quota_policy_id = $4 AND execution_id = $5 AND admitted_at_ms <= $3
   FOR UPDATE;

-- for each: lock
DELETE FROM ff_quota_window
 WHERE partition_key = $1 AND quota_policy_id = $4 AND execution_id = $5;
