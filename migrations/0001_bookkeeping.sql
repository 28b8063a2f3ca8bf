-- Book-keeping: the ledger, the partition configuration, and the procedure that makes hash children.
--
-- How these files are run: `ff-reconcilerd migrate up` runs them, and psql can, for they are plain SQL. A line that
-- begins with CALL is sent by itself and commits when it likes; everything between two such lines is one transaction.
-- Every statement can be repeated, because a run that ended half-way is resumed by running the file again.
--
-- The number of hash children is decided once per database: 1 to 1024, from this file's row in the ledger; without one
-- (psql) from the setting ff.fan_out; without that 256.

CREATE TABLE IF NOT EXISTS ff_reconciler_migration (
  version integer PRIMARY KEY,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at_ms bigint NOT NULL,
  fan_out integer CHECK (fan_out BETWEEN 1 AND 1024)
);

-- FlowFabric's own ledger, left empty: rows in it are how a database that FlowFabric made is told from ours.
CREATE TABLE IF NOT EXISTS ff_migration_annotation (
  version integer PRIMARY KEY,
  name text NOT NULL,
  applied_at_ms bigint NOT NULL,
  backward_compatible boolean NOT NULL
);

CREATE TABLE IF NOT EXISTS ff_partition_config (
  singleton_lock boolean PRIMARY KEY DEFAULT true CHECK (singleton_lock),
  num_flow_partitions integer NOT NULL,
  num_budget_partitions integer NOT NULL,
  num_quota_partitions integer NOT NULL,
  ff_version text NOT NULL
);

INSERT INTO ff_partition_config (num_flow_partitions, num_budget_partitions, num_quota_partitions, ff_version)
VALUES (256, 256, 256, 'ff-reconciler')
ON CONFLICT DO NOTHING;

-- Makes the hash children of a partitioned table that are still missing, named <parent>_p<i>, the number padded with
-- zeros to `digits`. It commits after every 64: a child holds up to eight locks until its transaction ends (table,
-- TOAST, indexes), and the default lock table has room for some 7000 in the whole server, so all of them in one
-- transaction would fail or starve everyone else. The advisory lock is the migrator's (lib/migrate/migrate.hpp), taken
-- anew in each transaction.
CREATE OR REPLACE PROCEDURE ff_reconciler_create_children(parent text, digits integer DEFAULT 1)
LANGUAGE plpgsql AS $procedure$
DECLARE
  fan_out integer;
  child text;
  made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(7378413942531219554);
  -- Children of one table have one modulus: those already there decide, whoever made them.
  SELECT substring(pg_get_expr(c.relpartbound, c.oid) FROM 'modulus (\d+)')::integer INTO fan_out
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
   WHERE i.inhparent = parent::regclass
   LIMIT 1;
  IF fan_out IS NULL THEN
    SELECT m.fan_out INTO fan_out FROM ff_reconciler_migration m WHERE m.version = 1;
  END IF;
  fan_out := coalesce(fan_out, nullif(current_setting('ff.fan_out', true), '')::integer, 256);
  IF fan_out NOT BETWEEN 1 AND 1024 THEN
    RAISE EXCEPTION 'the fan-out is % but has to be between 1 and 1024', fan_out
      USING ERRCODE = 'invalid_parameter_value';
  END IF;

  FOR i IN 0 .. fan_out - 1 LOOP
    child := parent || '_p' || lpad(i::text, greatest(digits, length(i::text)), '0');
    IF to_regclass(child) IS NULL THEN
      EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)', child, parent,
                     fan_out, i);
      made := made + 1;
      IF made % 64 = 0 THEN
        COMMIT;
        PERFORM pg_advisory_xact_lock(7378413942531219554);
      END IF;
    END IF;
  END LOOP;
END
$procedure$;
