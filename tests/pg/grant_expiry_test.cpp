#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/stalled_act.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kGrace = 1000;  // the default
constexpr std::int64_t kPast = kNow - 5000;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("grant_expiry");
}

State promised() {
  return {"runnable", "unowned", "pending_claim", "waiting", "pending_first_attempt"};
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  Uuid add(const State& state = promised(), const Json& raw_fields = Json::object()) {
    return insert_core(db, {.partition = {3}, .state = state, .raw_fields = raw_fields});
  }
  /// Its id, as the server writes it.
  std::string grant(const Uuid& execution, std::int64_t expires_at_ms = kPast,
                    const std::string& kind = "claim", int partition = 3) {
    const std::string id = "\\x" + to_string(new_uuid()).substr(0, 8);
    insert(db, "ff_claim_grant",
           {{"partition_key", partition},
            {"grant_id", id},
            {"execution_id", to_string(execution)},
            {"kind", kind},
            {"worker_id", "w2"},
            {"worker_instance_id", "w2-1"},
            {"grant_ttl_ms", 1000},
            {"issued_at_ms", expires_at_ms - 1000},
            {"expires_at_ms", expires_at_ms}});
    return id;
  }
  std::int64_t grants(const Uuid& execution) {
    return number(db, "SELECT count(*) FROM ff_claim_grant WHERE execution_id = $1",
                  pg::Params::of(execution));
  }
};

Json copy_of_grant(const Json& expires_at_ms) {
  return {{"namespace", "a"}, {"claim_grant", {{"worker_id", "w2"}, {"expires_at_ms", expires_at_ms}}}};
}

}  // namespace

TEST_CASE("grant_expiry makes an execution claimable whose grant has ended, and changes nothing else of it") {
  Stage t;
  State state = promised();
  std::tie(state.ownership_state, state.public_state, state.attempt_state) =
      GENERATE(std::tuple("unowned", "waiting", "pending_first_attempt"),
               std::tuple("released", "resumable", "attempt_interrupted"));
  const Uuid id = t.add(state, copy_of_grant(kPast));
  const Uuid neighbour = t.add(state, copy_of_grant(kNow + 60'000));
  t.grant(neighbour, kNow + 60'000);
  t.grant(id, kNow + 60'000, "claim", 4);  // its namesake's
  const auto without = snapshot(t.db);
  const Json before = core(t.db, id);
  t.grant(id);

  const TickReport report = t.tick();
  CHECK(outcomes(report) == "returned=1");
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
  CHECK(core(t.db, id) ==
        changed(before, {{"eligibility_state", "eligible_now"}, {"raw_fields", {{"namespace", "a"}}}}));
  CHECK(diff(without, snapshot(t.db)).size() == 2);  // the core row, as it was and as it is
  CHECK(lease_events(t.db).empty());
}

TEST_CASE("grant_expiry takes away an old grant of whoever does not wait for it, and nothing else") {
  Stage t;
  const State leased{"runnable", "leased", "pending_claim", "waiting", "pending_first_attempt"};
  std::vector<Uuid> all;
  for (const State& state : {runnable(), active(), suspended(), delayed(), terminal(), cancelled(), leased})
    all.push_back(t.add(state, copy_of_grant(kPast)));
  all.push_back(new_uuid());
  const Uuid reclaimed = t.add(promised());  // waits for the claim of another grant
  t.grant(reclaimed, kNow + 60'000);
  const auto without = snapshot(t.db);
  for (const Uuid& id : all) t.grant(id);
  t.grant(reclaimed, kPast, "reclaim");

  CHECK(outcomes(t.tick()) == "expired=9");
  CHECK(diff(without, snapshot(t.db)).empty());
}

TEST_CASE("grant_expiry returns an execution only when no other grant to claim it lives, and once") {
  Stage t;
  const Uuid held = t.add();
  t.grant(held);
  const std::int64_t lives_until = GENERATE(kNow + 60'000, kNow - kGrace, std::int64_t{0});
  t.grant(held, lives_until);
  const Uuid free = t.add();
  for (const std::int64_t end : {kPast, kPast - 1, kPast - 2}) t.grant(free, end);
  t.grant(free, kNow + 60'000, "reclaim");

  CHECK(outcomes(t.tick()) == "expired=3 returned=1");
  CHECK(core(t.db, held)["eligibility_state"] == "pending_claim");
  CHECK(t.grants(held) == 1);
  CHECK(core(t.db, free)["eligibility_state"] == "eligible_now");
  CHECK(t.grants(free) == 1);
}

TEST_CASE("grant_expiry leaves a grant alone for the grace behind its end, and for ever where it has none") {
  Stage t;
  const std::int64_t grace = GENERATE(std::int64_t{0}, kGrace, std::int64_t{60'000});
  const Uuid due = t.add();
  const Uuid later = t.add();
  const Uuid never = t.add();
  t.grant(due, kNow - grace - 1);
  t.grant(later, kNow - grace);
  t.grant(never, 0);
  t.grant(never, -5);
  const TickReport report = t.tick({.settings = {{"grace", grace}}});
  CHECK(outcomes(report) == "returned=1");
  CHECK(core(t.db, due)["eligibility_state"] == "eligible_now");
  CHECK(core(t.db, later)["eligibility_state"] == "pending_claim");
  CHECK(core(t.db, never)["eligibility_state"] == "pending_claim");
  CHECK(report.next_due == unix_millis(kNow + 1));
}

TEST_CASE(
    "grant_expiry takes grants of executions that the filter asks for, and those of none for no filter") {
  Stage t;
  for (const char* name_space : {"a", "b"}) t.grant(t.add(promised(), origin(name_space, "i")));
  t.grant(new_uuid());
  t.add(promised(), {{"namespace", "b"}});  // without a grant
  CHECK(outcomes(t.tick({.filter = for_namespace("a")})) == "returned=1");
  CHECK(t.tick({.filter = for_namespace("c")}).scanned == 0);
  CHECK(outcomes(t.tick()) == "expired=1 returned=2");
}

TEST_CASE("grant_expiry returns an execution that waits for the claim of a grant that is not there") {
  Stage t;
  const Json end = GENERATE(Json(kPast), Json(std::to_string(kPast)), Json("soon"), Json(0), Json());
  const Uuid id = t.add(promised(), copy_of_grant(end));
  const Uuid bare = t.add();
  const Uuid promise = t.add(promised(), copy_of_grant(kNow + 60'000));
  const Uuid granted = t.add(promised(), copy_of_grant(kPast));
  t.grant(granted, 0);
  const Uuid reclaimed = t.add(promised(), copy_of_grant(kPast));
  t.grant(reclaimed, kNow + 60'000, "reclaim");
  CHECK(outcomes(t.tick()) == "returned=3");
  for (const Uuid& one : {id, bare, reclaimed}) {
    CHECK(core(t.db, one)["eligibility_state"] == "eligible_now");
    CHECK_FALSE(core(t.db, one)["raw_fields"].contains("claim_grant"));
  }
  for (const Uuid& one : {promise, granted}) CHECK(core(t.db, one)["eligibility_state"] == "pending_claim");
}

TEST_CASE("grant_expiry does not fail on raw_fields of any other shape") {
  Stage t;
  const Json odd = GENERATE(Json("text"), Json(5), Json::array({1}), Json{{"claim_grant", "x"}});
  const Uuid id = t.add(promised(), odd);
  const Uuid without = t.add(promised(), odd);
  t.grant(id);
  CHECK(outcomes(t.tick()) == "returned=2");
  for (const Uuid& one : {id, without}) CHECK(core(t.db, one)["eligibility_state"] == "eligible_now");
}

TEST_CASE("grant_expiry leaves an execution alone that is granted or claimed behind the back of an act") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  const bool claimed = GENERATE(true, false);
  const Uuid id = insert_core(db, {.partition = {3}, .state = promised()});
  const auto grant = [&](pg::Connection& by, std::int64_t end) {
    const std::string grant_id = "\\x" + to_string(new_uuid()).substr(0, 8);
    insert(by, "ff_claim_grant",
           {{"partition_key", 3},
            {"grant_id", grant_id},
            {"execution_id", to_string(id)},
            {"kind", "claim"},
            {"worker_id", "w"},
            {"worker_instance_id", "w"},
            {"grant_ttl_ms", 1000},
            {"issued_at_ms", end - 1000},
            {"expires_at_ms", end}});
    return grant_id;
  };
  const std::string old = grant(db, now - 5000);
  StalledAct act(database, reconciler(), {{{3}, {old}}});
  if (claimed) {
    db.execute(
        "UPDATE ff_exec_core SET lifecycle_phase = 'active', ownership_state = 'leased', eligibility_state = "
        "'not_applicable'");
  } else {
    // A returned one that the scheduler grants anew.
    grant(db, now + 60'000);
    db.execute("UPDATE ff_exec_core SET eligibility_state = 'pending_claim'");
  }
  const auto before = snapshot(db);
  CHECK(act.finish().empty());
  CHECK(diff(before, snapshot(db)).empty());
  EngineFixture engine(database, reconciler());
  CHECK(outcomes(engine->tick()) == "expired=1");
  CHECK(core(db, id)["eligibility_state"] == (claimed ? "not_applicable" : "pending_claim"));
}
