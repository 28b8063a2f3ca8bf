#include "migrate/migrate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "migrate_stage.hpp"

using namespace ff;
using namespace ff::test::migrations;
using migrate::Origin;

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

TEST_CASE("a table of our own that was dropped is made again, though the ledger has it") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  migrate::up(connection, kFanOut);
  connection.execute("DROP TABLE ff_reconciler_pause");
  const auto state = migrate::inspect(connection);
  CHECK(state.usable());
  REQUIRE(state.pending.size() == 1);
  CHECK(state.pending[0].own_table() == "ff_reconciler_pause");
  const auto report = migrate::up(connection, kFanOut);
  CHECK(report.applied == std::vector<int>{state.pending[0].version});
  CHECK(report.state.pending.empty());
  CHECK(connection.execute("SELECT to_regclass('ff_reconciler_pause') IS NOT NULL").one().get<bool>(0));
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
        std::vector<std::string>{"ff_partition_config has 32769 flow, 256 budget and 256 quota partitions, "
                                 "1 to 32768 are possible"});
  connection.execute("UPDATE ff_partition_config SET num_flow_partitions = 256, num_quota_partitions = 0");
  CHECK(migrate::inspect(connection).problems ==
        std::vector<std::string>{"ff_partition_config has 256 flow, 256 budget and 0 quota partitions, "
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
