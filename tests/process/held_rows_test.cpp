// /status names who holds a row that tick after tick cannot be moved, and the log says it once.
#include <catch2/catch.hpp>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// The rows that the daemon tells of as held from lease_expiry.
Json held(RunningDaemon& daemon) {
  const Json status = Json::parse(daemon.get("/status").body);
  for (const Json& reconciler : status["reconcilers"])
    if (reconciler["reconciler"] == "lease_expiry") return reconciler["held"];
  return Json::array();
}

}  // namespace

TEST_CASE("the status of a daemon names who holds a row that it cannot move, until it can") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_core(db, {.partition = {3}, .policy = max_retries(3)});
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  auto somebody = database.connect();
  somebody.execute("SET application_name = 'some worker'");
  somebody.execute("BEGIN");
  somebody.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  const int pid = somebody.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = "recovery_grace: 0s\nreconcilers: {lease_expiry: {interval: 50ms}}\n"});
  REQUIRE(wait_until([&] { return daemon.ready() && !held(daemon).empty(); }));
  const Json row = held(daemon).front();
  CHECK(row["partition"] == 3);
  CHECK(row["key"] == Json{{"execution_id", to_string(id)}, {"attempt_index", 0}});
  CHECK(row["execution"] == "{fp:3}:" + to_string(id));
  CHECK(row["ticks"] >= 3);
  CHECK(row["held_since_ms"].get<std::int64_t>() > now_ms(db) - 60'000);
  REQUIRE(row["holders"].size() == 1);
  CHECK(row["holders"][0]["pid"] == pid);
  CHECK(row["holders"][0]["application"] == "some worker");
  CHECK(row["holders"][0]["state"] == "idle in transaction");
  CHECK(row["holders"][0]["table"] == "ff_exec_core");
  CHECK(row["holders"][0]["since_ms"].get<std::int64_t>() > now_ms(db) - 60'000);
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
  const std::string told = run_binary({"status", "--url", url}).out;
  CHECK_THAT(told, Catch::Contains("{fp:3}:" + to_string(id) + " is locked by pid " + std::to_string(pid) +
                                   " (some worker, idle in transaction) for ") &&
                       Catch::Contains(" in ff_exec_core, first seen "));
  somebody.execute("ROLLBACK");
  CHECK(wait_until([&] { return held(daemon).empty(); }));
  CHECK(core(db, id)["lifecycle_phase"] == "runnable");
  CHECK(daemon.process().err_has("is no longer held"));
}

TEST_CASE("a holder whose state a role may not see is named without it") {
  const Database database;
  auto db = database.connect();
  db.execute_script("CREATE ROLE near_sighted LOGIN");
  const Ended grants =
      run_binary({"migrate", "grants", "--role", "near_sighted"}, {{"FF_DATABASE_URL", database.conninfo()}});
  db.execute_script(grants.out);
  const Uuid id = insert_core(db, {.partition = {3}, .policy = max_retries(3)});
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  auto somebody = database.connect();
  somebody.execute("BEGIN");
  somebody.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  {
    RunningDaemon daemon({.conninfo = database.conninfo() + " user=near_sighted",
                          .config = "recovery_grace: 0s\nreconcilers: {lease_expiry: {interval: 50ms}}\n"});
    REQUIRE(wait_until([&] { return daemon.ready() && !held(daemon).empty(); }));
    const Ended told = run_binary({"status", "--url", "http://127.0.0.1:" + std::to_string(daemon.port())});
    CHECK(told.code == 0);
    CHECK_THAT(told.out, Catch::Contains(to_string(id) + " is locked by pid "));
    // The daemon has seen it for a while, which nothing in the database tells that role.
    const auto explained = [&](const std::string& url) {
      return run_binary({"explain", "{fp:3}:" + to_string(id), "--url", url},
                        {{"FF_DATABASE_URL", database.conninfo() + " user=near_sighted"}})
          .out;
    };
    const std::string seen = "; a daemon has seen the row held for ";
    CHECK_THAT(explained("http://127.0.0.1:" + std::to_string(daemon.port())),
               Catch::Contains("locked by pid ") && Catch::Contains(seen));
    CHECK_THAT(explained("http://127.0.0.1:1"), Catch::Contains("locked by pid ") && !Catch::Contains(seen));
    CHECK(daemon.stop() == 0);
  }
  somebody.execute("ROLLBACK");
  db.execute_script("DROP OWNED BY near_sighted; DROP ROLE near_sighted");
}
