#pragma once

#include "config/options.hpp"
#include "pg/connection.hpp"
#include "reconcile/family/registry.hpp"
#include "support/database.hpp"
#include "support/due_rows.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"
#include "support/stages.hpp"

/// What tests have of whoever may create in a schema of the daemon's path.
namespace ff::test {

// Of each function and operator of pg_catalog that plpgsql can have the like of, one in a schema that comes first; of each
// type that statements name, a domain; and for a path on which pg_catalog comes first, some that fit better than any of
// its own. All of them raise. What cannot be made so is passed over: there are enough.
inline constexpr const char* kHostileSchema = R"sql(
CREATE SCHEMA hostile;
DO $$
DECLARE
  each record;
  made integer := 0;
BEGIN
  FOR each IN
    SELECT p.oid, p.proname, pg_catalog.oidvectortypes(p.proargtypes) AS arguments,
           CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || p.prorettype::regtype AS result
      FROM pg_proc p
     WHERE p.pronamespace = 'pg_catalog'::regnamespace
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION hostile.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
                     each.proname, each.arguments, each.result,
                     format('BEGIN RAISE EXCEPTION ''hostile function %s''; END', each.proname));
      made := made + 1;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  IF made < 1500 THEN RAISE 'only % functions', made; END IF;
  made := 0;
  FOR each IN
    SELECT o.oid, o.oprname, o.oprleft::regtype AS lefts, o.oprright::regtype AS rights, o.oprresult::regtype AS result,
           o.oprkind
      FROM pg_operator o
     WHERE o.oprnamespace = 'pg_catalog'::regnamespace
     UNION ALL
    SELECT 1, '*', 'numeric', 'integer', 'numeric', 'b'
     UNION ALL
    SELECT 2, '||', 'text', 'name', 'text', 'b'
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION hostile.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', 'operator_' || each.oid,
                     CASE WHEN each.oprkind = 'b' THEN each.lefts || ', ' ELSE '' END || each.rights, each.result,
                     format('BEGIN RAISE EXCEPTION ''hostile operator %s''; END', replace(each.oprname, '%', '%%')));
      EXECUTE format('CREATE OPERATOR %s.%s (%sRIGHTARG = %s, FUNCTION = hostile.%I)',
                     CASE WHEN each.oid < 10 THEN 'public' ELSE 'hostile' END, each.oprname,
                     CASE WHEN each.oprkind = 'b' THEN 'LEFTARG = ' || each.lefts || ', ' ELSE '' END, each.rights,
                     'operator_' || each.oid);
      made := made + 1;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  IF made < 500 THEN RAISE 'only % operators', made; END IF;
END $$;
CREATE FUNCTION hostile.caught() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hostile''; END';
CREATE FUNCTION public.unnest(smallint[]) RETURNS SETOF smallint LANGUAGE plpgsql AS 'BEGIN PERFORM hostile.caught(); END';
CREATE FUNCTION public.to_jsonb(text) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN PERFORM hostile.caught(); END';
CREATE FUNCTION public.greatest(integer, numeric) RETURNS numeric LANGUAGE plpgsql AS 'BEGIN PERFORM hostile.caught(); END';
DO $$
DECLARE
  each text;
BEGIN
  FOREACH each IN ARRAY ARRAY['text', 'uuid', 'jsonb', 'regclass', 'float8', 'oid', 'xid'] LOOP
    EXECUTE format('CREATE DOMAIN hostile.%I AS pg_catalog.%1$I CHECK (hostile.caught())', each);
  END LOOP;
  FOR each IN SELECT relname FROM pg_catalog.pg_class
               WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') LOOP
    BEGIN
      EXECUTE format('CREATE VIEW hostile.%I AS SELECT * FROM pg_catalog.%1$I WHERE hostile.caught()', each);
    EXCEPTION WHEN invalid_table_definition THEN NULL;
    END;
  END LOOP;
END $$;
GRANT USAGE ON SCHEMA hostile TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA hostile TO PUBLIC)sql";

/// A database whose sessions to come have the hostile schema first, and all kinds of due rows.
struct HostileStage {
  HostileStage() {
    insert_due_rows(admin, {.partitions = 4, .per_partition = 16, .one_due_in = 2, .crowded = 3});
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      if (reconciler.name != "attempt_timeout")
        seed(admin, reconciler);  // it leaves its rows to lease_expiry
    admin.execute_script("CREATE ROLE plain LOGIN");
    std::vector<std::string> command{"migrate", "grants", "--role", "plain"};
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      command.emplace_back(reconciler.name);
    const Ended printed = as("postgres", command);
    REQUIRE(printed.code == 0);
    admin.execute_script(printed.out);
    admin.execute_script(kHostileSchema);
    admin.execute_script("ALTER DATABASE " + database.name() +
                         " SET search_path = hostile, pg_catalog, public");
  }
  ~HostileStage() { admin.execute_script("DROP OWNED BY plain; DROP ROLE plain"); }

  // Short intervals, because `audit` waits for one before it reports a row.
  Ended as(const std::string& role, const std::vector<std::string>& command) {
    Environment environment{{"FF_DATABASE_URL", database.conninfo() + " user=" + role}};
    for (const reconcile::Reconciler& its : reconcile::registry()) {
      const std::string option = "reconcilers." + std::string(its.name) + ".interval";
      environment.emplace(config::environment_name(option), "1s");
    }
    return run_binary(command, over_one_group(std::move(environment)));
  }

  Database database;
  pg::Connection admin = database.connect();
};

}  // namespace ff::test
