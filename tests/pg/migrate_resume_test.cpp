// Migrations that several runs, or several migrators at once, bring to their end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>

#include "migrate_stage.hpp"

using namespace ff;
using namespace ff::test::migrations;

TEST_CASE("two migrators at once apply each migration once") {
  const test::Database db{test::empty_database()};
  const auto run = [&](int fan_out) {
    auto connection = connect(db);
    return migrate::up(connection, fan_out);
  };
  auto first = std::async(std::launch::async, run, 2);
  auto second = std::async(std::launch::async, run, 4);
  auto reports = std::vector{first.get(), second.get()};
  auto applied = reports[0].applied;
  applied.insert(applied.end(), reports[1].applied.begin(), reports[1].applied.end());
  std::sort(applied.begin(), applied.end());
  CHECK(applied == all_versions());

  auto connection = connect(db);
  const auto state = migrate::inspect(connection);
  CHECK(state.problems == std::vector<std::string>{});
  REQUIRE(state.fan_out.has_value());
  CHECK(children(connection, "ff_exec_core") == *state.fan_out);
  CHECK(children(connection, "ff_worker_registry") == *state.fan_out);
}

TEST_CASE("a run that ended between two migrations is reported and resumed") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  const auto stop = [](const migrate::Migration& m) {
    if (m.version == 2) throw std::runtime_error("stopped");
  };
  CHECK_THROWS_WITH(migrate::up(connection, kFanOut, stop), "stopped");
  const auto state = migrate::inspect(connection);
  CHECK(state.level == 2);
  CHECK(state.problems ==
        std::vector<std::string>{"schema level 2, needed " + std::to_string(all_versions().back())});
  const auto report = migrate::up(connection, kFanOut + 1);
  const auto all = all_versions();
  CHECK(report.applied == std::vector<int>(all.begin() + 2, all.end()));
  CHECK(report.state.usable());
  CHECK(children(connection, "ff_edge") == kFanOut);
}

TEST_CASE("a database that the first release made is upgraded, at its fan-out and with its rows") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  const auto stop = [](const migrate::Migration& m) {
    if (m.version == 6) throw std::runtime_error("stopped");
  };
  CHECK_THROWS_WITH(migrate::up(connection, kFanOut, stop), "stopped");
  connection.execute_script(R"(
    INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms)
      VALUES (7, gen_random_uuid(), gen_random_uuid(), 'k', 't', 1);
    INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state,
                              eligibility_state, public_state, attempt_state, created_at_ms)
      VALUES (7, gen_random_uuid(), 'l', 'runnable', 'unowned', 'eligible_now', 'waiting', 'pending', 1))");

  const auto report = migrate::up(connection, kFanOut + 1);
  CHECK(report.applied.front() == 7);
  CHECK(report.state.problems == std::vector<std::string>{});
  CHECK(report.state.warnings == std::vector<std::string>{});
  for (const char* table :
       {"ff_claim_grant", "ff_stream_frame", "ff_budget_usage_by_exec", "ff_quota_window"}) {
    CAPTURE(table);
    CHECK(children(connection, table) == kFanOut);
  }
  CHECK(number(connection, "SELECT count(*) FROM ff_waitpoint_pending WHERE state = 'pending'") == 1);
  CHECK(number(connection, "SELECT sum(lease_reclaim_count) FROM ff_exec_core") == 0);
}

TEST_CASE("a run that ended in the middle of a table's children is resumed there") {
  const test::Database db{test::empty_database()};
  auto connection = connect(db);
  connection.execute_script(R"(
    CREATE FUNCTION fail_at_one() RETURNS event_trigger LANGUAGE plpgsql AS $f$
      BEGIN
        IF 'public.ff_edge_p66' IN (SELECT object_identity FROM pg_event_trigger_ddl_commands()) THEN
          RAISE EXCEPTION 'no space left';
        END IF;
      END $f$;
    CREATE EVENT TRIGGER fail_at_one ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
      EXECUTE FUNCTION fail_at_one())");
  CHECK_THROWS_AS(migrate::up(connection, 70), pg::Error);
  CHECK(children(connection, "ff_edge") == 64);
  CHECK(migrate::inspect(connection).level == 2);

  connection.execute("DROP EVENT TRIGGER fail_at_one");
  CHECK(migrate::up(connection, 70).state.usable());
  CHECK(children(connection, "ff_edge") == 70);
}
