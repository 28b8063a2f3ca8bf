// lease_expiry beside workers that hold or renew what it is about to take, or wake up late.
#include <catch2/catch.hpp>

#include "demo/simulation/worker.hpp"
#include "support/lapsed_race.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("lease_expiry leaves an attempt alone that is renewed between looking and acting") {
  check_renewed_is_left("lease_expiry", "runnable");
}

TEST_CASE("lease_expiry skips an attempt or a core that somebody else holds and takes it later") {
  const auto table = GENERATE("ff_attempt", "ff_exec_core");
  const auto state = GENERATE(active(), terminal());
  HeldBesideFree t("lease_expiry", {.partition = {3}, .state = state}, {.partition = {3}});
  t.tick_while_held(table);
  CHECK(t.engine->tick().processed == 1);
  CHECK(attempt(t.db, t.held)["lease_expires_at_ms"].is_null());
}

TEST_CASE("lease_expiry takes a row whose key others refer to while it works") {
  check_referred_to_is_taken("lease_expiry");
}

TEST_CASE("lease_expiry refuses the worker it took the lease from and lets another continue the attempt") {
  const Database database;
  auto db = database.connect();
  const auto id = simulation::create(db, {.partition = {3}});
  simulation::Worker first(db, "w1", Milliseconds{30'000});
  simulation::Worker second(db, "w2", Milliseconds{30'000});
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
