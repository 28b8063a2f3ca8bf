-- Budgets and the registry of workers.

CREATE TABLE IF NOT EXISTS ff_budget_policy (
  partition_key smallint NOT NULL,
  budget_id text NOT NULL,
  policy_json jsonb NOT NULL,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  scope_type text NOT NULL DEFAULT '',
  scope_id text NOT NULL DEFAULT '',
  enforcement_mode text NOT NULL DEFAULT '',
  breach_count bigint NOT NULL DEFAULT 0,
  soft_breach_count bigint NOT NULL DEFAULT 0,
  last_breach_at_ms bigint,
  last_breach_dim text,
  next_reset_at_ms bigint,
  PRIMARY KEY (partition_key, budget_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_budget_policy_reset_due_idx ON ff_budget_policy (partition_key, next_reset_at_ms)
  WHERE next_reset_at_ms IS NOT NULL;

CREATE TABLE IF NOT EXISTS ff_budget_usage (
  partition_key smallint NOT NULL,
  budget_id text NOT NULL,
  dimensions_key text NOT NULL,
  current_value bigint NOT NULL DEFAULT 0,
  last_reset_at_ms bigint,
  updated_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, budget_id, dimensions_key)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_worker_registry (
  partition_key smallint NOT NULL,
  namespace text NOT NULL,
  worker_instance_id text NOT NULL,
  worker_id text NOT NULL,
  lanes text[] NOT NULL,
  capabilities_csv text NOT NULL,
  last_heartbeat_ms bigint NOT NULL,
  liveness_ttl_ms bigint NOT NULL,
  registered_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, namespace, worker_instance_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_worker_registry_ns_inst_idx ON ff_worker_registry (namespace, worker_instance_id);

CREATE TABLE IF NOT EXISTS ff_worker_registry_event (
  partition_key smallint NOT NULL,
  namespace text NOT NULL,
  worker_instance_id text NOT NULL,
  event_at_ms bigint NOT NULL,
  event_kind text NOT NULL,
  reason text,
  PRIMARY KEY (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
) PARTITION BY HASH (partition_key);

CALL ff_reconciler_create_children('ff_budget_policy');
CALL ff_reconciler_create_children('ff_budget_usage');
CALL ff_reconciler_create_children('ff_worker_registry', 3);
CALL ff_reconciler_create_children('ff_worker_registry_event', 3);
