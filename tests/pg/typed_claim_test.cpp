// Leases of FlowFabric's typed claims: the core says one more than the attempt that is leased, and the attempt may lie
// below one that is dead.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr int kLeased = 2;
constexpr int kDead = 4;

struct Claimed {
  State state = active();
  std::int64_t lapsed_ago_ms = 1000;
  bool below_a_dead_attempt = false;
  Json policy{};
};

/// An execution that a typed claim has taken at kLeased.
Uuid insert_claimed(pg::Connection& db, const Claimed& claimed) {
  const Uuid id = insert_core(
      db, {.partition = {3}, .state = claimed.state, .attempt_index = kLeased + 1, .policy = claimed.policy});
  insert_attempt(db, {.partition = {3},
                      .execution = id,
                      .attempt_index = kLeased,
                      .lease_epoch = 7,
                      .lease_expires_at_ms = now_ms(db) - claimed.lapsed_ago_ms});
  if (claimed.below_a_dead_attempt)
    insert_attempt(db, {.partition = {3}, .execution = id, .attempt_index = kDead, .outcome = "retry"});
  return id;
}

}  // namespace

TEST_CASE("lease_expiry gives the execution of a typed claim back at the attempt that was leased") {
  const bool below = GENERATE(false, true);
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_claimed(db, {.below_a_dead_attempt = below});
  const Json before = core(db, id);
  EngineFixture engine(database, "lease_expiry");
  CHECK(outcomes(engine->tick()) == "reclaimable=1");
  CHECK(core(db, id) == changed(before, {{"lifecycle_phase", "runnable"},
                                         {"ownership_state", "unowned"},
                                         {"eligibility_state", "eligible_now"},
                                         {"public_state", "waiting"},
                                         {"attempt_state", "pending_retry_attempt"},
                                         {"attempt_index", kLeased},
                                         {"raw_fields", core(db, id)["raw_fields"]}}));
  // FlowFabric's SDK claims at what stands there.
  CHECK(core(db, id)["raw_fields"]["total_attempt_count"] == "2");
  CHECK(attempt(db, id, kLeased)["lease_epoch"] == 8);
  CHECK(attempt(db, id, kLeased)["lease_expires_at_ms"].is_null());
  if (below) CHECK(attempt(db, id, kDead)["lease_epoch"] == 1);
  CHECK(lease_events(db).size() == 1);
}

TEST_CASE("attempt_timeout counts the retries of a typed claim by the attempt that was leased") {
  const bool below = GENERATE(false, true);
  const Database database;
  auto db = database.connect();
  const Uuid retried =
      insert_claimed(db, {.below_a_dead_attempt = below, .policy = max_retries(kLeased + 1)});
  const Uuid expired = insert_claimed(db, {.below_a_dead_attempt = below, .policy = max_retries(kLeased)});
  EngineFixture engine(database, "attempt_timeout");
  CHECK(outcomes(engine->tick()) == "expired=1 retried=1");
  CHECK(core(db, retried)["attempt_index"] == kLeased + 1);
  CHECK(core(db, retried)["raw_fields"]["total_attempt_count"] == "3");
  CHECK(core(db, retried)["attempt_state"] == "pending_retry_attempt");
  CHECK(core(db, expired)["lifecycle_phase"] == "terminal");
  CHECK_FALSE(core(db, expired)["raw_fields"].contains("total_attempt_count"));
  for (const Uuid& id : {retried, expired}) {
    CHECK(attempt(db, id, kLeased)["lease_epoch"] == 8);
    CHECK(attempt(db, id, kLeased)["outcome"] == "interrupted");
  }
  CHECK(lease_events(db).size() == 2);
  CHECK(completion_events(db).size() == 1);
}

TEST_CASE("attempt_timeout and lease_expiry leave a live lease below a dead attempt alone") {
  const auto name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_claimed(db, {.lapsed_ago_ms = -60'000, .below_a_dead_attempt = true});
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  const auto current = attempt(db, id, kLeased);
  const auto core_before = core(db, id);
  EngineFixture engine(database, name);
  CHECK(outcomes(engine->tick()) == "stale_cleared=1");
  CHECK(attempt(db, id, kLeased) == current);
  CHECK(core(db, id) == core_before);
  CHECK(lease_events(db).empty());
}

TEST_CASE(
    "attempt_timeout and lease_expiry clear a lease of an older attempt without a word, whatever the phase") {
  const auto name = GENERATE("attempt_timeout", "lease_expiry");
  const auto state = GENERATE(runnable(), delayed(), suspended(), blocked(), submitted(), terminal());
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_claimed(db, {.state = state, .below_a_dead_attempt = true});
  const Json core_before = core(db, id);
  const Json before = attempt(db, id, kLeased);
  const Json dead = attempt(db, id, kDead);
  EngineFixture engine(database, name);
  CHECK(outcomes(engine->tick()) == "stale_cleared=1");
  CHECK(core(db, id) == core_before);
  CHECK(attempt(db, id, kLeased) ==
        changed(before, {{"outcome", "interrupted"}, {"lease_expires_at_ms", nullptr}, {"lease_epoch", 8}}));
  CHECK(attempt(db, id, kDead) == dead);
  CHECK(lease_events(db).empty());
  CHECK(completion_events(db).empty());
}

TEST_CASE("attempt_timeout and lease_expiry judge nothing by attempts that were claimed since they looked") {
  const std::string name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_claimed(db, {});
  StalledAct act(database, *reconcile::find_reconciler(name), {attempt_key({3}, id, kLeased)});
  // Taken back, and claimed anew as it was: phase and index of the core are what they were.
  insert_attempt(
      db,
      {.partition = {3}, .execution = id, .attempt_index = 3, .lease_expires_at_ms = now_ms(db) + 60'000});
  db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'active' WHERE execution_id = $1",
             pg::Params::of(id));
  const auto claimed = snapshot(db);
  CHECK(act.finish().empty());
  CHECK(diff(claimed, snapshot(db)).empty());
  // The next scan sees what became of it.
  EngineFixture engine(database, name);
  CHECK(outcomes(engine->tick()) == "stale_cleared=1");
  CHECK(core(db, id)["lifecycle_phase"] == "active");
}

TEST_CASE("an execution whose typed workers crash again and again spends its retries and ends") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_core(db, {.partition = {3}, .state = runnable(), .policy = max_retries(1)});
  const std::map<std::string, Settings> both{{"attempt_timeout", {}},
                                             {"lease_expiry", {{"max_reclaims", 1}}}};
  EngineFixture lease_expiry(database, "lease_expiry",
                             {.settings = {{"max_reclaims", 1}}, .together_with = both});
  EngineFixture attempt_timeout(database, "attempt_timeout", {.together_with = both});
  std::string all;
  for (int claimed = 0; core(db, id)["lifecycle_phase"] == "runnable" && claimed < 9; ++claimed) {
    // FlowFabric's claim_execution at the index that its SDK reads, and a crash.
    db.execute(
        "WITH claim AS (UPDATE ff_exec_core c SET lifecycle_phase = 'active', ownership_state = 'leased',"
        " attempt_index = n.index + 1"
        " FROM (SELECT coalesce(raw_fields->>'total_attempt_count', '0')::integer AS index FROM "
        "ff_exec_core) n"
        " WHERE ownership_state = 'unowned' AND attempt_state <> 'attempt_interrupted' RETURNING c.*)"
        " INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, lease_epoch, "
        "lease_expires_at_ms)"
        " SELECT partition_key, execution_id, attempt_index - 1, 1, 5 FROM claim"
        " ON CONFLICT (partition_key, execution_id, attempt_index) DO UPDATE"
        " SET lease_epoch = ff_attempt.lease_epoch + 1, lease_expires_at_ms = 5, outcome = NULL");
    all += outcomes(lease_expiry->tick()) + outcomes(attempt_timeout->tick()) + " ";
  }
  CHECK(all == "reclaimable=1 retried=1 reclaimable=1 expired=1 ");
  CHECK(core(db, id)["public_state"] == "expired");
  CHECK(attempt(db, id, 1)["lease_epoch"] == 4);
  CHECK(lease_events(db).size() == 4);
}
