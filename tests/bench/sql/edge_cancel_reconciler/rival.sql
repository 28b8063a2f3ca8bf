-- $4 flow, $5 downstream, $6 what is left of it.
-- name: list
-- page: 50
{listed_groups};

-- name: lock
SELECT CASE WHEN cancel_siblings_pending_flag THEN 'drained' ELSE 'stale' END
  FROM ff_edge_group
 WHERE {this_group}
   AND NOT (cancel_siblings_pending_flag
            AND EXISTS (SELECT FROM ff_exec_core c
                         WHERE c.partition_key = $1 AND c.execution_id = ANY(cancel_siblings_pending_members::uuid[])
                           AND c.lifecycle_phase NOT IN ('terminal', 'cancelled')))
   FOR UPDATE SKIP LOCKED;

-- for each: lock
-- when: drained
{clear_group};

-- for each: lock
{delete_pending};
