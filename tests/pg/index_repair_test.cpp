#include <catch2/catch.hpp>

#include "support/stalled_act.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("index_repair");
}

State resumable() {
  return {"runnable", "released", "eligible_now", "resumable", "attempt_interrupted"};
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  /// With these attempts.
  Uuid add(const State& state, int index, const std::vector<int>& attempts,
           const Json& raw_fields = Json::object()) {
    const Uuid id =
        insert_core(db, {.partition = {3}, .state = state, .attempt_index = index, .raw_fields = raw_fields});
    for (const int attempt : attempts)
      insert_attempt(
          db,
          {.partition = {3}, .execution = id, .attempt_index = attempt, .outcome = "attempt_interrupted"});
    return id;
  }
  void event(const Uuid& id, const std::string& type, std::int64_t ago_ms = 1000) {
    insert(db, "ff_lease_event",
           {{"execution_id", to_string(id)},
            {"event_type", type},
            {"occurred_at_ms", kNow - ago_ms},
            {"partition_key", 3}});
  }
  /// Of the first pair alone, as a daemon scans it each second.
  std::string announced() {
    EngineFixture engine(database, reconciler());
    return outcomes(engine->tick({.companions_scan = false}));
  }
  std::int64_t index(const Uuid& id) { return core(db, id)["attempt_index"].get<std::int64_t>(); }
};

}  // namespace

TEST_CASE("index_repair names the attempt that is there, and changes nothing else") {
  Stage t;
  const State state =
      GENERATE(suspended(), resumable(), delayed(),
               State{"runnable", "unowned", "pending_claim", "waiting", "attempt_interrupted"});
  const auto [index, attempts, repaired] =
      GENERATE(table<int, std::vector<int>, int>({{1, {0}, 0}, {5, {1, 3}, 3}, {0, {2, 4}, 4}}));
  const Uuid id = t.add(state, index, attempts, {{"namespace", "a"}, {"total_attempt_count", "7"}});
  const Json before = core(t.db, id);
  if (GENERATE(true, false)) t.event(id, "revoked");

  const TickReport report = t.tick();
  CHECK(outcomes(report) == "repaired=1");
  CHECK(report.scanned == 1);  // whichever way it is found
  CHECK(core(t.db, id) ==
        changed(before,
                {{"attempt_index", repaired},
                 {"raw_fields", {{"namespace", "a"}, {"total_attempt_count", std::to_string(repaired)}}}}));
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("index_repair leaves alone who has its attempt, has none, or does not wait to go on") {
  Stage t;
  t.add(suspended(), 0, {0});
  t.add(suspended(), 1, {0, 1, 3});
  t.add(suspended(), 0, {});
  t.add(runnable(), 1, {0});  // to begin another
  State state = active();
  state.attempt_state = "attempt_interrupted";
  t.add(state, 1, {0});
  for (const State& ended : {terminal(), cancelled()}) {
    state = ended;
    state.attempt_state = "attempt_interrupted";
    t.add(state, 1, {0});
  }
  // The same execution's number in another partition is another execution.
  const Uuid namesake = t.add(suspended(), 1, {1});
  insert_attempt(t.db, {.partition = {4}, .execution = namesake, .attempt_index = 0});
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("index_repair finds at once whose lease has just been given up, and all others on its round") {
  Stage t;
  std::vector<Uuid> at_once;
  for (const char* type : {"revoked", "expired"}) {
    at_once.push_back(t.add(suspended(), 1, {0}));
    t.event(at_once.back(), type);
  }
  const Uuid silent = t.add(suspended(), 1, {0});
  const Uuid renewed = t.add(suspended(), 1, {0});
  t.event(renewed, "renewed");
  const Uuid long_ago = t.add(suspended(), 1, {0});
  t.event(long_ago, "revoked", 10'000);
  insert(t.db, "ff_lease_event",
         {{"execution_id", "no uuid"},
          {"event_type", "revoked"},
          {"occurred_at_ms", kNow},
          {"partition_key", 3}});

  CHECK(t.announced() == "repaired=2");
  for (const Uuid& id : at_once) CHECK(t.index(id) == 0);
  for (const Uuid& id : {silent, renewed, long_ago}) CHECK(t.index(id) == 1);
  CHECK(outcomes(t.tick()) == "repaired=3");
}

TEST_CASE("index_repair does not fail on raw_fields of any other shape, nor on what began in the future") {
  Stage t;
  const Uuid id = t.add(suspended(), 1, {0}, GENERATE(Json("text"), Json(5), Json::array({1})));
  t.db.execute("UPDATE ff_attempt SET started_at_ms = $1", pg::Params::of(kNow + 3'600'000'000));
  t.event(id, "revoked");
  CHECK(outcomes(t.tick()) == "repaired=1");
  CHECK(core(t.db, id)["raw_fields"] == Json{{"total_attempt_count", "0"}});
}

TEST_CASE("index_repair leaves an execution alone that is resumed or claimed behind the back of an act") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_core(db, {.partition = {3}, .state = suspended(), .attempt_index = 1});
  insert_attempt(db, {.partition = {3}, .execution = id});
  StalledAct act(database, reconciler(), {{{3}, {to_string(id)}}});
  if (GENERATE(true, false)) {
    db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now'");
  } else {
    // A claim begins the attempt that the index names.
    insert_attempt(db, {.partition = {3}, .execution = id, .attempt_index = 1});
    db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'suspended'");
  }
  const auto before = snapshot(db);
  CHECK(act.finish().empty());
  CHECK(diff(before, snapshot(db)).empty());
}
