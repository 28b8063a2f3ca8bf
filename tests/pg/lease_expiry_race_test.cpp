// lease_expiry beside workers that hold or renew what it is about to take, or wake up late.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "sandbox/worker.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

TEST_CASE("lease_expiry leaves an attempt alone that is renewed between looking and acting") {
  const Database database;
  auto db = database.connect();
  const Uuid renewed = insert_lapsed(db, {.partition = {3}});
  const Uuid lapsed = insert_lapsed(db, {.partition = {4}});
  const SteppingInClock clock(2, [&] {
    db.execute(
        "UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms + 600000"
        " WHERE execution_id = $1",
        pg::Params::of(renewed));
  });
  EngineFixture engine(database, "lease_expiry", {.clock = &clock});
  const TickReport report = engine->tick();
  CHECK(report.scanned == 2);
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(attempt(db, renewed)["lease_epoch"] == 1);
  CHECK(core(db, renewed)["lifecycle_phase"] == "active");
  CHECK(core(db, lapsed)["lifecycle_phase"] == "runnable");
}

TEST_CASE("lease_expiry skips an attempt or a core that somebody else holds and takes it later") {
  const auto table = GENERATE("ff_attempt", "ff_exec_core");
  const auto state = GENERATE(active(), terminal());
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const Uuid held = insert_lapsed(db, {.partition = {3}, .state = state});
  insert_lapsed(db, {.partition = {3}});
  const Json core_before = core(db, held);
  const Json attempt_before = attempt(db, held);
  EngineFixture engine(database, "lease_expiry");

  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + std::string(table) + " WHERE execution_id = $1 FOR UPDATE",
                  pg::Params::of(held));
  const TickReport report = engine->tick();
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(core(db, held) == core_before);
  CHECK(attempt(db, held) == attempt_before);
  CHECK(lease_events(db).size() == 1);
  holding.rollback();

  CHECK(engine->tick().processed == 1);
  CHECK(attempt(db, held)["lease_expires_at_ms"].is_null());
}

TEST_CASE("lease_expiry takes a row whose key others refer to while it works") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  insert_lapsed(db, {.partition = {3}});
  EngineFixture engine(database, "lease_expiry");
  pg::Transaction referring(other);
  referring.execute("SELECT FROM ff_exec_core FOR KEY SHARE");
  referring.execute("SELECT FROM ff_attempt FOR KEY SHARE");
  CHECK(engine->tick().processed == 1);
}

TEST_CASE("lease_expiry refuses the worker it took the lease from and lets another continue the attempt") {
  const Database database;
  auto db = database.connect();
  const auto id = sandbox::create(db, {.partition = {3}});
  sandbox::Worker first(db, "w1", Milliseconds{30'000});
  sandbox::Worker second(db, "w2", Milliseconds{30'000});
  const auto claim = first.claim_one(id).value();
  db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 5");
  EngineFixture engine(database, "lease_expiry");
  REQUIRE(outcomes(engine->tick()) == "reclaimable=1");
  const auto after = snapshot(db);
  CHECK_FALSE(first.renew(claim));
  CHECK_FALSE(first.complete(claim));
  CHECK_FALSE(first.suspend(claim, {}));
  CHECK(diff(after, snapshot(db)).empty());

  const auto again = second.claim_one(id);
  REQUIRE(again);
  CHECK(again->attempt_index == claim.attempt_index);
  CHECK_FALSE(first.renew(claim));
  CHECK(second.complete(*again));
}
