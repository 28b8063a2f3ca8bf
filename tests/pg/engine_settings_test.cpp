// Settings of a role or a database, and row security, change nothing of what the reconcilers see.
#include <catch2/catch.hpp>

#include "migrate/migrate.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("settings that a database gives its sessions are not relied on") {
  const Database database;
  const std::string setting =
      GENERATE("quote_all_identifiers = on", "standard_conforming_strings = off", "array_nulls = off",
               "transform_null_equals = on", "plan_cache_mode = force_generic_plan", "jit_above_cost = 0",
               "default_transaction_isolation = 'serializable'", "enable_indexscan = off");
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

TEST_CASE("row security that would hide rows is an error, and changes none") {
  const Database database;
  auto db = database.connect();
  const std::string table = GENERATE("ff_exec_core", "ff_attempt");
  insert_many_lapsed(db, {.count = 14});
  db.execute_script(
      "CREATE ROLE ff_hidden; GRANT ALL ON ALL TABLES IN SCHEMA public TO ff_hidden;"
      "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ff_hidden;"
      "ALTER TABLE " +
      table + " ENABLE ROW LEVEL SECURITY");
  const auto before = snapshot(db);
  {
    pg::ConnectOptions options = database.connector().options();
    options.conninfo += " options='-c role=ff_hidden'";
    const pg::Connector as_role(options);
    for (const char* name : {"attempt_timeout", "lease_expiry"}) {
      EngineFixture engine(as_role, name);
      const auto report = engine->tick();
      REQUIRE(report.failure);
      CHECK(report.failure->sqlstate() == "42501");
      CHECK_THAT(report.failure->what(), Catch::Contains(table));
    }
  }
  CHECK(diff(before, snapshot(db)).empty());
  db.execute_script("DROP OWNED BY ff_hidden; DROP ROLE ff_hidden");
}
