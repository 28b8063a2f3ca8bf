// The daemon's role is dropped and made anew, with all its grants, while it runs: as those do who deploy it with every change.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/database.hpp"
#include "support/pooler.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kConfig =
    "recovery_grace: 0s\nreconcilers:\n  lease_expiry: {interval: 50ms}\n  delayed_promoter: {interval: "
    "50ms}\n";

struct Stage {
  Stage() { db.execute_script(made); }
  ~Stage() { db.execute_script(dropped); }
  void make_anew() { db.execute_script(dropped + made); }
  bool moves() {
    const Uuid id = insert_core(db, {.partition = {2}, .policy = max_retries(3)});
    insert_attempt(db, {.partition = {2}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
    return wait_until([&] { return core(db, id)["lifecycle_phase"] == "runnable"; }, 20s);
  }

  const std::string role = "redeployed";
  Database database{};
  pg::Connection db = database.connect();
  const std::string made =
      "CREATE ROLE " + role + " LOGIN;" +
      run_binary({"migrate", "grants", "--role", role}, {{"FF_DATABASE_URL", database.conninfo()}}).out;
  const std::string dropped = "DROP OWNED BY " + role + "; DROP ROLE " + role + ";";
};

}  // namespace

TEST_CASE("a role that is dropped and made anew stops nothing for long, also behind PgBouncer") {
  const std::string way = GENERATE("direct", "session", "transaction");
  CAPTURE(way);
  Stage stage;
  std::optional<Pooler> pooler;
  std::string conninfo = stage.database.conninfo() + " user=" + stage.role;
  if (way != "direct") {
    pooler.emplace(Database::server(), way, stage.role);
    conninfo += pooler->detour();
  }
  {
    RunningDaemon daemon({.conninfo = conninfo, .config = kConfig});
    REQUIRE(wait_until([&] { return daemon.ready(); }));
    CHECK(stage.moves());
    stage.make_anew();
    CHECK(stage.moves());
    CHECK(wait_until([&] {
      return nlohmann::json::parse(daemon.get("/readyz").body) ==
             nlohmann::json{{"ready", true}, {"state", "ready"}, {"reasons", nlohmann::json::array()}};
    }));
    CHECK(daemon.process().err_has("the role of the sessions has been dropped"));
    CHECK(daemon.stop() == 0);
  }
}
