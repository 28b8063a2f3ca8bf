-- rows are: budgets of two dimensions, both spent by one execution,
-- rows per partition: 80
-- tables: ff_budget_policy, ff_budget_usage, ff_budget_usage_by_exec
{seed},
budgets AS (
  INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, scope_type, scope_id,
                                enforcement_mode, breach_count, last_breach_at_ms, last_breach_dim, next_reset_at_ms)
  SELECT partition_key, id::text, '{"reset_interval_ms": 3600000, "limits": {"tokens": 100}}', 1, 1, 'tenant', 't-1',
         'enforce', n % 3, CASE WHEN n % 3 > 0 THEN 5 END, CASE WHEN n % 3 > 0 THEN 'tokens' END, due_ms
    FROM seed
),
usage AS (
  INSERT INTO ff_budget_usage (partition_key, budget_id, dimensions_key, current_value, updated_at_ms)
  SELECT partition_key, id::text, dimension, 101, 5 FROM seed, unnest(ARRAY['tokens', 'requests']) AS dimension
)
INSERT INTO ff_budget_usage_by_exec (partition_key, budget_id, execution_id, dimensions_key, delta_total, updated_at_ms)
SELECT partition_key, id::text, flow, dimension, 101, 5 FROM seed, unnest(ARRAY['tokens', 'requests']) AS dimension;
