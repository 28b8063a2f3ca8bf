// attempt_timeout beside workers that hold, renew or complete what it is about to take, or wake up late.
#include <catch2/catch.hpp>

#include "demo/simulation/worker.hpp"
#include "pg/transaction.hpp"
#include "support/lapsed_race.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;

TEST_CASE("attempt_timeout leaves an attempt alone that is renewed between looking and acting") {
  check_renewed_is_left("attempt_timeout", "terminal");
}

TEST_CASE("attempt_timeout leaves an execution alone that completes between looking and acting") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  std::vector<std::string> completed;
  const auto step_in = [&] {
    db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'terminal' WHERE execution_id = $1",
               pg::Params::of(id));
    completed = snapshot(db);
  };
  EngineFixture engine(database, "attempt_timeout");
  CHECK(engine->tick(stepping_in(step_in)).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(diff(completed, snapshot(db)).empty());
}

TEST_CASE("attempt_timeout skips an attempt or a core that somebody else holds and takes it later") {
  const auto table = GENERATE("ff_attempt", "ff_exec_core");
  HeldBesideFree t("attempt_timeout", {.partition = {3}, .policy = max_retries(1)},
                   {.partition = {3}, .policy = max_retries(1)});
  t.tick_while_held(table);
  CHECK(core(t.db, t.free)["attempt_index"] == 1);
  CHECK(outcomes(t.engine->tick()) == "retried=1");
  CHECK(core(t.db, t.held)["attempt_index"] == 1);
}

TEST_CASE(
    "attempt_timeout ends nothing while somebody holds its suspension or a waitpoint, and retries all the "
    "same") {
  const auto table = GENERATE("ff_suspension_current", "ff_waitpoint_pending");
  HeldBesideFree t("attempt_timeout", {.partition = {3}}, {.partition = {3}});
  for (const Uuid& id : {t.held, t.free}) {
    insert_suspension(t.db, {.partition = {3}, .execution = id});
    insert_waitpoint(t.db, {.partition = {3}, .execution = id});
  }
  t.tick_while_held(table);
  CHECK(core(t.db, t.free)["lifecycle_phase"] == "terminal");
  t.db.execute("UPDATE ff_exec_core SET policy = $1::jsonb WHERE execution_id = $2",
               pg::Params::of(max_retries(1).dump(), t.held));
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + std::string(table) + " FOR UPDATE");
  CHECK(outcomes(t.engine->tick()) == "retried=1");
}

TEST_CASE("attempt_timeout takes a row whose key others refer to while it works") {
  check_referred_to_is_taken("attempt_timeout");
}

TEST_CASE("attempt_timeout refuses a worker that wakes up after its attempt was taken") {
  const Database database;
  auto db = database.connect();
  const auto id = simulation::create(db, {.partition = {3}, .max_retries = GENERATE(0, 1)});
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  const auto claim = worker.claim_one(id).value();
  db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 5");
  EngineFixture engine(database, "attempt_timeout");
  REQUIRE(engine->tick().processed == 1);
  const auto after = snapshot(db);
  CHECK_FALSE(worker.renew(claim));
  CHECK_FALSE(worker.complete(claim));
  CHECK_FALSE(worker.fail(claim, true));
  CHECK(diff(after, snapshot(db)).empty());
}

TEST_CASE("attempt_timeout refuses a worker whose stale attempt was cleared") {
  const Database database;
  auto db = database.connect();
  const auto id = simulation::create(db, {.partition = {3}});
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  const auto claim = worker.claim_one(id).value();
  db.execute_script(
      "UPDATE ff_attempt SET lease_expires_at_ms = 5; UPDATE ff_exec_core SET attempt_index = 1");
  insert_attempt(db, {.partition = {3},
                      .execution = id.uuid,
                      .attempt_index = 1,
                      .lease_expires_at_ms = now_ms(db) + 60'000});
  EngineFixture engine(database, "attempt_timeout");
  REQUIRE(outcomes(engine->tick()) == "stale_cleared=1");
  CHECK_FALSE(worker.renew(claim));
}
