// dependency: what becomes of a downstream whose fan-in is satisfied, by where it stands.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const Json kAllOf = {{"kind", "all_of"}};
const Json kAnyOf = {{"kind", "any_of"}, {"on_satisfied", "let_run"}};
const Json kEligible = {{"eligibility_state", "eligible_now"}, {"public_state", "waiting"}};

constexpr std::int64_t kDeadline = 9'900'000'000'000;

State with(State state, const std::string& eligibility_state) {
  state.eligibility_state = eligibility_state;
  return state;
}

/// As FlowFabric's deliver_signal leaves an execution whose condition is met.
State resumable() {
  return {"runnable", "released", "eligible_now", "resumable", "attempt_interrupted"};
}

/// As FlowFabric's wait_children leaves an execution: public_state stands since it was claimed.
State waiting_for_children() {
  return {"runnable", "unowned", "blocked_by_dependencies", "running", "attempt_interrupted"};
}

void set_waiting_for_children(pg::Connection& db, const Uuid& execution) {
  db.execute("UPDATE ff_exec_core SET blocking_reason = 'waiting_for_children' WHERE execution_id = $1",
             pg::Params::of(execution));
}

/// One tick that takes one event.
void tick(const Database& database) {
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
}

}  // namespace

TEST_CASE("dependency makes a downstream eligible from each phase in which it waits and keeps its deadline") {
  const State state =
      GENERATE(submitted(), runnable(), with(runnable(), "blocked_by_dependencies"), blocked());
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state, .deadline_at_ms = kDeadline});
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0);
  tick(database);
  Json expected = changed(core_before, kEligible);
  expected["raw_fields"]["total_attempt_count"] = "0";
  if (state.lifecycle_phase == "blocked") expected["lifecycle_phase"] = "runnable";
  CHECK(core(db, f.downstream) == expected);
}

TEST_CASE("dependency counts for a downstream that is past waiting and leaves it as it is") {
  const State state = GENERATE(active(), suspended(), terminal(), terminal("skipped"), cancelled(), delayed(),
                               resumable(), with(runnable(), "pending_claim"));
  CAPTURE(state.lifecycle_phase, state.eligibility_state, state.public_state);
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state, .deadline_at_ms = kDeadline});
  insert_attempt(db, {.partition = {3}, .execution = f.downstream});
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0);
  tick(database);
  CHECK(counts(db, f.downstream) == "1/0/0/0");
  CHECK(core(db, f.downstream) == core_before);
}

TEST_CASE("dependency does not touch a downstream again that was satisfied before") {
  const State state =
      GENERATE(submitted(), runnable(), blocked(), delayed(), resumable(), with(runnable(), "pending_claim"),
               with(runnable(), "blocked_by_dependencies"));
  const auto outcome = GENERATE("success", "failed", "skipped");
  CAPTURE(state.lifecycle_phase, state.eligibility_state, state.public_state, outcome);
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 2, {.policy = kAnyOf, .success = 1, .running = 1},
                                {.state = state, .attempt_index = 1, .deadline_at_ms = kDeadline});
  insert_attempt(db, {.partition = {3}, .execution = f.downstream});
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0, outcome);
  tick(database);
  CHECK(core(db, f.downstream) == core_before);
}

TEST_CASE("dependency gives back a downstream that was interrupted at the attempt that it continues") {
  struct Case {
    const char* attempt_state;
    int attempts;
    int index_before;
    int index_after;
    const char* count_after;
  };
  const auto c = GENERATE(values<Case>({
      {"attempt_interrupted", 1, 1, 0, "0"},  // after a typed claim, which leaves the core one further
      {"attempt_interrupted", 3, 3, 2, "2"},
      {"attempt_interrupted", 3, 2, 2, "2"},
      {"attempt_interrupted", 0, 4, 4, "4"},
      {"pending_retry_attempt", 1, 1, 1, "1"},
      {"pending_first_attempt", 0, 0, 0, "0"},
      {"pending_replay_attempt", 1, 1, 1, "1"},
  }));
  CAPTURE(c.attempt_state, c.attempts, c.index_before);
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  State state = waiting_for_children();
  state.attempt_state = c.attempt_state;
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf},
                                {.state = state,
                                 .attempt_index = c.index_before,
                                 .raw_fields = changed(origin("n", "i"), {{"total_attempt_count", "7"}})});
  for (int i = 0; i < c.attempts; ++i)
    insert_attempt(db, {.partition = {3}, .execution = f.downstream, .attempt_index = i});
  const auto attempts = snapshot(db, "ff_attempt");
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0);
  tick(database);
  Json expected = changed(core_before, kEligible);
  expected["attempt_index"] = c.index_after;
  expected["raw_fields"]["total_attempt_count"] = c.count_after;
  CHECK(core(db, f.downstream) == expected);
  CHECK(snapshot(db, "ff_attempt") == attempts);
}

TEST_CASE("dependency wakes one that waits for its children by the event that leaves none of them running") {
  const auto last = GENERATE("success", "failed", "skipped");
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  // Satisfied before it ran: by that event it was woken the first time.
  const FanIn f = insert_fan_in(db, 3, {.policy = kAnyOf, .success = 1, .running = 2},
                                {.state = waiting_for_children(), .attempt_index = 1});
  insert_attempt(db, {.partition = {3}, .execution = f.downstream, .outcome = "waiting_children"});
  set_waiting_for_children(db, f.downstream);
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0);
  tick(database);
  CHECK(core(db, f.downstream) == core_before);
  end_upstream(db, f, 1, last);
  tick(database);
  Json expected = changed(core_before, kEligible);
  expected["attempt_index"] = 0;
  expected["raw_fields"]["total_attempt_count"] = "0";
  CHECK(core(db, f.downstream) == expected);
}

TEST_CASE("dependency wakes one that waits for its children by the event that satisfies its fan-in") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 3, {.policy = kAnyOf}, {.state = waiting_for_children()});
  insert_attempt(db, {.partition = {3}, .execution = f.downstream, .outcome = "waiting_children"});
  set_waiting_for_children(db, f.downstream);
  end_upstream(db, f, 0, "failed");
  tick(database);
  CHECK(core(db, f.downstream)["eligibility_state"] == "blocked_by_dependencies");
  end_upstream(db, f, 1);
  tick(database);
  CHECK(counts(db, f.downstream) == "1/1/0/1");
  CHECK(core(db, f.downstream)["eligibility_state"] == "eligible_now");
}

TEST_CASE(
    "dependency does not wake one whose waiting for children is over, though the word for it still stands") {
  const State state =
      GENERATE(delayed(), runnable(), active(), resumable(), with(runnable(), "pending_claim"));
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 2, {.policy = kAnyOf, .success = 1, .running = 1},
                                {.state = state, .attempt_index = 1});
  insert_attempt(db, {.partition = {3}, .execution = f.downstream});
  set_waiting_for_children(db, f.downstream);
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0);
  tick(database);
  CHECK(core(db, f.downstream) == core_before);
}
