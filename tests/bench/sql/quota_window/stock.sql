-- rows are: rows of idle quotas, eight of each,
-- rows per partition: 80
-- tables: ff_quota_policy, ff_quota_admitted, ff_quota_window
{seed}
INSERT INTO ff_quota_window (partition_key, quota_policy_id, admitted_at_ms, execution_id)
SELECT partition_key, md5((n / 8)::text), due_ms, '{' || 'fp:1}:' || id FROM seed;
