-- $4 budget, $5 its next reset.
-- name: list
SELECT budget_id FROM ff_budget_policy
 WHERE partition_key = $1 AND next_reset_at_ms IS NOT NULL AND next_reset_at_ms <= $2
 ORDER BY next_reset_at_ms LIMIT $3;

-- name: lock
SELECT $2 + (policy_json->>'reset_interval_ms')::bigint FROM ff_budget_policy
 WHERE partition_key = $1 AND budget_id = $4 AND next_reset_at_ms <= $3
   FOR UPDATE;

-- for each: lock
UPDATE ff_budget_usage SET current_value = 0, last_reset_at_ms = $2, updated_at_ms = $2
 WHERE partition_key = $1 AND budget_id = $4;

-- for each: lock
DELETE FROM ff_budget_usage_by_exec WHERE partition_key = $1 AND budget_id = $4;

-- for each: lock
UPDATE ff_budget_policy
   SET last_breach_at_ms = NULL, last_breach_dim = NULL, updated_at_ms = $2, next_reset_at_ms = $5::bigint
 WHERE partition_key = $1 AND budget_id = $4;
