-- $4 grant.
-- name: list
SELECT grant_id::text FROM ff_claim_grant
 WHERE partition_key = $1 AND expires_at_ms > 0 AND expires_at_ms <= $2
 ORDER BY expires_at_ms LIMIT $3;

-- name: lock
SELECT FROM ff_claim_grant
 WHERE partition_key = $1 AND grant_id = $4::bytea AND expires_at_ms > 0 AND expires_at_ms <= $3
   FOR UPDATE;

-- for each: lock
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', raw_fields = raw_fields - 'claim_grant'
 WHERE partition_key = $1 AND lifecycle_phase = 'runnable' AND eligibility_state = 'pending_claim'
   AND execution_id = (SELECT execution_id FROM ff_claim_grant WHERE partition_key = $1 AND grant_id = $4::bytea);

-- for each: lock
DELETE FROM ff_claim_grant WHERE partition_key = $1 AND grant_id = $4::bytea;
