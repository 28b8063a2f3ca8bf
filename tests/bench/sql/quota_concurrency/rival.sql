-- $4 quota.
-- name: list
SELECT quota_policy_id FROM ff_quota_policy q
 WHERE partition_key = $1
   AND active_concurrency > (SELECT count(*) FROM ff_quota_admitted g
                              WHERE g.partition_key = $1 AND g.quota_policy_id = q.quota_policy_id
                                AND g.expires_at_ms >= $2 - 60000)
 LIMIT $3;

-- name: lock
SELECT FROM ff_quota_policy WHERE partition_key = $1 AND quota_policy_id = $4 AND $3::bigint > 0 FOR UPDATE;

-- for each: lock
DELETE FROM ff_quota_admitted
 WHERE partition_key = $1 AND quota_policy_id = $4 AND expires_at_ms < $2 - 60000;

-- for each: lock
UPDATE ff_quota_policy
   SET active_concurrency = (SELECT count(*) FROM ff_quota_admitted
                              WHERE partition_key = $1 AND quota_policy_id = $4),
       updated_at_ms = $2
 WHERE partition_key = $1 AND quota_policy_id = $4;
