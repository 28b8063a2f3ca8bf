-- What of a budget's usage came from which execution, and quotas.

CREATE TABLE IF NOT EXISTS ff_budget_usage_by_exec (
  partition_key smallint NOT NULL,
  budget_id text NOT NULL,
  execution_id uuid NOT NULL,
  dimensions_key text NOT NULL,
  delta_total bigint NOT NULL DEFAULT 0,
  updated_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, budget_id, execution_id, dimensions_key)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_budget_usage_by_exec_release_idx ON ff_budget_usage_by_exec
  (partition_key, budget_id, execution_id);

CREATE TABLE IF NOT EXISTS ff_budget_usage_dedup (
  partition_key smallint NOT NULL,
  dedup_key text NOT NULL,
  outcome_json jsonb NOT NULL,
  applied_at_ms bigint NOT NULL,
  expires_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, dedup_key)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_budget_usage_dedup_expires_idx ON ff_budget_usage_dedup
  (partition_key, expires_at_ms);

CREATE TABLE IF NOT EXISTS ff_quota_policy (
  partition_key smallint NOT NULL,
  quota_policy_id text NOT NULL,
  requests_per_window_seconds bigint NOT NULL,
  max_requests_per_window bigint NOT NULL,
  active_concurrency_cap bigint NOT NULL,
  active_concurrency bigint NOT NULL DEFAULT 0,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, quota_policy_id)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_quota_window (
  partition_key smallint NOT NULL,
  quota_policy_id text NOT NULL,
  dimension text NOT NULL DEFAULT '',
  admitted_at_ms bigint NOT NULL,
  execution_id text NOT NULL,
  PRIMARY KEY (partition_key, quota_policy_id, dimension, admitted_at_ms, execution_id)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_quota_admitted (
  partition_key smallint NOT NULL,
  quota_policy_id text NOT NULL,
  execution_id text NOT NULL,
  admitted_at_ms bigint NOT NULL,
  expires_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, quota_policy_id, execution_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_quota_admitted_expires_idx ON ff_quota_admitted (partition_key, expires_at_ms);

CALL ff_reconciler_create_children('ff_budget_usage_by_exec');
CALL ff_reconciler_create_children('ff_budget_usage_dedup');
CALL ff_reconciler_create_children('ff_quota_policy');
CALL ff_reconciler_create_children('ff_quota_window');
CALL ff_reconciler_create_children('ff_quota_admitted');
