-- What typed claims, signals and operators write.

-- Raised by FlowFabric with each attempt that it begins by way of a reclaim grant.
ALTER TABLE ff_exec_core ADD COLUMN IF NOT EXISTS lease_reclaim_count integer NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS ff_claim_grant (
  partition_key smallint NOT NULL,
  grant_id bytea NOT NULL,
  execution_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('claim', 'reclaim')),
  worker_id text NOT NULL,
  worker_instance_id text NOT NULL,
  lane_id text,
  capability_hash text,
  worker_capabilities jsonb NOT NULL DEFAULT '[]',
  route_snapshot_json text,
  admission_summary text,
  grant_ttl_ms bigint NOT NULL,
  issued_at_ms bigint NOT NULL,
  expires_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, grant_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_claim_grant_execution_idx ON ff_claim_grant (partition_key, execution_id);
CREATE INDEX IF NOT EXISTS ff_claim_grant_expiry_idx ON ff_claim_grant (expires_at_ms);

-- The secrets that waitpoint tokens are signed with; the rows come from whoever sets FlowFabric up.
CREATE TABLE IF NOT EXISTS ff_waitpoint_hmac (
  kid text PRIMARY KEY,
  secret bytea NOT NULL,
  rotated_at_ms bigint NOT NULL,
  active boolean NOT NULL DEFAULT true
);

ALTER TABLE ff_waitpoint_pending
  ADD COLUMN IF NOT EXISTS state text NOT NULL DEFAULT 'pending',
  ADD COLUMN IF NOT EXISTS required_signal_names text[] NOT NULL DEFAULT '{}',
  ADD COLUMN IF NOT EXISTS activated_at_ms bigint;

CREATE TABLE IF NOT EXISTS ff_suspend_dedup (
  partition_key smallint NOT NULL,
  idempotency_key text NOT NULL,
  outcome_json jsonb NOT NULL,
  created_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, idempotency_key)
);

-- Two more outboxes, built and announced like ff_lease_event.

CREATE TABLE IF NOT EXISTS ff_signal_event (
  event_id bigserial PRIMARY KEY,
  execution_id text NOT NULL,
  signal_id text NOT NULL,
  waitpoint_id text,
  source_identity text,
  delivered_at_ms bigint NOT NULL,
  partition_key integer NOT NULL,
  namespace text,
  instance_tag text
);

CREATE INDEX IF NOT EXISTS ff_signal_event_partition_key_idx ON ff_signal_event (partition_key, event_id);
CREATE INDEX IF NOT EXISTS ff_signal_event_namespace_idx ON ff_signal_event (partition_key, namespace)
  WHERE namespace IS NOT NULL;
CREATE INDEX IF NOT EXISTS ff_signal_event_instance_tag_idx ON ff_signal_event (partition_key, instance_tag)
  WHERE instance_tag IS NOT NULL;

CREATE TABLE IF NOT EXISTS ff_operator_event (
  event_id bigserial PRIMARY KEY,
  execution_id text NOT NULL,
  event_type text NOT NULL CHECK (event_type IN ('priority_changed', 'replayed', 'flow_cancel_requested')),
  details jsonb,
  occurred_at_ms bigint NOT NULL,
  partition_key integer NOT NULL,
  namespace text,
  instance_tag text
);

CREATE INDEX IF NOT EXISTS ff_operator_event_partition_key_idx ON ff_operator_event (partition_key, event_id);
CREATE INDEX IF NOT EXISTS ff_operator_event_namespace_idx ON ff_operator_event (partition_key, namespace)
  WHERE namespace IS NOT NULL;
CREATE INDEX IF NOT EXISTS ff_operator_event_instance_tag_idx ON ff_operator_event (partition_key, instance_tag)
  WHERE instance_tag IS NOT NULL;

CREATE OR REPLACE FUNCTION ff_notify_signal_event() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_notify('ff_signal_event', newest::text)
     FROM (SELECT max(event_id) AS newest FROM inserted GROUP BY partition_key) AS partitions;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ff_signal_event_notify_trg
  AFTER INSERT ON ff_signal_event
  REFERENCING NEW TABLE AS inserted
  FOR EACH STATEMENT EXECUTE FUNCTION ff_notify_signal_event();

CREATE OR REPLACE FUNCTION ff_notify_operator_event() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_notify('ff_operator_event', newest::text)
     FROM (SELECT max(event_id) AS newest FROM inserted GROUP BY partition_key) AS partitions;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ff_operator_event_notify_trg
  AFTER INSERT ON ff_operator_event
  REFERENCING NEW TABLE AS inserted
  FOR EACH STATEMENT EXECUTE FUNCTION ff_notify_operator_event();

CALL ff_reconciler_create_children('ff_claim_grant');
