// dependency: a downstream that can never be satisfied ends as skipped, whatever it is doing.
#include <catch2/catch.hpp>

#include "demo/simulation/worker.hpp"
#include "support/engine.hpp"
#include "support/flow.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const Json kAllOf = {{"kind", "all_of"}};

Json skipped_event(const FanIn& fan_in, const Json& at) {
  return {{"partition_key", 3},
          {"execution_id", to_string(fan_in.downstream)},
          {"flow_id", to_string(fan_in.flow)},
          {"outcome", "skipped"},
          {"namespace", nullptr},
          {"instance_tag", nullptr},
          {"occurred_at_ms", at},
          {"dispatched_at_ms", nullptr}};
}

Json skipped(const Json& core, const Json& at) {
  return changed(core, {{"lifecycle_phase", "terminal"},
                        {"ownership_state", "unowned"},
                        {"eligibility_state", "not_applicable"},
                        {"public_state", "skipped"},
                        {"attempt_state", "attempt_terminal"},
                        {"terminal_at_ms", at}});
}

void tick(const Database& database) {
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
}

}  // namespace

TEST_CASE("dependency skips a downstream from each phase but the last and lets go of all it held") {
  const State state = GENERATE(submitted(), runnable(), delayed(), blocked(), active(), suspended());
  CAPTURE(state.lifecycle_phase, state.eligibility_state);
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const bool leased = state.lifecycle_phase == "active";
  // After a typed claim the core is one further than the attempt.
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state, .attempt_index = GENERATE(1, 2)});
  for (const int index : {0, 1})
    insert_attempt(
        db, {.partition = {3},
             .execution = f.downstream,
             .attempt_index = index,
             .lease_epoch = 4,
             .lease_expires_at_ms =
                 leased && index == 1 ? std::optional<std::int64_t>(now_ms(db) + 60'000) : std::nullopt});
  if (state.lifecycle_phase == "suspended") {
    insert_suspension(db, {.partition = {3}, .execution = f.downstream});
    insert_waitpoint(db, {.partition = {3}, .execution = f.downstream});
  }
  const Uuid other = insert_core(db, {.partition = {3}, .state = suspended()});
  insert_suspension(db, {.partition = {3}, .execution = other});
  insert_waitpoint(db, {.partition = {3}, .execution = other});
  const Json core_before = core(db, f.downstream);
  const std::vector<Json> attempts = {attempt(db, f.downstream, 0), attempt(db, f.downstream, 1)};
  end_upstream(db, f, 0, "expired");
  const auto leases_before = lease_events(db).size();

  tick(database);
  const Json at = core(db, f.downstream)["terminal_at_ms"];
  CHECK(core(db, f.downstream) == skipped(core_before, at));
  CHECK(attempt(db, f.downstream, 0) == attempts[0]);
  // Never the word `skipped`: FlowFabric would replay such an attempt into a wait that nothing ends.
  CHECK(attempt(db, f.downstream, 1) == changed(attempts[1], {{"outcome", "cancelled"},
                                                              {"lease_expires_at_ms", nullptr},
                                                              {"lease_epoch", 5},
                                                              {"terminal_at_ms", at}}));
  CHECK(lease_events(db).size() == leases_before + (leased ? 1 : 0));
  if (leased) CHECK(lease_events(db).back()["event_type"] == "revoked");
  CHECK(completion_events(db).back() == skipped_event(f, at));
  for (const char* table : {"ff_suspension_current", "ff_waitpoint_pending"}) {
    const std::string of = "SELECT count(*) FROM " + std::string(table) + " WHERE execution_id = $1";
    CHECK(number(db, of, pg::Params::of(f.downstream)) == 0);
    CHECK(number(db, of, pg::Params::of(other)) == 1);
  }
}

TEST_CASE("dependency refuses the worker whose execution it has skipped") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = runnable()});
  simulation::Worker worker(db, "w1", Milliseconds{60'000});
  const auto claim = worker.claim_one({{3}, f.downstream}).value();
  end_upstream(db, f, 0, "failed");
  tick(database);
  CHECK(core(db, f.downstream)["public_state"] == "skipped");
  CHECK_FALSE(worker.complete(claim));
}

TEST_CASE("dependency leaves a downstream as it is that has ended before its fan-in became impossible") {
  const State state = GENERATE(terminal(), terminal("skipped"), terminal("expired"), cancelled());
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state, .terminal_at_ms = 5});
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0, "failed");
  const auto events_before = completion_events(db).size();
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "0/1/0/0");
  CHECK(core(db, f.downstream) == core_before);
  CHECK(completion_events(db).size() == events_before);
}

TEST_CASE("dependency does not end again whom an operator has replayed since its fan-in became impossible") {
  struct Case {
    Json policy;
    GroupRow before;
    const char* outcome;
    bool replayed;
    bool ended;
  };
  const Json any_of = {{"kind", "any_of"}};
  const Json two = {{"kind", "quorum"}, {"k", 2}};
  const auto c = GENERATE_COPY(values<Case>({
      {kAllOf, {.fail = 1}, "success", true, false},
      {kAllOf, {.fail = 1}, "failed", true, false},
      {kAllOf, {.fail = 1}, "success", false, true},
      {any_of, {.fail = 2, .running = 0}, "failed", true, false},
      {any_of, {.fail = 2, .running = 0}, "failed", false, true},
      {two, {.skip = 1}, "success", true, false},
      {two, {.skip = 1}, "success", false, true},
      // By this very event.
      {kAllOf, {.success = 1, .running = 1}, "failed", true, true},
      {two, {.success = 1, .running = 1}, "failed", true, true},
      // Of who asks for more than there are the first end says so.
      {two, {}, "success", true, true},
  }));
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  GroupRow group = c.before;
  group.policy = c.policy;
  const Json raw_fields = c.replayed ? Json{{"replay_count", 1}} : Json::object();
  const FanIn f = insert_fan_in(db, 1, group, {.state = active(), .raw_fields = raw_fields});
  insert_attempt(db,
                 {.partition = {3}, .execution = f.downstream, .lease_expires_at_ms = now_ms(db) + 60'000});
  end_upstream(db, f, 0, c.outcome);
  CAPTURE(c.policy.dump(), counts(db, f.downstream), c.outcome, c.replayed);
  tick(database);
  CHECK(core(db, f.downstream)["public_state"] == (c.ended ? "skipped" : "running"));
  CHECK(attempt(db, f.downstream)["lease_expires_at_ms"].is_null() == c.ended);
}

// As a join the planner looks for all edges of the flow, and compares each with each event.
TEST_CASE("dependency does not compare the ends of a large flow with all of its edges") {
  constexpr int kEnds = 500;
  const Database database;
  auto db = database.connect();
  const Uuid flow = new_uuid();
  db.execute(
      "WITH leaf AS (SELECT gen_random_uuid() AS id FROM generate_series(1, $2)), edge AS (INSERT INTO "
      "ff_edge"
      " (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)"
      " SELECT 3, $1, gen_random_uuid(), $1, id, '{}' FROM leaf)"
      " INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, occurred_at_ms, "
      "committed_at_ms) SELECT 3, id, $1, 'skipped', 0, 0 FROM leaf",
      pg::Params::of(flow, kEnds));
  if (GENERATE(false, true)) db.execute_script("ANALYZE");
  const DueBatch batch(db, *reconcile::find_reconciler("dependency"), sixteen_partitions(), kEnds);
  CHECK(batch.outcomes(db) == std::map<std::string, int>{{"advanced", kEnds}});
  const Json plan = run_plan_of(db, batch.act, batch.params, pg::Plan::generic);
  CHECK(efforts_above(20.0 * kEnds, plan) == std::vector<std::string>{});
  CHECK(rows_read(plan)["ff_edge"] <= kEnds);
}
