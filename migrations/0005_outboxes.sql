-- The two outboxes and their wake-ups.
--
-- The triggers notify once per statement and partition, with the highest new event_id as payload: subscribers take any
-- notification as a hint to read the table, and a reconciler's statement that inserts a thousand events should not
-- queue a thousand notifications. They fire for statements that name the partitioned table, as all do.

CREATE TABLE IF NOT EXISTS ff_completion_event (
  partition_key smallint NOT NULL,
  event_id bigint GENERATED ALWAYS AS IDENTITY,
  execution_id uuid NOT NULL,
  flow_id uuid,
  outcome text NOT NULL,
  namespace text,
  instance_tag text,
  occurred_at_ms bigint NOT NULL,
  committed_at_ms bigint NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  dispatched_at_ms bigint,
  PRIMARY KEY (partition_key, event_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_completion_event_event_id_idx ON ff_completion_event (event_id);
CREATE INDEX IF NOT EXISTS ff_completion_event_pending_dispatch_idx ON ff_completion_event
  (partition_key, committed_at_ms) WHERE dispatched_at_ms IS NULL;
CREATE INDEX IF NOT EXISTS ff_completion_event_lookup_idx ON ff_completion_event
  (partition_key, execution_id, occurred_at_ms);

CREATE TABLE IF NOT EXISTS ff_lease_event (
  event_id bigserial PRIMARY KEY,
  execution_id text NOT NULL,
  lease_id text,
  event_type text NOT NULL,
  occurred_at_ms bigint NOT NULL,
  partition_key integer NOT NULL,
  namespace text,
  instance_tag text
);

CREATE INDEX IF NOT EXISTS ff_lease_event_partition_key_idx ON ff_lease_event (partition_key, event_id);
CREATE INDEX IF NOT EXISTS ff_lease_event_namespace_idx ON ff_lease_event (partition_key, namespace)
  WHERE namespace IS NOT NULL;
CREATE INDEX IF NOT EXISTS ff_lease_event_instance_tag_idx ON ff_lease_event (partition_key, instance_tag)
  WHERE instance_tag IS NOT NULL;

CREATE OR REPLACE FUNCTION ff_notify_completion_event() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_notify('ff_completion', newest::text)
     FROM (SELECT max(event_id) AS newest FROM inserted GROUP BY partition_key) AS partitions;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ff_completion_event_notify_trg
  AFTER INSERT ON ff_completion_event
  REFERENCING NEW TABLE AS inserted
  FOR EACH STATEMENT EXECUTE FUNCTION ff_notify_completion_event();

CREATE OR REPLACE FUNCTION ff_notify_lease_event() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_notify('ff_lease_event', newest::text)
     FROM (SELECT max(event_id) AS newest FROM inserted GROUP BY partition_key) AS partitions;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ff_lease_event_notify_trg
  AFTER INSERT ON ff_lease_event
  REFERENCING NEW TABLE AS inserted
  FOR EACH STATEMENT EXECUTE FUNCTION ff_notify_lease_event();

CALL ff_reconciler_create_children('ff_completion_event');
