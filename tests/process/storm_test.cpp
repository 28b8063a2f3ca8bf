// Storm control in the daemon: the breaker trips by itself, lets go by itself, and is seen everywhere.
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

const std::string kBase = "partitions: 0-3\nrecovery_grace: 0s\n";

struct Stage {
  void lapse(int workers, int each) {
    for (int i = 0; i < workers * each; ++i) {
      const Uuid id = insert_core(db, {.partition = {static_cast<std::int16_t>(i % 4)}});
      insert_attempt(db, {.partition = {static_cast<std::int16_t>(i % 4)},
                          .execution = id,
                          .worker_id = "w" + std::to_string(i % workers),
                          .lease_expires_at_ms = now_ms(db) - 1000});
    }
  }
  std::int64_t taken() {
    return row(db, "SELECT count(*) AS n FROM ff_attempt WHERE lease_expires_at_ms IS NULL")["n"].get<int>();
  }

  Database database;
  pg::Connection db = database.connect();
};

bool is(RunningDaemon& daemon, const std::string& state) {
  return daemon.metric("ff_reconciler_storm_state{state=\"" + state + "\"}") == 1;
}

}  // namespace

TEST_CASE(
    "leases of many workers that lapsed while the daemon was away are held, told everywhere, and then "
    "taken") {
  Stage t;
  t.lapse(5, 8);
  RunningDaemon daemon(
      {.conninfo = t.database.conninfo(), .config = kBase + "storm: {enabled: true, hold: 10s}\n"});
  REQUIRE(wait_until([&] { return daemon.metric("ff_reconciler_storm_trips_total") == 1; }));
  REQUIRE(is(daemon, "open"));
  CHECK(t.taken() == 0);
  CHECK(daemon.metric("ff_reconciler_leases") == 40);
  CHECK(daemon.metric("ff_reconciler_storm_trips_total") == 1);
  CHECK(daemon.metric("ff_reconciler_storm_held_rows") >= 20);
  CHECK(daemon.metric("ff_reconciler_holders_lapsed_share") > 0.04);
  const auto status = nlohmann::json::parse(daemon.get("/status").body);
  CHECK(status["storm"]["breaker"] == "open");
  CHECK(status["storm"]["open_for_ms"] <= 10000);
  CHECK_THAT(run_binary({"status", "--url", "http://127.0.0.1:" + std::to_string(daemon.port())}).out,
             Contains("the breaker is open: no lease is taken for"));
  CHECK_THAT(daemon.get("/").body, Contains("The breaker is open: no lease is taken for"));
  const auto held =
      row(t.db, "SELECT format('{fp:%s}:%s', partition_key, execution_id) AS id FROM ff_attempt LIMIT 1");
  CHECK_THAT(run_binary({"explain", held["id"].get<std::string>(), "--url",
                         "http://127.0.0.1:" + std::to_string(daemon.port())},
                        {{"FF_DATABASE_URL", t.database.conninfo()}})
                 .out,
             Contains("breaker_open"));
  CHECK(daemon.process().err_has("storm: the breaker is open, no lease is taken for 10 s"));
  REQUIRE(wait_until([&] { return t.taken() == 40; }));
  CHECK(daemon.process().err_has("storm: the breaker is draining"));
  REQUIRE(wait_until([&] { return is(daemon, "closed"); }));
  CHECK(daemon.metric("ff_reconciler_storm_releases_total{how=\"hold_over\"}") == 1);
}

TEST_CASE("with storm control off, or its breaker, nothing is held") {
  const std::string storm = GENERATE("storm: off\n", "storm: {enabled: true, breaker: off}\n");
  Stage t;
  t.lapse(5, 8);
  RunningDaemon daemon({.conninfo = t.database.conninfo(), .config = kBase + storm});
  REQUIRE(wait_until([&] { return t.taken() == 40; }));
  CHECK(daemon.metric("ff_reconciler_storm_trips_total") == 0);
  CHECK_FALSE(is(daemon, "closed"));
}

TEST_CASE("more than the rate is told, and taken by and by") {
  Stage t;
  t.lapse(1, 80);
  RunningDaemon daemon(
      {.conninfo = t.database.conninfo(), .config = kBase + "storm: {enabled: true, rate: 20}\n"});
  REQUIRE(wait_until(
      [&] { return daemon.metric("ff_reconciler_storm_queued_rows{reconciler=\"lease_expiry\"}") > 0; }));
  CHECK(daemon.metric("ff_reconciler_storm_rate") == 20);
  CHECK(t.taken() < 80);
  CHECK(daemon.process().err_has("storm: more is due than 20 rows a second"));
  CHECK_THAT(daemon.get("/").body, Contains("wait for the rate"));
  REQUIRE(wait_until([&] { return t.taken() == 80; }));
}
