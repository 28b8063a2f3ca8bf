-- $4 flow, $5 downstream, $6 members; then for each of them $7 execution, $8 attempt, $9 what it has of a lease.
-- name: list
-- page: 50
{listed_groups};

-- name: lock
SELECT cancel_siblings_pending_members FROM ff_edge_group
 WHERE {this_group} AND cancel_siblings_pending_flag
   FOR UPDATE SKIP LOCKED;

-- name: sibling
-- for each: lock
SELECT c.execution_id, c.attempt_index,
       CASE WHEN a.execution_id IS NULL THEN 'unclaimed' WHEN a.lease_expires_at_ms IS NULL THEN 'released'
            ELSE 'leased' END
  FROM ff_exec_core c
  LEFT JOIN ff_attempt a ON a.partition_key = $1 AND a.execution_id = c.execution_id
                        AND a.attempt_index = c.attempt_index
 WHERE c.partition_key = $1 AND c.execution_id = ANY($6::uuid[]) AND c.lifecycle_phase NOT IN ('terminal', 'cancelled')
   FOR UPDATE OF c;

-- for each: sibling
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       public_state = 'cancelled', attempt_state = 'cancelled', terminal_at_ms = coalesce(terminal_at_ms, $2),
       cancellation_reason = coalesce(cancellation_reason, 'sibling_quorum_satisfied'),
       cancelled_by = coalesce(cancelled_by, 'engine'),
       raw_fields = raw_fields || jsonb_build_object('last_mutation_at', $2::text)
 WHERE {this_execution:$7};

-- for each: sibling
-- when: leased, released
UPDATE ff_attempt
   SET outcome = 'cancelled', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1, terminal_at_ms = $2
 WHERE {this_execution:$7} AND attempt_index = $8::integer;

-- for each: sibling
-- when: leased
{lease_event:$7, 'revoked'};

-- for each: sibling
DELETE FROM ff_suspension_current WHERE {this_execution:$7};

-- for each: sibling
DELETE FROM ff_waitpoint_pending WHERE {this_execution:$7};

-- for each: sibling
{completion_event:$7, 'cancelled'};

-- for each: lock
{clear_group};

-- for each: lock
{delete_pending};
