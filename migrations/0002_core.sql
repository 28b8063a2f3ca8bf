-- Executions, flows and attempts.

CREATE TABLE IF NOT EXISTS ff_exec_core (
  partition_key smallint NOT NULL,
  execution_id uuid NOT NULL,
  flow_id uuid,
  lane_id text NOT NULL,
  required_capabilities text[] NOT NULL DEFAULT '{}',
  attempt_index integer NOT NULL DEFAULT 0,
  lifecycle_phase text NOT NULL,
  ownership_state text NOT NULL,
  eligibility_state text NOT NULL,
  public_state text NOT NULL,
  attempt_state text NOT NULL,
  blocking_reason text,
  cancellation_reason text,
  cancelled_by text,
  priority integer NOT NULL DEFAULT 0,
  created_at_ms bigint NOT NULL,
  terminal_at_ms bigint,
  deadline_at_ms bigint,
  payload bytea,
  result bytea,
  policy jsonb,
  raw_fields jsonb NOT NULL DEFAULT '{}',
  started_at_ms bigint,
  PRIMARY KEY (partition_key, execution_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_exec_core_lane_phase_idx ON ff_exec_core (partition_key, lane_id, lifecycle_phase);
CREATE INDEX IF NOT EXISTS ff_exec_core_caps_gin_idx ON ff_exec_core USING gin (required_capabilities);
CREATE INDEX IF NOT EXISTS ff_exec_core_flow_idx ON ff_exec_core (partition_key, flow_id) WHERE flow_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS ff_exec_core_deadline_idx ON ff_exec_core (partition_key, deadline_at_ms)
  WHERE deadline_at_ms IS NOT NULL;

CREATE TABLE IF NOT EXISTS ff_flow_core (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  graph_revision bigint NOT NULL DEFAULT 0,
  public_flow_state text NOT NULL,
  created_at_ms bigint NOT NULL,
  terminal_at_ms bigint,
  raw_fields jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (partition_key, flow_id)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_attempt (
  partition_key smallint NOT NULL,
  execution_id uuid NOT NULL,
  attempt_index integer NOT NULL,
  worker_id text,
  worker_instance_id text,
  lease_epoch bigint NOT NULL DEFAULT 0,
  lease_expires_at_ms bigint,
  started_at_ms bigint,
  terminal_at_ms bigint,
  outcome text,
  usage jsonb,
  policy jsonb,
  raw_fields jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (partition_key, execution_id, attempt_index)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_attempt_lease_expiry_idx ON ff_attempt (partition_key, lease_expires_at_ms)
  WHERE lease_expires_at_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS ff_attempt_worker_idx ON ff_attempt (partition_key, worker_id)
  WHERE worker_id IS NOT NULL;

CALL ff_reconciler_create_children('ff_exec_core');
CALL ff_reconciler_create_children('ff_flow_core');
CALL ff_reconciler_create_children('ff_attempt');
