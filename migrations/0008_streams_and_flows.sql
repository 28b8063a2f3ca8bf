-- What executions stream out, what is known of flows as a whole, and flows that are being cancelled.

CREATE TABLE IF NOT EXISTS ff_stream_frame (
  partition_key smallint NOT NULL,
  execution_id uuid NOT NULL,
  attempt_index integer NOT NULL,
  ts_ms bigint NOT NULL,
  seq integer NOT NULL,
  fields jsonb NOT NULL,
  mode text NOT NULL,
  created_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, execution_id, attempt_index, ts_ms, seq)
) PARTITION BY HASH (partition_key);

-- The primary key's columns once more: here because FlowFabric has it, too.
CREATE INDEX IF NOT EXISTS ff_stream_frame_ts_seq_idx ON ff_stream_frame
  (partition_key, execution_id, attempt_index, ts_ms, seq);

-- Frames come one by one, and each stream has a channel of its own: so, other than for the outboxes, row by row.
CREATE OR REPLACE FUNCTION ff_notify_stream_frame() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_notify(format('ff_stream_%s_%s', NEW.execution_id, NEW.attempt_index),
                    format('%s-%s', NEW.ts_ms, NEW.seq));
  RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ff_stream_frame_notify_trg
  AFTER INSERT ON ff_stream_frame
  FOR EACH ROW EXECUTE FUNCTION ff_notify_stream_frame();

CREATE TABLE IF NOT EXISTS ff_stream_summary (
  partition_key smallint NOT NULL,
  execution_id uuid NOT NULL,
  attempt_index integer NOT NULL,
  document_json jsonb NOT NULL,
  version integer NOT NULL DEFAULT 0,
  patch_kind text,
  last_updated_ms bigint NOT NULL,
  first_applied_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, execution_id, attempt_index)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_stream_meta (
  partition_key smallint NOT NULL,
  execution_id uuid NOT NULL,
  attempt_index integer NOT NULL,
  ema_rate_hz double precision NOT NULL DEFAULT 0,
  last_append_ts_ms bigint NOT NULL DEFAULT 0,
  maxlen_applied_last integer NOT NULL DEFAULT 0,
  PRIMARY KEY (partition_key, execution_id, attempt_index)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_lane_registry (
  lane_id text PRIMARY KEY,
  registered_at_ms bigint NOT NULL,
  registered_by text NOT NULL
);

CREATE TABLE IF NOT EXISTS ff_flow_summary (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  total_members bigint NOT NULL DEFAULT 0,
  sampled_members integer NOT NULL DEFAULT 0,
  members_completed integer NOT NULL DEFAULT 0,
  members_failed integer NOT NULL DEFAULT 0,
  members_cancelled integer NOT NULL DEFAULT 0,
  members_expired integer NOT NULL DEFAULT 0,
  members_skipped integer NOT NULL DEFAULT 0,
  members_active integer NOT NULL DEFAULT 0,
  members_suspended integer NOT NULL DEFAULT 0,
  members_waiting integer NOT NULL DEFAULT 0,
  members_delayed integer NOT NULL DEFAULT 0,
  members_rate_limited integer NOT NULL DEFAULT 0,
  members_waiting_children integer NOT NULL DEFAULT 0,
  public_flow_state text NOT NULL,
  last_summary_update_at bigint NOT NULL,
  PRIMARY KEY (partition_key, flow_id)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_cancel_backlog (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  requested_at_ms bigint NOT NULL,
  requester text NOT NULL DEFAULT '',
  reason text NOT NULL DEFAULT '',
  grace_until_ms bigint,
  cancellation_policy text NOT NULL,
  status text NOT NULL DEFAULT 'pending',
  PRIMARY KEY (partition_key, flow_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_cancel_backlog_grace_idx ON ff_cancel_backlog (partition_key, grace_until_ms)
  WHERE grace_until_ms IS NOT NULL;

CREATE TABLE IF NOT EXISTS ff_cancel_backlog_member (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  execution_id text NOT NULL,
  PRIMARY KEY (partition_key, flow_id, execution_id)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_cancel_dispatch_outbox (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  downstream_eid uuid NOT NULL,
  target_exec_id uuid NOT NULL,
  reason text NOT NULL,
  enqueued_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, flow_id, downstream_eid, target_exec_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_cancel_dispatch_outbox_enqueued_idx ON ff_cancel_dispatch_outbox
  (partition_key, enqueued_at_ms);

CALL ff_reconciler_create_children('ff_stream_frame');
CALL ff_reconciler_create_children('ff_stream_summary');
CALL ff_reconciler_create_children('ff_stream_meta');
CALL ff_reconciler_create_children('ff_flow_summary');
CALL ff_reconciler_create_children('ff_cancel_backlog');
CALL ff_reconciler_create_children('ff_cancel_backlog_member');
CALL ff_reconciler_create_children('ff_cancel_dispatch_outbox');
