// With storm control a lapsed lease waits the longer, the more often its attempt was reclaimed before.
#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

struct Stage {
  Uuid lapsed(int reclaims, std::int64_t ago_ms) {
    Json raw_fields = Json::object();
    if (reclaims > 0) raw_fields["lease_reclaims"] = reclaims;
    return lapsed(Json::object(), raw_fields, ago_ms);
  }
  Uuid lapsed(const Json& of_core, const Json& of_attempt, std::int64_t ago_ms) {
    return insert_lapsed(db, {.partition = {3}, .policy = max_retries(9), .raw_fields = of_core},
                         {.lease_expires_at_ms = now_ms(db) - ago_ms, .raw_fields = of_attempt});
  }

  Database database;
  pg::Connection db = database.connect();
};

}  // namespace

TEST_CASE("a lease of an attempt that was reclaimed before is due after a delay that doubles, to a minute") {
  const char* name = GENERATE("lease_expiry", "attempt_timeout");
  CAPTURE(name);
  Stage t;
  EngineFixture engine(t.database, name, {.delays_reclaims = true});
  // Reclaims, and the delay in milliseconds.
  for (const auto& [reclaims, delay] :
       {std::pair{0, 0}, {1, 1000}, {2, 2000}, {3, 4000}, {6, 32'000}, {7, 60'000}, {1'000'000, 60'000}}) {
    CAPTURE(reclaims);
    t.lapsed(reclaims, delay + 500);
    const reconcile::TickReport report = engine->tick();
    CHECK(report.processed == 1);
    CHECK(report.lateness.worst() >= 500ms);
    CHECK(report.lateness.worst() < 30s);
    if (delay < 4000) continue;
    t.lapsed(reclaims, delay / 10);
    CHECK(engine->tick().processed == 0);
    CHECK(engine->backlog(100).due == 0);
    t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = NULL");
  }
}

TEST_CASE(
    "what a replay, or a retry, begins waits for its own reclaims and not for those of the run before") {
  const char* name = GENERATE("lease_expiry", "attempt_timeout");
  CAPTURE(name);
  Stage t;
  EngineFixture engine(t.database, name, {.delays_reclaims = true});
  const Json replayed{{"replay_count", 2}};
  const Json retried{{"retry_count", "2"}};  // by fail_execution, in the same row after an SDK's claim
  t.lapsed(retried, {{"lease_reclaims", 7}, {"reclaimed_in_retry", "2"}}, 500);
  t.lapsed(replayed, {{"lease_reclaims", 7}, {"reclaimed_in_replay", 2}}, 500);
  t.lapsed(Json::object(), {{"lease_reclaims", 7}}, 500);
  CHECK(engine->tick().processed == 0);
  const std::vector anew{
      t.lapsed(replayed, {{"lease_reclaims", 7}}, 500),
      t.lapsed(replayed, {{"lease_reclaims", 7}, {"reclaimed_in_replay", 1}}, 500),
      t.lapsed(replayed, {{"lease_reclaims", 1}, {"reclaimed_in_replay", 2}}, 1500),
      t.lapsed(retried, {{"lease_reclaims", 7}}, 500),
      t.lapsed(retried, {{"lease_reclaims", 7}, {"reclaimed_in_retry", "1"}}, 500),
  };
  const reconcile::TickReport report = engine->tick();
  CHECK(report.processed == 5);
  CHECK(report.lateness.worst() >= 500ms);
  CHECK(report.lateness.worst() < 30s);
  for (const Uuid& id : anew) CHECK(core(t.db, id)["lifecycle_phase"] == "runnable");
}

TEST_CASE("without its core a lease waits as its attempt says") {
  Stage t;
  EngineFixture engine(t.database, "lease_expiry", {.delays_reclaims = true});
  const auto orphan = [&](int reclaims) {
    insert_attempt(t.db, {.partition = {3},
                          .execution = new_uuid(),
                          .lease_expires_at_ms = now_ms(t.db) - 500,
                          .raw_fields = {{"lease_reclaims", reclaims}}});
  };
  orphan(7);
  CHECK(engine->tick().processed == 0);
  orphan(0);
  CHECK(outcomes(engine->tick()) == "released=1");
}

TEST_CASE("a lease that waits for its turn is seen coming and taken without another scan") {
  Stage t;
  EngineFixture engine(t.database, "lease_expiry", {.delays_reclaims = true});
  t.lapsed(7, 57'000);
  const reconcile::TickReport report =
      engine->tick({.scan_ahead = 10s, .companions_scan_ahead = 10s, .in_slices = true});
  CHECK(report.processed == 0);
  REQUIRE(report.next_due);
  CHECK(*report.next_due - report.database_time <= 3001ms);
  engine.clock().advance(2s);
  CHECK(engine->tick({.scan = false, .companions_scan = false, .in_slices = true}).processed == 0);
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms - 10000");
  engine.clock().advance(2s);
  CHECK(engine->tick({.scan = false, .companions_scan = false, .in_slices = true}).processed == 1);
}

TEST_CASE("those that wait hide nobody whose attempt was never reclaimed") {
  Stage t;
  EngineFixture engine(t.database, "lease_expiry", {.batch_size = 2, .delays_reclaims = true});
  for (int i = 0; i < 20; ++i) t.lapsed(5, 5000 + i);
  for (int i = 0; i < 5; ++i) t.lapsed(0, 100);
  CHECK(engine->tick().processed == 5);
  CHECK(engine->tick().processed == 0);
}

TEST_CASE("without storm control, and by hand, nobody waits") {
  Stage t;
  EngineFixture engine(t.database, "lease_expiry");
  for (int reclaims = 0; reclaims < 8; ++reclaims) t.lapsed(reclaims, 10);
  CHECK(engine->tick().processed == 8);
}
