-- Which reconcilers an operator has paused: a row each, `*` for all of them. `ff-reconcilerd pause` and `resume` write
-- it, every replica reads it.
--
-- A migration whose name begins with own_ makes nothing but a table of our own: own_pause makes ff_reconciler_pause.
-- The reconcilers run without it, and `migrate up` makes it in a database of FlowFabric's, too, where no ledger of ours
-- says what has run, but only whether the table is there.

CREATE TABLE IF NOT EXISTS ff_reconciler_pause (
  reconciler text PRIMARY KEY CHECK (reconciler = '*' OR reconciler ~ '^[a-z_]+$'),
  paused_by text NOT NULL,
  reason text NOT NULL,
  paused_at_ms bigint NOT NULL,
  until_ms bigint  -- null: until it is resumed
);

-- Replicas look every 2 s anyway; this spares them the wait.
CREATE OR REPLACE FUNCTION ff_reconciler_notify_pause() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_notify('ff_reconciler_pause', '');
  RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ff_reconciler_pause_notify_trg
  AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON ff_reconciler_pause
  FOR EACH STATEMENT EXECUTE FUNCTION ff_reconciler_notify_pause();
