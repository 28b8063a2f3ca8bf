// Which partitions are looked after: all that the database has, or those that the configuration names of them.
#include <catch2/catch.hpp>

#include "reconcile/family/registry.hpp"
#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr const char* kQuick =
    "recovery_grace: 0s\nreconcilers:\n  lease_expiry: {interval: 100ms}\n  attempt_timeout: {interval: "
    "100ms}\n";

Uuid lapsed_in(pg::Connection& db, PartitionKey partition) {
  const Uuid id = insert_core(db, {.partition = partition, .policy = max_retries(3)});
  insert_attempt(db, {.partition = partition, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  return id;
}

bool given_back(pg::Connection& db, const Uuid& execution) {
  return core(db, execution)["lifecycle_phase"] == "runnable";
}

void set_partitions(pg::Connection& db, int count) {
  db.execute("UPDATE ff_partition_config SET num_flow_partitions = $1", pg::Params::of(std::int32_t{count}));
}

Json page(RunningDaemon& daemon) {
  return Json::parse(daemon.get("/status").body);
}

double gauge(RunningDaemon& daemon, const std::string& state) {
  return daemon.metric("ff_reconciler_partitions{state=\"" + state + "\"}");
}

Environment at(const Database& database, const std::string& partitions = {}) {
  Environment environment{{"FF_DATABASE_URL", database.conninfo()}};
  if (!partitions.empty()) environment["FF_RECONCILER_PARTITIONS"] = partitions;
  return environment;
}

}  // namespace

TEST_CASE("who configures no partitions looks after all of them, beyond the first 256, too") {
  Database database;
  auto db = database.connect();
  set_partitions(db, 1024);
  std::vector<Uuid> lapsed;
  for (const std::int16_t key : std::vector<std::int16_t>{0, 255, 256, 700, 1023})
    lapsed.push_back(lapsed_in(db, {key}));
  const Uuid beyond = lapsed_in(db, {1024});

  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kQuick});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  for (const Uuid& id : lapsed) CHECK(wait_until([&] { return given_back(db, id); }));
  CHECK_FALSE(given_back(db, beyond));
  CHECK(page(daemon)["partitions"] ==
        Json{{"count", 1024}, {"covered", "0-1023"}, {"left_out", ""}, {"not_there", ""}});
  CHECK(gauge(daemon, "covered") == 1024);
  CHECK(gauge(daemon, "left_out") == 0);
  CHECK(daemon.stop() == 0);
}

TEST_CASE("partitions that are left out show on the page, in a gauge, in the log and in the status") {
  Database database;
  auto db = database.connect();
  const Uuid own = lapsed_in(db, {3});
  const Uuid of_others = lapsed_in(db, {4});
  RunningDaemon daemon(
      {.conninfo = database.conninfo(), .config = "partitions: 0-3,128\n" + std::string(kQuick)});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  CHECK(wait_until([&] { return given_back(db, own); }));
  CHECK_FALSE(given_back(db, of_others));
  const Json seen{{"count", 256}, {"covered", "0-3,128"}, {"left_out", "4-127,129-255"}, {"not_there", ""}};
  CHECK(page(daemon)["partitions"] == seen);
  CHECK(gauge(daemon, "covered") == 5);
  CHECK(gauge(daemon, "left_out") == 251);
  CHECK(daemon.process().err_has("partitions 4-127,129-255 of 256 are left to other daemons"));
  CHECK(daemon.stop() == 0);

  const Ended json = run_binary({"status", "--json"}, at(database, "0-3,128"));
  CHECK(json.code == 0);
  CHECK(Json::parse(json.out)["partitions"] == seen);
  const Ended text = run_binary({"status"}, at(database, "0-3,128"));
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::Contains("5 of 256 partitions") && Catch::Contains("4-127,129-255"));
}

TEST_CASE("a daemon whose partitions are not there lives, is not ready and says why") {
  Database database;
  auto db = database.connect();
  const Uuid own = lapsed_in(db, {3});
  const std::string reason = "partitions 256-300 are not there: ff_partition_config has 256 (0-255)";
  RunningDaemon daemon(
      {.conninfo = database.conninfo(), .config = "partitions: 0-300\n" + std::string(kQuick)});
  REQUIRE(wait_until([&] { return daemon.state() == "schema_outdated"; }));
  CHECK(daemon.get("/livez").status == 200);
  const auto readyz = daemon.get("/readyz");
  CHECK(readyz.status == 503);
  CHECK(Json::parse(readyz.body)["reasons"] == Json{reason});
  CHECK(daemon.process().err_has(reason));
  CHECK(page(daemon)["partitions"]["not_there"] == "256-300");
  CHECK_FALSE(given_back(db, own));
  CHECK(daemon.stop() == 0);

  const Ended status = run_binary({"status"}, at(database, "0-300"));
  CHECK(status.code == 1);
  CHECK_THAT(status.out, Catch::Contains("problem: " + reason));
  const Ended configured = run_binary({"tick", "attempt_timeout"}, at(database, "0-300"));
  CHECK(configured.code == 78);
  CHECK_THAT(configured.err, Catch::Contains(reason));
  const Ended named = run_binary({"tick", "attempt_timeout", "--partitions", "0-300"}, at(database));
  CHECK(named.code == 64);
  CHECK_THAT(named.err, Catch::Contains("--partitions: " + reason));
  CHECK_FALSE(given_back(db, own));
}

TEST_CASE("a shard that comes to no partition at all has nothing to do") {
  Database database;
  auto db = database.connect();
  const Uuid of_others = lapsed_in(db, {3});
  const Ended tick = run_binary({"tick", "all"}, at(database, "{shard: 300, of: 301}"));
  CHECK(tick.code == 0);
  CHECK(tick.err.empty());
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = "partitions: {shard: 300, of: 301}\n" + std::string(kQuick)});
  for (const auto& reconciler : reconcile::registry()) {
    CAPTURE(reconciler.name);
    const auto looked =
        "ff_reconciler_last_success_timestamp_seconds{reconciler=\"" + std::string(reconciler.name) + "\"}";
    if (reconciler.on_by_default) CHECK(wait_until([&] { return daemon.metric(looked) > 0; }));
  }
  CHECK(daemon.stop() == 0);
  CHECK_FALSE(given_back(db, of_others));
}

TEST_CASE("partitions that are added while the daemon runs are looked after without a restart") {
  Database database;
  auto db = database.connect();
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kQuick});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  set_partitions(db, 512);
  const Uuid in_a_new_one = lapsed_in(db, {300});
  CHECK(wait_until([&] { return given_back(db, in_a_new_one); }));
  CHECK(gauge(daemon, "covered") == 512);
  CHECK(daemon.stop() == 0);
}

TEST_CASE("what is reloaded holds for the partitions of the start") {
  Database database;
  auto db = database.connect();
  const auto with_grace = [](const std::string& partitions, const std::string& grace) {
    return "partitions: " + partitions +
           "\nrecovery_grace: 0s\nreconcilers:\n  lease_expiry: {enabled: false}\n"
           "  attempt_timeout: {interval: 100ms, grace: " +
           grace + "}\n";
  };
  const Uuid own = lapsed_in(db, {3});
  const Uuid of_others = lapsed_in(db, {4});
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = with_grace("{shard: 1, of: 2}", "1h")});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  daemon.rewrite_config(with_grace("all", "0s"));
  daemon.process().signal(SIGHUP);
  CHECK(wait_until([&] { return given_back(db, own); }));
  CHECK_FALSE(given_back(db, of_others));
  CHECK(daemon.process().err_has("partitions has changed, which takes a restart"));
  CHECK(gauge(daemon, "left_out") == 128);
  CHECK(daemon.stop() == 0);
}
