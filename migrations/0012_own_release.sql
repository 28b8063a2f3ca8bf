-- When an operator last released what is held because more rows were due than hold_above allows: a row for each
-- reconciler, `*` for all of them. `ff-reconcilerd resume` writes it, every replica reads it. A row stays until the next
-- replaces it: it releases what is held from before it or soon after, and nothing that is held later.

CREATE TABLE IF NOT EXISTS ff_reconciler_release (
  reconciler text PRIMARY KEY CHECK (reconciler = '*' OR reconciler ~ '^[a-z_]+$'),
  released_by text NOT NULL,
  released_at_ms bigint NOT NULL
);

-- On the channel of the pauses, which are read at the same time.
CREATE OR REPLACE FUNCTION ff_reconciler_notify_release() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_notify('ff_reconciler_pause', '');
  RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ff_reconciler_release_notify_trg
  AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON ff_reconciler_release
  FOR EACH STATEMENT EXECUTE FUNCTION ff_reconciler_notify_release();
