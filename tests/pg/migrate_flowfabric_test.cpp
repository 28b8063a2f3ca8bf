#include "migrate/migrate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "migrate_stage.hpp"

using namespace ff;
using namespace ff::test::migrations;
using migrate::Origin;

namespace {

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
