// Whoever may create in a schema of the daemon's path runs nothing with the daemon's rights, nor with an
// administrator's who asks for the status.
#include <catch2/catch.hpp>

#include "config/options.hpp"
#include "pg/connection.hpp"
#include "reconcile/family/registry.hpp"
#include "support/database.hpp"
#include "support/due_rows.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;

namespace {

// Of each function and operator of pg_catalog that plpgsql can have the like of, one in a schema that comes first; of each
// type that statements name, a domain; and for a path on which pg_catalog comes first, some that fit better than any of
// its own. All of them raise. What cannot be made so is passed over: there are enough.
constexpr const char* kHostile = R"sql(
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
    admin.execute_script(kHostile);
    admin.execute_script("ALTER DATABASE " + database.name() +
                         " SET search_path = hostile, pg_catalog, public");
  }
  ~HostileStage() { admin.execute_script("DROP OWNED BY plain; DROP ROLE plain"); }

  // The partitions that have rows; and short intervals, because `audit` waits for one before it reports a row.
  Ended as(const std::string& role, const std::vector<std::string>& command) {
    Environment environment{{"FF_DATABASE_URL", database.conninfo() + " user=" + role},
                            {"FF_RECONCILER_PARTITIONS", "0-15"}};
    for (const reconcile::Reconciler& its : reconcile::registry()) {
      const std::string option = "reconcilers." + std::string(its.name) + ".interval";
      environment.emplace(config::environment_name(option), "1s");
    }
    return run_binary(command, environment);
  }

  Database database;
  pg::Connection admin = database.connect();
};

}  // namespace

TEST_CASE("nothing that others have put on the path of the daemon, or of a superuser, is run") {
  HostileStage stage;
  // They would be, by whoever says nothing of the path.
  auto unwary = stage.database.connect();
  for (const char* sql :
       {"SELECT 2.5 * 2", "SELECT now()", "SELECT rolname FROM pg_roles", "SELECT 'a'::text || 'b'::text"})
    CHECK_THROWS_WITH(unwary.execute(sql), Catch::Contains("hostile"));
  unwary.execute("SET search_path = pg_catalog, public");
  CHECK_THROWS_WITH(unwary.execute("SELECT 2.5 * 2"), Catch::Contains("hostile"));

  const std::string role = GENERATE("plain", "postgres");
  CAPTURE(role);
  const auto check = [&](const std::vector<std::string>& command) {
    const Ended ended = stage.as(role, command);
    CAPTURE(command.front(), ended.out, ended.err);
    CHECK(ended.code == 0);
    CHECK(ended.out.find("hostile ") == std::string::npos);
    CHECK(ended.err.find("hostile ") == std::string::npos);
    return ended.out;
  };
  const std::string execution =
      stage.admin
          .execute("SELECT format('{fp:%s}:%s', partition_key, execution_id) FROM ff_exec_core LIMIT 1")
          .one()
          .get<std::string>(0);
  check({"migrate", "status"});
  check({"status"});
  check({"check-db"});
  if (role == "postgres") check({"pause", "all", "--reason", "nobody else's functions", "--for", "1h"});
  check({"explain", execution});
  const Ended audited = stage.as(role, {"audit"});
  CAPTURE(audited.out, audited.err);
  CHECK(audited.code == 1);  // much of it has been due for long
  CHECK((audited.out + audited.err).find("hostile ") == std::string::npos);
  // The grants of reconcilers are not those of whoever reads everything.
  if (role == "postgres") CHECK(audited.out.find("NOT CHECKED") == std::string::npos);
  std::size_t busy = 0;
  for (const reconcile::Reconciler& reconciler : reconcile::registry())
    if (check({"tick", std::string(reconciler.name), "--gap", "0s"}).find(": 0 due") == std::string::npos)
      ++busy;
  CHECK(busy >= reconcile::registry().size() - 1);
  check({"lease-events"});
  check({"status"});
  if (role == "postgres") check({"resume", "all"});
  CHECK(number(stage.admin, "SELECT count(*) FROM ff_lease_event") > 0);
}

TEST_CASE("a running daemon hears of what its triggers announce, whatever is on its path") {
  HostileStage stage;
  RunningDaemon daemon(
      {.conninfo = stage.database.conninfo() + " user=plain", .config = "recovery_grace: 0s\n"});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  CHECK(wait_until([&] {
    return number(stage.admin, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms < 10000") == 0;
  }));
  CHECK_FALSE(daemon.process().err_has("hostile "));
  CHECK(daemon.stop() == 0);
}
