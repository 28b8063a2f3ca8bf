// Settings of a role or a database, and row security, change nothing of what the reconcilers see.
#include <catch2/catch.hpp>

#include "explain/read.hpp"
#include "lease/outbox_reader.hpp"
#include "migrate/migrate.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// A role that may do everything with all tables, but sees no row of these.
class Hidden {
 public:
  Hidden(const Database& database, const std::vector<std::string>& tables)
      : database_(database), db_(database.connect()) {
    db_.execute_script(
        "CREATE ROLE ff_hidden; GRANT ALL ON ALL TABLES IN SCHEMA public TO ff_hidden;"
        "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ff_hidden");
    for (const std::string& table : tables)
      db_.execute_script("ALTER TABLE " + table + " ENABLE ROW LEVEL SECURITY");
  }
  ~Hidden() { db_.execute_script("DROP OWNED BY ff_hidden; DROP ROLE ff_hidden"); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;

  /// As the daemon connects.
  pg::Connector connector() const {
    pg::ConnectOptions options = database_.connector().options();
    options.conninfo += " options='-c role=ff_hidden'";
    options.relation = "ff_exec_core";
    return pg::Connector(options);
  }

 private:
  const Database& database_;
  pg::Connection db_;
};

}  // namespace

TEST_CASE("settings that a database gives its sessions are not relied on") {
  const Database database;
  const std::string setting =
      GENERATE("quote_all_identifiers = on", "standard_conforming_strings = off", "array_nulls = off",
               "transform_null_equals = on", "plan_cache_mode = force_generic_plan", "jit_above_cost = 0",
               "default_transaction_isolation = 'serializable'", "enable_indexscan = off",
               "enable_indexonlyscan = off", "enable_nestloop = off", "enable_partition_pruning = off");
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 14});
  db.execute_script("ALTER DATABASE " + database.name() + " SET " + setting);
  auto session = database.connect();
  CAPTURE(setting);
  CHECK(migrate::inspect(session).problems == std::vector<std::string>{});
  CHECK(migrate::inspect(session).warnings == std::vector<std::string>{});
  EngineFixture engine(database, "attempt_timeout");
  const auto report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 14);
}

TEST_CASE("a name beyond Latin-1 holds nobody up where sessions are given that encoding") {
  const Database database;
  auto db = database.connect();
  db.execute(
      "INSERT INTO ff_worker_registry (partition_key, namespace, worker_instance_id, worker_id, lanes, "
      "capabilities_csv, last_heartbeat_ms, liveness_ttl_ms, registered_at_ms) "
      "SELECT 3, 'café', name, 'w', '{}', '', 5, 30000, 5 FROM unnest('{wł,w}'::text[]) name");
  db.execute_script("ALTER DATABASE " + database.name() + " SET client_encoding = 'LATIN1'");
  EngineFixture engine(database, "worker_registry_ttl", {.filter = for_namespace("café")});
  const auto report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 2);
}

TEST_CASE("a time limit for whole transactions is not relied on, where the server has one") {
  const Database database;
  auto db = database.connect();
  if (number(db, "SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'") == 0) {
    WARN("not tried: this server knows no transaction_timeout");
    return;
  }
  insert_many_lapsed(db, {.count = 14, .partitions = {{3}}});
  db.execute_script(
      "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN PERFORM pg_catalog.pg_sleep(0.1); RETURN new; END$$;"
      "CREATE TRIGGER slow BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION slow();"
      "ALTER DATABASE " +
      database.name() + " SET transaction_timeout = '500ms'");
  EngineFixture engine(database, "attempt_timeout");
  const auto report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 14);
}

TEST_CASE("row security that would hide rows is an error, and changes none") {
  const Database database;
  auto db = database.connect();
  const std::string table = GENERATE("ff_exec_core", "ff_attempt");
  insert_many_lapsed(db, {.count = 14});
  const Hidden hidden(database, {table});
  const auto before = snapshot(db);
  {
    const pg::Connector as_role = hidden.connector();
    for (const char* name : {"attempt_timeout", "lease_expiry"}) {
      EngineFixture engine(as_role, name);
      const auto report = engine->tick();
      REQUIRE(report.failure);
      CHECK(report.failure->sqlstate() == "42501");
      CHECK_THAT(report.failure->what(), Catch::Contains(table));
    }
  }
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("row security that would hide rows is an error of whatever else reads them") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 14});
  const Hidden hidden(database, {"ff_partition_config", "ff_exec_core", "ff_attempt", "ff_lease_event"});
  const pg::Connector connector = hidden.connector();
  pg::Connection session = connector.connect(Clock::system().now() + std::chrono::seconds{10});
  const auto is_refused = [](const auto& read) {
    try {
      read();
    } catch (const pg::Error& error) {
      return error.sqlstate() == "42501";
    }
    return false;
  };
  CHECK(is_refused([&] { migrate::flow_partitions(session); }));
  CHECK(is_refused([&] { migrate::inspect(session); }));
  CHECK(is_refused([&] { lease::read(session, {{.partition = {}}}, 1000, 10); }));
  CHECK(is_refused([&] { lease::read_head(session, lease::means(session), 0); }));
  CHECK(is_refused([&] { explain::Reader({}, sixteen_partitions()).read(session, {{3}, new_uuid()}); }));
  EngineFixture engine(connector, "attempt_timeout");
  CHECK(is_refused([&] { engine->backlog(10); }));
}
