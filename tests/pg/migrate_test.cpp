#include "migrate/migrate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "migrate_stage.hpp"

using namespace ff;
using namespace ff::test::migrations;
using migrate::Origin;

namespace {

/// Changes with every change of a table, column, index, function or trigger: xmin is the last one's
/// transaction.
std::string catalog(pg::Connection& connection) {
  constexpr std::string_view kEverything = R"(
    SELECT md5(string_agg(line, '|' ORDER BY line)) FROM (
      SELECT 'class ' || oid || ' ' || relname || ' ' || xmin FROM pg_class
      UNION ALL SELECT 'column ' || attrelid || ' ' || attname || ' ' || xmin FROM pg_attribute
      UNION ALL SELECT 'function ' || oid || ' ' || xmin FROM pg_proc
      UNION ALL SELECT 'trigger ' || oid || ' ' || xmin FROM pg_trigger) AS lines(line))";
  return connection.execute(kEverything).one().get<std::string>(0);
}

/// Makes the database look as if FlowFabric's own migrations had made it, up to their level `level`: there is no 15,
/// and 18, 21 and 22 leave no annotation.
void disguise_as_flowfabric(pg::Connection& connection, int level) {
  migrate::up(connection, kFanOut);
  const std::string versions = "generate_series(1, " + std::to_string(level) + ") AS v WHERE v <> 15";
  connection.execute_script(R"(
    DROP TABLE ff_reconciler_migration;
    DROP PROCEDURE ff_reconciler_create_children;
    CREATE OR REPLACE FUNCTION ff_notify_lease_event() RETURNS trigger LANGUAGE plpgsql AS $f$
      BEGIN PERFORM pg_notify('ff_lease_event', NEW.event_id::text); RETURN NEW; END $f$;
    DROP TRIGGER ff_lease_event_notify_trg ON ff_lease_event;
    CREATE TRIGGER ff_lease_event_notify_trg AFTER INSERT ON ff_lease_event
      FOR EACH ROW EXECUTE FUNCTION ff_notify_lease_event();
    CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, success boolean NOT NULL);
    INSERT INTO _sqlx_migrations SELECT v, true FROM )" +
                            versions + R"(;
    INSERT INTO ff_migration_annotation SELECT v, 'migration ' || v, 1, true FROM )" +
                            versions + " AND v NOT IN (18, 21, 22)");
}

int run_by_psql(const test::Database& db) {
  FILE* const pipe = ::popen(("psql -X -q -d '" + db.conninfo() + "' -f -").c_str(), "w");
  REQUIRE(pipe != nullptr);
  std::fputs(migrate::sql(kFanOut).c_str(), pipe);
  return ::pclose(pipe);
}

/// Of a session that finds another schema on its path before that of FlowFabric's tables.
pg::Connection connect_past_another_schema(const test::Database& db) {
  auto owner = connect(db);
  owner.execute_script("CREATE SCHEMA \"ear lier\"; ALTER DATABASE " + db.name() +
                       " SET search_path = \"ear lier\", public");
  pg::ConnectOptions options;
  options.conninfo = db.conninfo();
  options.relation = "ff_exec_core";
  return pg::Connector(options).connect(Clock::system().now() + Milliseconds{10'000});
}

constexpr std::string_view kInTheOtherSchema =
    "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = '\"ear lier\"'::regnamespace)"
    " + (SELECT count(*) FROM pg_proc WHERE pronamespace = '\"ear lier\"'::regnamespace)";

}  // namespace

TEST_CASE("steps keep each CALL line apart from what is around it") {
  const auto steps =
      migrate::steps("CREATE TABLE a ();\nCALL fill('a');\nCALL fill('b');\n\nSELECT 'CALL x';");
  REQUIRE(steps.size() == 4);
  CHECK(steps[0].sql == "CREATE TABLE a ();\n");
  CHECK_FALSE(steps[0].commits_itself);
  CHECK(steps[1].sql == "CALL fill('a');\n");
  CHECK(steps[1].commits_itself);
  CHECK(steps[2].commits_itself);
  CHECK(steps[3].sql == "\nSELECT 'CALL x';");
  CHECK_FALSE(steps[3].commits_itself);
}

TEST_CASE("up on an empty database makes a schema that passes its own inspection") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  const auto before = migrate::inspect(connection);
  CHECK(before.origin == Origin::none);
  CHECK_FALSE(before.usable());
  CHECK(before.pending.size() == migrate::migrations().size());

  std::vector<int> told;
  const auto report =
      migrate::up(connection, kFanOut, [&](const migrate::Migration& m) { told.push_back(m.version); });
  CHECK(report.applied == all_versions());
  CHECK(told == all_versions());
  CHECK(report.state.origin == Origin::ours);
  CHECK(report.state.schema_version() == migrate::migrations().back().version);
  CHECK(report.state.fan_out == kFanOut);
  CHECK(report.state.problems == std::vector<std::string>{});
  CHECK(report.state.warnings == std::vector<std::string>{});
  CHECK(children(connection, "ff_attempt") == kFanOut);
  CHECK(number(connection, "SELECT count(*) FROM pg_class WHERE relname = 'ff_worker_registry_p002'") == 1);
}

TEST_CASE("up for the second time changes nothing and keeps the first fan-out") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  const auto before = catalog(connection);
  const auto report = migrate::up(connection, kFanOut + 1);
  CHECK(report.applied.empty());
  CHECK(report.state.fan_out == kFanOut);
  CHECK(catalog(connection) == before);
}

TEST_CASE("the script makes the same schema by psql, and can be run again") {
  const test::Database db{test::empty_database()};
  REQUIRE(run_by_psql(db) == 0);
  auto connection = connect(db);
  const auto state = migrate::inspect(connection);
  CHECK(state.origin == Origin::ours);
  CHECK(state.pending.empty());
  CHECK(state.problems == std::vector<std::string>{});
  CHECK(state.fan_out == kFanOut);
  CHECK(run_by_psql(db) == 0);
  CHECK(migrate::up(connection, kFanOut).applied.empty());
}

TEST_CASE("up refuses a fan-out out of range before it touches the database") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  CHECK_THROWS_AS(migrate::up(connection, 0), std::invalid_argument);
  CHECK_THROWS_AS(migrate::up(connection, migrate::kMaxFanOut + 1), std::invalid_argument);
  CHECK_THROWS_AS(migrate::sql(0), std::invalid_argument);
  CHECK(migrate::inspect(connection).origin == Origin::none);
}

TEST_CASE("up refuses when an applied migration has another checksum") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  connection.execute("UPDATE ff_reconciler_migration SET checksum = 'another' WHERE version = 2");
  CHECK_THROWS_AS(migrate::up(connection, kFanOut), migrate::Refused);
  const auto state = migrate::inspect(connection);
  CHECK_FALSE(state.usable());
  REQUIRE(state.changed.size() == 1);
  CHECK_THAT(state.changed[0], Catch::Matchers::StartsWith("migration 2 (core)"));
}

TEST_CASE("a ledger that a later release wrote is accepted") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  connection.execute("INSERT INTO ff_reconciler_migration VALUES (99, 'later', 'x', 1, 3)");
  const auto state = migrate::inspect(connection);
  CHECK(state.usable());
  CHECK(state.schema_version() == 99);
}

TEST_CASE("a database that FlowFabric made is verified and not altered") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  const int level = GENERATE(22, 23);
  disguise_as_flowfabric(connection, level);
  const auto before = catalog(connection);
  const auto report = migrate::up(connection, kFanOut);
  CHECK(report.applied.empty());
  CHECK(report.state.origin == Origin::flowfabric);
  CHECK(report.state.schema_version() == level);
  CHECK(report.state.flowfabric_ledger == level);
  CHECK(report.state.flowfabric_annotation == (level == 22 ? 20 : 23));
  CHECK(migrate::version_text(report.state) ==
        (level == 22 ? "version 22 (by its annotation 20)" : "version 23"));
  CHECK(report.state.problems == std::vector<std::string>{});
  CHECK(report.state.warnings == std::vector<std::string>{});
  CHECK(catalog(connection) == before);
}

TEST_CASE("on a FlowFabric database up makes the tables of our own that are missing, and alters no other") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  disguise_as_flowfabric(connection, 22);
  connection.execute_script("DROP TABLE ff_reconciler_pause; DROP FUNCTION ff_reconciler_notify_pause");
  const auto before = migrate::inspect(connection);
  CHECK(before.usable());
  REQUIRE(before.pending.size() == 1);
  CHECK(before.pending[0].name == "own_pause");
  SECTION("as a role that may create none") {
    connection.execute_script(R"(
      CREATE ROLE creates_nothing;
      GRANT SELECT ON ALL TABLES IN SCHEMA public TO creates_nothing;
      SET ROLE creates_nothing)");
    const auto report = migrate::up(connection, kFanOut);
    CHECK(report.applied.empty());
    CHECK(report.state.usable());
    REQUIRE(report.state.warnings.size() == 1);
    CHECK_THAT(report.state.warnings[0],
               Catch::Matchers::StartsWith("table ff_reconciler_pause is not made: ") &&
                   Catch::Matchers::Contains("permission denied"));
    connection.execute_script("RESET ROLE; DROP OWNED BY creates_nothing; DROP ROLE creates_nothing");
  }
  SECTION("as the owner") {
    std::vector<int> told;
    const auto report =
        migrate::up(connection, kFanOut, [&](const migrate::Migration& m) { told.push_back(m.version); });
    CHECK(report.applied == std::vector<int>{before.pending[0].version});
    CHECK(told == report.applied);
    CHECK(report.state.pending.empty());
    CHECK(report.state.origin == Origin::flowfabric);
    CHECK(number(connection, "SELECT count(*) FROM ff_reconciler_pause") == 0);
    CHECK(number(connection, "SELECT count(*) FROM pg_class WHERE relname = 'ff_reconciler_migration'") == 0);
    const auto after = catalog(connection);
    CHECK(migrate::up(connection, kFanOut).applied.empty());
    CHECK(catalog(connection) == after);
  }
}

TEST_CASE(
    "a table of our own is made beside FlowFabric's, though another schema stands before theirs on the "
    "path") {
  const test::Database db{test::empty_database()};
  {
    auto connection = connect(db);
    const bool ours = GENERATE(false, true);
    if (ours)
      migrate::up(connection, kFanOut);
    else
      disguise_as_flowfabric(connection, 22);
    connection.execute_script("DROP TABLE ff_reconciler_pause; DROP FUNCTION ff_reconciler_notify_pause");
    if (ours) connection.execute("DELETE FROM ff_reconciler_migration WHERE name = 'own_pause'");
  }
  auto connection = connect_past_another_schema(db);
  REQUIRE(migrate::inspect(connection).pending.size() == 1);
  const bool by_script = GENERATE(false, true);
  if (by_script)
    REQUIRE(run_by_psql(db) == 0);
  else
    migrate::up(connection, kFanOut);
  CHECK(migrate::inspect(connection).pending.empty());
  CHECK(number(connection, "SELECT count(*) FROM public.ff_reconciler_pause") == 0);
  CHECK(number(connection, std::string(kInTheOtherSchema)) == 0);
}

TEST_CASE(
    "on a FlowFabric database the script makes the tables of our own that are missing, and alters no other") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  disguise_as_flowfabric(connection, 22);
  const auto untouched = catalog(connection);
  REQUIRE(run_by_psql(db) == 0);
  CHECK(catalog(connection) == untouched);
  connection.execute_script("DROP TABLE ff_reconciler_pause; DROP FUNCTION ff_reconciler_notify_pause");
  REQUIRE(run_by_psql(db) == 0);
  const auto state = migrate::inspect(connection);
  CHECK(state.origin == Origin::flowfabric);
  CHECK(state.pending.empty());
  CHECK(state.problems == std::vector<std::string>{});
  CHECK(number(connection, "SELECT count(*) FROM pg_class WHERE relname = 'ff_reconciler_migration'") == 0);
}

TEST_CASE("our schema can be run on without the migration that makes a table of our own") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  connection.execute_script(
      "DROP TABLE ff_reconciler_pause; DELETE FROM ff_reconciler_migration WHERE name = 'own_pause'");
  const auto state = migrate::inspect(connection);
  CHECK(state.problems == std::vector<std::string>{});
  REQUIRE(state.pending.size() == 1);
  const auto report = migrate::up(connection, kFanOut);
  CHECK(report.applied == std::vector<int>{state.pending[0].version});
  CHECK(report.state.pending.empty());
}

TEST_CASE("of a FlowFabric database only the contract decides, whatever its ledger and annotation say") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  disguise_as_flowfabric(connection, 22);
  SECTION("neither is there") {
    connection.execute_script("DROP TABLE _sqlx_migrations; TRUNCATE ff_migration_annotation");
    const auto state = migrate::inspect(connection);
    CHECK(state.problems == std::vector<std::string>{});
    CHECK(migrate::version_text(state) == "version not known");
  }
  SECTION("they are not for us to read") {
    connection.execute_script(R"(
      CREATE ROLE reads_no_ledger;
      GRANT SELECT ON ff_partition_config TO reads_no_ledger;
      SET ROLE reads_no_ledger)");
    const auto state = migrate::inspect(connection);
    CHECK(state.origin == Origin::flowfabric);
    CHECK(state.problems == std::vector<std::string>{});
    CHECK_FALSE(state.flowfabric_ledger);
    CHECK_FALSE(state.flowfabric_annotation);
    CHECK(migrate::version_text(state) == "version not for this role to read");
    connection.execute_script("RESET ROLE; DROP OWNED BY reads_no_ledger; DROP ROLE reads_no_ledger");
  }
  SECTION("the ledger has a migration that did not succeed") {
    connection.execute("UPDATE _sqlx_migrations SET success = false WHERE version = 22");
    CHECK(migrate::inspect(connection).schema_version() == 21);
    CHECK(migrate::inspect(connection).usable());
  }
  SECTION("they say all is done, but a table is missing") {
    connection.execute("DROP TABLE ff_claim_grant");
    CHECK(migrate::inspect(connection).problems ==
          std::vector<std::string>{"table ff_claim_grant is missing"});
  }
}

TEST_CASE("another program's ledger of the same kind does not make a database FlowFabric's") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  connection.execute_script(
      "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, success boolean NOT NULL);"
      "INSERT INTO _sqlx_migrations VALUES (7, true)");
  const auto state = migrate::up(connection, kFanOut).state;
  CHECK(state.origin == Origin::ours);
  CHECK(state.usable());
  CHECK_FALSE(state.flowfabric_ledger);
}

TEST_CASE("an annotation table without our ledger is FlowFabric's even while it is empty") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  connection.execute(
      "CREATE TABLE ff_migration_annotation (version integer PRIMARY KEY, name text NOT NULL, "
      "applied_at_ms bigint NOT NULL, backward_compatible boolean NOT NULL)");
  const auto report = migrate::up(connection, kFanOut);
  CHECK(report.applied.empty());
  CHECK_FALSE(report.state.usable());
  CHECK(number(connection, "SELECT count(*) FROM pg_class WHERE relname LIKE 'ff_exec%'") == 0);
}

TEST_CASE("every kind of difference from the contract is named") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  disguise_as_flowfabric(connection, 22);
  connection.execute_script(R"(
    ALTER TABLE ff_exec_core DROP COLUMN deadline_at_ms;
    ALTER TABLE ff_attempt ALTER COLUMN lease_epoch TYPE integer;
    ALTER TABLE ff_edge ALTER COLUMN policy DROP NOT NULL;
    ALTER TABLE ff_pending_cancel_groups DROP CONSTRAINT ff_pending_cancel_groups_pkey;
    ALTER TABLE ff_worker_registry_event DROP CONSTRAINT ff_worker_registry_event_pkey,
      ADD PRIMARY KEY (partition_key, namespace, worker_instance_id, event_at_ms);
    DROP TABLE ff_budget_usage;
    DROP TABLE ff_flow_core_p1;
    DROP INDEX ff_lease_event_partition_key_idx;
    ALTER TABLE ff_lease_event DISABLE TRIGGER ff_lease_event_notify_trg;)");
  const auto state = migrate::inspect(connection);
  CHECK(state.problems == std::vector<std::string>{
                              "column ff_exec_core.deadline_at_ms is missing",
                              "column ff_attempt.lease_epoch is integer, bigint is needed",
                              "column ff_edge.policy may be null, which must not be",
                              "table ff_budget_usage is missing",
                              "table ff_pending_cancel_groups has no primary key, "
                              "(partition_key, flow_id, downstream_eid) is needed",
                              "table ff_worker_registry_event has the primary key (partition_key, namespace, "
                              "worker_instance_id, event_at_ms), (partition_key, namespace, "
                              "worker_instance_id, event_at_ms, event_kind) is needed",
                              "table ff_flow_core lacks some of its hash children"});
  CHECK(state.warnings ==
        std::vector<std::string>{
            "index ff_exec_core_deadline_idx on ff_exec_core is missing or invalid",
            "index ff_lease_event_partition_key_idx on ff_lease_event is missing or invalid",
            "no enabled insert trigger on ff_lease_event notifies ff_lease_event: "
            "subscribers learn of events by polling only"});
}

TEST_CASE("a partition configuration without its row is a problem") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  connection.execute("DELETE FROM ff_partition_config");
  CHECK(migrate::inspect(connection).problems ==
        std::vector<std::string>{"table ff_partition_config has no row"});
}

TEST_CASE("more partitions than a smallint can number are a problem, as many as it can are none") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  connection.execute("UPDATE ff_partition_config SET num_flow_partitions = 32768");
  CHECK(migrate::inspect(connection).usable());
  connection.execute("UPDATE ff_partition_config SET num_flow_partitions = 32769");
  CHECK(migrate::inspect(connection).problems ==
        std::vector<std::string>{"ff_partition_config has 32769 flow partitions and 256 budget partitions, "
                                 "1 to 32768 are possible"});
}

TEST_CASE("the triggers notify once per statement and partition") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  // A pg_notify that the search path puts before the server's own, and that writes down what it is asked.
  connection.execute_script(R"(
    CREATE TABLE notified (channel text, payload text);
    CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS
      $f$ INSERT INTO notified VALUES ($1, $2) $f$;
    SET search_path = public, pg_catalog;
    INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms)
      SELECT n % 3, gen_random_uuid(), 'success', 1 FROM generate_series(1, 9) AS n;
    INSERT INTO ff_lease_event (partition_key, execution_id, event_type, occurred_at_ms)
      SELECT n % 3, gen_random_uuid(), 'expired', 1 FROM generate_series(1, 9) AS n;
    INSERT INTO ff_lease_event (partition_key, execution_id, event_type, occurred_at_ms)
      SELECT 1, 'none', 'expired', 1 WHERE false;)");
  const auto notified =
      connection.execute("SELECT channel || ' ' || payload FROM notified ORDER BY channel, payload");
  std::vector<std::string> lines;
  for (const pg::Row row : notified) lines.push_back(row.get<std::string>(0));
  CHECK(lines == std::vector<std::string>{"ff_completion 7", "ff_completion 8", "ff_completion 9",
                                          "ff_lease_event 7", "ff_lease_event 8", "ff_lease_event 9"});
}
