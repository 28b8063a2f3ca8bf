-- Suspended executions and the waitpoints that may resume them.

CREATE TABLE IF NOT EXISTS ff_suspension_current (
  partition_key smallint NOT NULL,
  execution_id uuid NOT NULL,
  suspension_id uuid NOT NULL,
  suspended_at_ms bigint NOT NULL,
  timeout_at_ms bigint,
  reason_code text,
  condition jsonb NOT NULL,
  satisfied_set jsonb NOT NULL DEFAULT '[]',
  member_map jsonb NOT NULL DEFAULT '{}',
  timeout_behavior text,
  PRIMARY KEY (partition_key, execution_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_suspension_current_suspended_at_idx ON ff_suspension_current
  (partition_key, suspended_at_ms);
CREATE INDEX IF NOT EXISTS ff_suspension_current_timeout_idx ON ff_suspension_current (partition_key, timeout_at_ms)
  WHERE timeout_at_ms IS NOT NULL;

CREATE TABLE IF NOT EXISTS ff_waitpoint_pending (
  partition_key smallint NOT NULL,
  waitpoint_id uuid NOT NULL,
  execution_id uuid NOT NULL,
  token_kid text NOT NULL,
  token text NOT NULL,
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint,
  condition jsonb,
  waitpoint_key text NOT NULL DEFAULT '',
  PRIMARY KEY (partition_key, waitpoint_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_waitpoint_pending_expires_idx ON ff_waitpoint_pending (partition_key, expires_at_ms)
  WHERE expires_at_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS ff_waitpoint_pending_exec_idx ON ff_waitpoint_pending (partition_key, execution_id);

CALL ff_reconciler_create_children('ff_suspension_current');
CALL ff_reconciler_create_children('ff_waitpoint_pending');
