// hold_above in the daemon: where it is seen that it holds, and how an operator releases it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

const std::string kLimited =
    "partitions: 0-3\nrecovery_grace: 0s\nreconcilers:\n"
    "  execution_deadline: {interval: 50ms, hold_above: 2}\n"
    "  lease_expiry: {interval: 50ms}\n";

struct Stage {
  Uuid add() { return insert_core(db, {.partition = {1}, .deadline_at_ms = now_ms(db) - 1000}); }
  std::int64_t ended() {
    return row(db, "SELECT count(*) AS n FROM ff_exec_core WHERE lifecycle_phase = 'terminal'")["n"]
        .get<int>();
  }
  /// Of a command with the daemon's configuration.
  Ended run(std::vector<std::string> words) {
    words.insert(words.end(), {"--config", directory.write("limited.yaml", kLimited)});
    return run_binary(words, {{"FF_DATABASE_URL", database.conninfo()}});
  }

  TemporaryDirectory directory;
  Database database;
  pg::Connection db = database.connect();
};

bool held(RunningDaemon& daemon, const std::string& name = "execution_deadline") {
  return daemon.metric("ff_reconciler_held{reconciler=\"" + name + "\"}") == 1;
}

}  // namespace

TEST_CASE(
    "more due rows than hold_above are held on every replica and told everywhere, until resume lets them "
    "go") {
  Stage t;
  const Uuid id = t.add();
  t.add();
  t.add();
  RunningDaemon first({.conninfo = t.database.conninfo(), .config = kLimited});
  RunningDaemon second({.conninfo = t.database.conninfo(), .config = kLimited});
  REQUIRE(wait_until([&] { return held(first) && held(second); }));
  CHECK_FALSE(held(first, "lease_expiry"));
  CHECK(
      first.process().err_has("execution_deadline: more than 2 rows are due (hold_above), and none is moved "
                              "until: ff-reconcilerd resume "
                              "execution_deadline --config '/"));
  const std::string url = "http://127.0.0.1:" + std::to_string(first.port());
  CHECK_THAT(
      run_binary({"status", "--url", url}).out,
      Contains("execution_deadline (held)") && Contains("-> ff-reconcilerd resume execution_deadline"));
  CHECK_THAT(first.get("/").body, Contains("execution_deadline holds: more than 2 rows are due"));
  CHECK_THAT(t.run({"status"}).out, Contains("more than 2 rows are due (hold_above)"));
  CHECK_THAT(t.run({"explain", "{fp:1}:" + to_string(id)}).out,
             Contains("(held)") && Contains("-> ff-reconcilerd resume execution_deadline"));
  const Ended by_hand = t.run({"tick", "execution_deadline"});
  CHECK(by_hand.code == 1);
  CHECK_THAT(by_hand.out, Contains("held: more than 2 rows are due") && Contains("left due: 3 or more"));
  const auto line = nlohmann::json::parse(t.run({"tick", "execution_deadline", "--json"}).out);
  CHECK(line["hold"]["above"] == 2);
  CHECK(line["hold"]["released"] == false);
  CHECK_THAT(t.run({"tick", "execution_deadline", "--dry-run"}).out, Contains("3 would move"));
  CHECK(t.ended() == 0);

  const Ended resumed = t.run({"resume", "execution_deadline"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out ==
        "execution_deadline was not paused by name\n"
        "execution_deadline: what is held because of hold_above is released, from the next scan on\n");
  CHECK(wait_until([&] { return t.ended() == 3; }));
  CHECK(wait_until([&] { return !held(first) && !held(second); }));
  CHECK(wait_until([&] {
    return first.process().err_has("execution_deadline: its due rows are within hold_above again");
  }));
  t.add();
  t.add();
  CHECK(wait_until([&] { return t.ended() == 5; }));
}

TEST_CASE("a tick by hand goes on with what an operator has just released, and with one that is named") {
  Stage t;
  for (int i = 0; i < 4; ++i) t.add();
  const Uuid named = t.add();
  CHECK(t.run({"tick", "execution_deadline", "--execution", "{fp:1}:" + to_string(named)}).code == 0);
  CHECK(t.ended() == 1);
  CHECK(t.run({"tick", "execution_deadline"}).code == 1);
  CHECK(t.ended() == 1);
  REQUIRE(t.run({"resume", "all"}).code == 0);
  CHECK(t.run({"tick", "execution_deadline"}).code == 0);
  CHECK(t.ended() == 5);
}

TEST_CASE("without the table hold_above holds, and resume says which command makes it") {
  Stage t;
  t.db.execute_script(
      "DROP TABLE ff_reconciler_release; DELETE FROM ff_reconciler_migration WHERE name = 'own_release'");
  for (int i = 0; i < 3; ++i) t.add();
  RunningDaemon daemon({.conninfo = t.database.conninfo(), .config = kLimited});
  REQUIRE(wait_until([&] { return held(daemon); }));
  REQUIRE(t.run({"pause", "execution_deadline", "--reason", "x"}).code == 0);
  const Ended refused = t.run({"resume", "execution_deadline"});
  CHECK(refused.code == 1);
  CHECK(refused.out == "execution_deadline: the pause is lifted\n");
  CHECK_THAT(refused.err, Contains("ff_reconciler_release is missing") && Contains("migrate up"));
  CHECK(t.run({"resume", "lease_expiry"}).code == 0);
  CHECK(t.ended() == 0);
  CHECK(t.run({"migrate", "up"}).code == 0);
  CHECK(t.run({"resume", "execution_deadline"}).code == 0);
  CHECK(wait_until([&] { return t.ended() == 3; }));
}
