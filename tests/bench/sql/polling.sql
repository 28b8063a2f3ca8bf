-- Who looks how often, and for what, in FlowFabric. $1 partition, $2 now, $3 rows.

-- every ms: 750
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time'
   AND deadline_at_ms IS NOT NULL AND deadline_at_ms <= $2
 ORDER BY deadline_at_ms LIMIT $3;

-- every ms: 1500
SELECT execution_id, attempt_index FROM ff_attempt
 WHERE partition_key = $1 AND lease_expires_at_ms IS NOT NULL AND lease_expires_at_ms < $2
 ORDER BY lease_expires_at_ms LIMIT $3;

-- every ms: 2000
SELECT a.execution_id, a.attempt_index
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.partition_key = $1 AND a.lease_expires_at_ms IS NOT NULL AND a.lease_expires_at_ms < $2
   AND c.lifecycle_phase = 'active'
 ORDER BY a.lease_expires_at_ms LIMIT $3;

-- every ms: 5000
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND lifecycle_phase = 'active' AND deadline_at_ms IS NOT NULL AND deadline_at_ms < $2
 ORDER BY deadline_at_ms LIMIT $3;

-- every ms: 2000
SELECT execution_id FROM ff_suspension_current
 WHERE partition_key = $1 AND timeout_at_ms IS NOT NULL AND timeout_at_ms < $2
 ORDER BY timeout_at_ms LIMIT $3;

-- every ms: 5000
SELECT waitpoint_id, execution_id FROM ff_waitpoint_pending
 WHERE partition_key = $1 AND expires_at_ms IS NOT NULL AND expires_at_ms < $2
 ORDER BY expires_at_ms LIMIT $3;

-- every ms: 1000
SELECT event_id FROM ff_completion_event
 WHERE partition_key = $1 AND dispatched_at_ms IS NULL AND committed_at_ms < $2 - 1000
 ORDER BY committed_at_ms LIMIT $3;

-- The dispatcher of cancel groups and their reconciler; both ask once for all partitions.
-- every ms: 1000, 10000
-- once for all partitions: yes
SELECT partition_key, flow_id, downstream_eid FROM ff_pending_cancel_groups ORDER BY enqueued_at_ms LIMIT 50;

-- every ms: 15000
SELECT budget_id FROM ff_budget_policy
 WHERE partition_key = $1 AND next_reset_at_ms IS NOT NULL AND next_reset_at_ms <= $2
 ORDER BY next_reset_at_ms LIMIT $3;

-- every ms: 30000
SELECT namespace, worker_instance_id FROM ff_worker_registry
 WHERE partition_key = $1 AND last_heartbeat_ms + liveness_ttl_ms < $2
 LIMIT $3;
