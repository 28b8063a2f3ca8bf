// The delays that delayed_promoter finds without an index by time: a retry with backoff, a resume with delay.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("delayed_promoter");
}

constexpr const char* kRetry = "waiting_for_retry_backoff";
constexpr const char* kResume = "waiting_for_resume_delay";

/// As a daemon looks between two scans of the others.
const reconcile::TickOptions kShortcutOnly{
    .scan = false, .companions_scan = false, .shortcuts_scan = true, .in_slices = true};

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  Uuid add(const char* reason, const Json& raw_fields = Json::object(), CoreRow core = {}) {
    core.partition = {3};
    core.execution = new_uuid();
    if (core.state.lifecycle_phase == "active") {
      core.state = delayed();
      core.state.attempt_state = "pending_retry_attempt";
    }
    core.raw_fields = raw_fields;
    insert_core(db, core);
    db.execute("UPDATE ff_exec_core SET blocking_reason = $1 WHERE execution_id = $2",
               pg::Params::of(reason, core.execution));
    return core.execution;
  }
  Uuid retry_at(std::int64_t moment) { return add(kRetry, {{"delay_until", std::to_string(moment)}}); }
  void tell(const Uuid& id, const std::string& type = "revoked", std::int64_t ago_ms = 100) {
    insert(db, "ff_lease_event",
           {{"execution_id", to_string(id)},
            {"event_type", type},
            {"occurred_at_ms", kNow - ago_ms},
            {"partition_key", 3}});
  }
  Uuid seen_coming(EngineFixture& engine, std::int64_t moment) {
    const Uuid id = retry_at(moment);
    tell(id);
    CHECK(engine->tick(kShortcutOnly).next_due == unix_millis(moment));
    return id;
  }
  bool is_eligible(const Uuid& id) { return core(db, id)["eligibility_state"] == "eligible_now"; }
};

}  // namespace

TEST_CASE(
    "a retry is promoted when its backoff is over, keeps its deadline and index, and nothing else moves") {
  Stage t;
  t.retry_at(kNow + 60'000);
  for (const State& state : {runnable(), suspended(), blocked(), submitted(), terminal(), cancelled()})
    t.add(kRetry, {{"delay_until", "5"}}, {.state = state});
  const Uuid id = t.add(kRetry, {{"delay_until", std::to_string(kNow - 5)}, {"retry_count", "1"}},
                        {.lane = "slow", .attempt_index = 1, .deadline_at_ms = kNow + 1'000'000});
  insert_attempt(t.db, {.partition = {3}, .execution = id, .outcome = "failure"});
  const Json core_before = core(t.db, id);
  const auto before = snapshot(t.db);
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "promoted=1");
  CHECK(report.scanned == 1);
  CHECK(core(t.db, id) == changed(core_before, {{"eligibility_state", "eligible_now"},
                                                {"public_state", "waiting"},
                                                {"blocking_reason", nullptr},
                                                {"raw_fields", changed(core_before["raw_fields"],
                                                                       {{"total_attempt_count", "1"}})}}));
  CHECK(diff(before, snapshot(t.db)).size() == 2);
}

TEST_CASE("a retry whose deadline has passed is not promoted before its backoff is over") {
  Stage t;
  const Uuid id = t.add(kRetry, {{"delay_until", std::to_string(kNow + 1)}}, {.deadline_at_ms = kNow - 5000});
  const TickReport report = t.tick();
  CHECK(report.scanned == 0);
  CHECK_FALSE(t.is_eligible(id));
  CHECK(core(t.db, id)["deadline_at_ms"] == kNow - 5000);
}

TEST_CASE("a backoff that lies ahead is seen coming and over at its very millisecond") {
  Stage t;
  const Uuid present = t.retry_at(kNow);
  const Uuid future = t.retry_at(kNow + 1);
  EngineFixture engine(t.database, reconciler());
  const TickReport report = engine->tick({.companions_scan_ahead = Milliseconds{60'000}});
  CHECK(report.processed == 1);
  CHECK(report.next_due == unix_millis(kNow + 1));
  CHECK(t.is_eligible(present));
  CHECK_FALSE(t.is_eligible(future));
}

TEST_CASE("a resume with delay is promoted at once, at the index of the attempt that was interrupted") {
  Stage t;
  // A typed claim of attempt 0 has set the core one higher.
  const Uuid id = t.add(kResume, Json::object(),
                        {.state = delayed(), .attempt_index = 1, .deadline_at_ms = kNow + 1'000'000});
  insert_attempt(t.db, {.partition = {3}, .execution = id, .outcome = "attempt_interrupted"});
  CHECK(outcomes(t.tick()) == "promoted=1");
  const Json after = core(t.db, id);
  CHECK(after["attempt_index"] == 0);
  CHECK(after["raw_fields"]["total_attempt_count"] == "0");
  CHECK(after["deadline_at_ms"] == kNow + 1'000'000);
  CHECK(after["blocking_reason"] == nullptr);
}

TEST_CASE("a reason that is left over does not cut a worker's delay short, whose end decides") {
  Stage t;
  const char* reason = GENERATE(kRetry, kResume);
  State state = delayed();
  state.public_state = "running";
  const Json long_past = {{"delay_until", "5"}};
  const Uuid ahead = t.add(reason, long_past, {.state = state, .deadline_at_ms = kNow + 60'000});
  const Uuid over = t.add(reason, long_past, {.state = state, .deadline_at_ms = kNow - 1});
  CHECK(outcomes(t.tick()) == "promoted=1");
  CHECK_FALSE(t.is_eligible(ahead));
  CHECK(core(t.db, over)["deadline_at_ms"] == nullptr);
  CHECK(core(t.db, over)["blocking_reason"] == reason);
}

TEST_CASE("an interrupted attempt after a worker's delay is claimed again at its own index") {
  Stage t;
  const Uuid id =
      insert_core(t.db, {.partition = {3}, .state = delayed(), .attempt_index = 3, .deadline_at_ms = kNow});
  for (int index : {1, 2})
    insert_attempt(t.db,
                   {.partition = {3}, .execution = id, .attempt_index = index, .outcome = "interrupted"});
  CHECK(outcomes(t.tick()) == "promoted=1");
  CHECK(core(t.db, id)["attempt_index"] == 2);
  CHECK(core(t.db, id)["raw_fields"]["total_attempt_count"] == "2");
}

TEST_CASE("a retry whose moment is missing or no number is promoted at once and fails no row") {
  Stage t;
  for (const Json& raw_fields :
       {Json::object(), Json{{"delay_until", nullptr}}, Json{{"delay_until", "soon"}},
        Json{{"delay_until", {1, 2}}}, Json{{"delay_until", "99999999999999999999"}},
        Json{{"delay_until", ""}}, Json(5), Json::array({1})})
    t.add(kRetry, raw_fields);
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "promoted=8");
  CHECK(report.error_count() == 0);
}

TEST_CASE("a retry that is claimed between looking and acting is left alone") {
  Stage t;
  const Uuid id = t.retry_at(kNow - 5);
  const auto companion = reconciler().companions.at(1);
  CHECK(act_on(t.db, companion, {{{3}, {to_string(id)}}}, for_namespace("b")).empty());
  t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'active'");
  CHECK(act_on(t.db, companion, {{{3}, {to_string(id)}}}).empty());
}

TEST_CASE("retries of every lane of every partition are found") {
  Stage t;
  for (std::int16_t partition = 0; partition < 16; ++partition)
    for (const char* lane : {"", "a", "b", "default", "z"}) {
      const Uuid id = insert_core(t.db, {.partition = {partition},
                                         .state = delayed(),
                                         .lane = lane,
                                         .raw_fields = {{"delay_until", std::to_string(kNow - 5)}}});
      t.db.execute("UPDATE ff_exec_core SET blocking_reason = $1 WHERE execution_id = $2",
                   pg::Params::of(kRetry, id));
    }
  CHECK(outcomes(t.tick()) == "promoted=80");
}

TEST_CASE("a resume with delay is promoted at once, whatever clock the execution was made by") {
  Stage t;
  const Uuid id = t.add(kResume);
  t.db.execute("UPDATE ff_exec_core SET created_at_ms = $1", pg::Params::of(kNow + 86'400'000));
  CHECK(outcomes(t.tick()) == "promoted=1");
  CHECK(t.is_eligible(id));
}

TEST_CASE("a retry of which a lease event tells is promoted before its turn in a large table comes") {
  Stage t;
  const Uuid told = t.retry_at(kNow);
  t.tell(told);
  const Uuid untold = t.retry_at(kNow);
  const Uuid old = t.retry_at(kNow);
  t.tell(old, "revoked", 60'000);
  const Uuid active = t.add(kRetry, {{"delay_until", "5"}}, {.state = suspended()});
  t.tell(active);
  EngineFixture engine(t.database, reconciler());
  CHECK(outcomes(engine->tick(kShortcutOnly)) == "promoted=1");
  CHECK(t.is_eligible(told));
  for (const Uuid& other : {untold, old, active}) CHECK_FALSE(t.is_eligible(other));
  // Where scans show all of them, and soon enough, there is nothing to be led to.
  CHECK(outcomes(engine->tick({.scan = false, .in_slices = true})) == "promoted=2");
  const Uuid later = t.retry_at(kNow);
  t.tell(later);
  CHECK(engine->tick(kShortcutOnly).scanned == 0);
}

TEST_CASE("a retry that was seen coming is promoted at its moment, although no event tells of it any more") {
  Stage t;
  EngineFixture engine(t.database, reconciler());
  const Uuid id = t.seen_coming(engine, kNow + 60'000);
  t.db.execute_script("DELETE FROM ff_lease_event");
  CHECK(engine->tick(kShortcutOnly).next_due == unix_millis(kNow + 60'000));
  t.advance(engine, 59s);
  CHECK(engine->tick(kShortcutOnly).processed == 0);
  t.advance(engine, 1s);
  CHECK(outcomes(engine->tick({.scan = false, .companions_scan = false, .in_slices = true})) == "promoted=1");
  CHECK(t.is_eligible(id));
}

TEST_CASE("a retry that was seen coming and is given another moment is promoted at that") {
  Stage t;
  EngineFixture engine(t.database, reconciler());
  const Uuid id = t.seen_coming(engine, kNow + 10'000);
  t.db.execute("UPDATE ff_exec_core SET raw_fields = raw_fields || $1::jsonb WHERE execution_id = $2",
               pg::Params::of(Json{{"delay_until", std::to_string(kNow + 30'000)}}.dump(), id));
  CHECK(engine->tick(kShortcutOnly).next_due == unix_millis(kNow + 30'000));
  t.advance(engine, 10s);
  CHECK(engine->tick(kShortcutOnly).processed == 0);
  t.advance(engine, 20s);
  CHECK(outcomes(engine->tick(kShortcutOnly)) == "promoted=1");
}
