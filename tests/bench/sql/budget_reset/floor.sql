UPDATE ff_budget_usage u
   SET current_value = 0, last_reset_at_ms = $3, updated_at_ms = $3
  FROM ff_budget_policy b
 WHERE u.partition_key = b.partition_key AND u.budget_id = b.budget_id
   AND {mine:u} AND {mine:b} AND b.next_reset_at_ms <= $4;

DELETE FROM ff_budget_usage_by_exec l USING ff_budget_policy b
 WHERE l.partition_key = b.partition_key AND l.budget_id = b.budget_id
   AND {mine:l} AND {mine:b} AND b.next_reset_at_ms <= $4;

UPDATE ff_budget_policy b
   SET last_breach_at_ms = NULL, last_breach_dim = NULL, updated_at_ms = $3,
       next_reset_at_ms = $3 + (policy_json->>'reset_interval_ms')::bigint
 WHERE {mine:b} AND b.next_reset_at_ms <= $4;
