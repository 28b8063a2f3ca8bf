-- One of two who were counted is no longer there. No window is over: that would be a companion's work.
-- rows are: quotas whose count is above their admissions
-- rows per partition: 80
-- tables: ff_quota_policy, ff_quota_admitted
{seed},
quotas AS (
  INSERT INTO ff_quota_policy (partition_key, quota_policy_id, requests_per_window_seconds, max_requests_per_window,
                               active_concurrency_cap, active_concurrency, created_at_ms, updated_at_ms)
  SELECT partition_key, id::text, 60, 0, 10, 2, 1, 1 FROM seed
)
INSERT INTO ff_quota_admitted (partition_key, quota_policy_id, execution_id, admitted_at_ms, expires_at_ms)
SELECT partition_key, id::text, '1' || id::text, 1, 9000000000000 FROM seed;
