// group_recount: fan-ins that count one as running that is over, once all upstreams are. group_recount_siblings_test has those
// of which one lives.
#include <catch2/catch.hpp>

#include "recount_stage.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE(
    "group_recount counts an edge that was applied after its upstream's end, and the downstream goes on") {
  RecountStage t;
  const FanIn misled = t.add_misled();
  FanIn lives = insert_fan_in(t.db, 2, {.policy = policy("all_of"), .success = 1, .running = 1});
  t.end(lives, 0);
  const auto before = snapshot(t.db);
  const auto report = t.tick();
  CHECK(report.scanned == 1);
  CHECK(outcomes(report) == "recounted=1");
  CHECK(counts(t.db, misled.downstream) == "1/0/0/0");
  CHECK(t.state(misled) == "runnable/eligible_now/waiting");
  CHECK(counts(t.db, lives.downstream) == "1/0/0/1");
  CHECK(diff(before, snapshot(t.db)).size() == 4);
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("group_recount waits until all of it has stood still for a minute") {
  RecountStage t;
  const FanIn misled = t.add_misled();
  Looks looks(t);
  CHECK(looks.at(0).empty());
  SECTION("the counts") {
    t.db.execute("UPDATE ff_edge_group SET running_count = 2");
  }
  SECTION("the graph") {
    t.add_flow(misled);
  }
  SECTION("the edges") {
    insert_edge(t.db, {3}, misled.flow, misled.upstreams.at(0), misled.downstream);
  }
  SECTION("the ends") {
    t.set_core(misled.upstreams.at(0), "terminal_at_ms = terminal_at_ms - 1");
  }
  SECTION("the words") {
    t.tell(misled, 0, "failed", 1'000, kNow);
  }
  SECTION("the policy") {
    t.db.execute(R"(UPDATE ff_edge_group SET policy = '{"kind": "any_of"}')");
  }
  CHECK(looks.at(30).empty());
  CHECK(looks.at(89).empty());
  CHECK(looks.at(91) == "recounted=1");
}

TEST_CASE("group_recount does not wait for ever for a flow that goes on growing") {
  RecountStage t;
  const FanIn misled = t.add_misled();
  t.add_flow(misled);
  EngineFixture engine(t.database, recount(), {.still_for = std::nullopt});
  int minutes = 0;
  while (outcomes(engine->tick()).empty() && minutes < 20) {
    t.db.execute("UPDATE ff_flow_core SET graph_revision = graph_revision + 1");
    t.advance(engine, std::chrono::minutes{1});
    ++minutes;
  }
  CHECK(minutes == 10);
  CHECK(counts(t.db, misled.downstream) == "1/0/0/0");
}

TEST_CASE("group_recount tells an end by the newest event of its present run") {
  RecountStage t;
  const FanIn misled = insert_fan_in(t.db, 4, {.policy = policy("quorum", 2), .success = 1, .running = 1});
  for (std::size_t i = 0; i < 4; ++i) t.end(misled, i, "", 50'000);
  t.tell(misled, 0, "failed", 90'000, kNow);  // of the run before
  insert(t.db, "ff_operator_event",
         {{"partition_key", 3},
          {"execution_id", to_string(misled.upstreams.at(0))},
          {"event_type", "replayed"},
          {"occurred_at_ms", kNow - 70'000}});
  t.set_core(misled.upstreams.at(0), "raw_fields = '{\"replay_count\": 1}'");
  t.tell(misled, 0, "success", 50'000, kNow);
  t.tell(misled, 0, "resumable", 40'000, kNow);
  t.tell(misled, 1, "success", 50'000, kNow);
  t.tell(misled, 1, "expired", 45'000, kNow);
  t.tell(misled, 2, "skipped", 50'000, kNow);
  t.tell(misled, 3, "success", 50'000, kNow);
  // Two edges between the same two count twice.
  insert_edge(t.db, {3}, misled.flow, misled.upstreams.at(3), misled.downstream);
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(counts(t.db, misled.downstream) == "3/1/1/0");
  CHECK(t.state(misled) == "runnable/eligible_now/waiting");
}

TEST_CASE("group_recount tells an end without an event only once completion_repair no longer does") {
  constexpr std::int64_t kDay = 86'400'000;
  RecountStage t;
  const FanIn old = insert_fan_in(t.db, 1, {.policy = policy("any_of")});
  const FanIn young = insert_fan_in(t.db, 1, {.policy = policy("any_of")});
  const FanIn unclear = insert_fan_in(t.db, 1, {.policy = policy("any_of")});
  t.end(old, 0, "", kDay + 1);
  t.set_core(old.upstreams.at(0), "public_state = 'completed'");
  t.end(young, 0, "", kDay);
  t.end(unclear, 0, "", kDay + 1);
  t.set_core(unclear.upstreams.at(0), "public_state = 'running'");
  CHECK(t.tick().processed == 1);
  CHECK(counts(t.db, old.downstream) == "1/0/0/0");
  CHECK(counts(t.db, young.downstream) == "0/0/0/1");
  CHECK(counts(t.db, unclear.downstream) == "0/0/0/1");
}

TEST_CASE("group_recount ends a downstream as skipped whose group the right counts make impossible") {
  RecountStage t;
  const FanIn misled =
      insert_fan_in(t.db, 2, {.policy = policy("all_of"), .success = 1}, {.state = submitted()});
  insert_attempt(t.db, {.partition = {3}, .execution = misled.downstream});
  t.end(misled, 0);
  t.end(misled, 1, "failed");
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(counts(t.db, misled.downstream) == "1/1/0/0");
  CHECK(t.state(misled) == "terminal/not_applicable/skipped");
  const Json event = row(t.db, "SELECT * FROM ff_completion_event WHERE execution_id = $1",
                         pg::Params::of(misled.downstream));
  CHECK(event["outcome"] == "skipped");
  CHECK(event["flow_id"] == to_string(misled.flow));
  CHECK(event["dispatched_at_ms"].is_null());
}

TEST_CASE("group_recount only counts anew a group that was satisfied before") {
  RecountStage t;
  // Of three, two had been counted as successes: any_of is satisfied. They have been replayed since, and failed.
  const FanIn misled = insert_fan_in(t.db, 3, {.policy = policy("any_of"), .success = 2, .running = 1},
                                     {.state = delayed(), .deadline_at_ms = kNow + 5'000});
  for (std::size_t i = 0; i < 3; ++i) t.end(misled, i, "failed");
  const Json before = core(t.db, misled.downstream);
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(counts(t.db, misled.downstream) == "0/3/0/0");
  CHECK(core(t.db, misled.downstream) == before);
}

TEST_CASE("group_recount wakes one that waits for its children") {
  RecountStage t;
  const FanIn misled = t.add_misled(
      {.state = {"runnable", "unowned", "blocked_by_dependencies", "running", "attempt_interrupted"}});
  t.set_core(misled.downstream, "blocking_reason = 'waiting_for_children'");
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(t.state(misled) == "runnable/eligible_now/waiting");
}

TEST_CASE("group_recount leaves a group alone that may be right, or in the hands of others") {
  RecountStage t;
  const FanIn misled = t.add_misled();
  const Uuid upstream = misled.upstreams.at(0);
  SECTION("an upstream lives") {
    t.set_core(upstream, "lifecycle_phase = 'active'");
  }
  SECTION("nothing says when it ended") {
    t.set_core(upstream, "terminal_at_ms = NULL");
  }
  SECTION("an upstream is gone") {
    t.db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(upstream));
  }
  SECTION("an end is still to be passed on") {
    t.tell(misled, 0, "success", 90'000, nullptr);
  }
  SECTION("an edge is still to be applied") {
    const Uuid another = insert_core(t.db, {.partition = {3}, .flow = misled.flow});
    insert_edge(t.db, {3}, misled.flow, another, misled.downstream, {{"edge_state", "pending"}});
    t.set_core(another, "lifecycle_phase = 'terminal', terminal_at_ms = 5");
  }
  SECTION("nobody is counted as running") {
    t.db.execute("UPDATE ff_edge_group SET running_count = 0");
  }
  SECTION("siblings are to be cancelled") {
    t.db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = true");
  }
  SECTION("the downstream runs") {
    t.set_core(misled.downstream, "lifecycle_phase = 'active'");
  }
  SECTION("the downstream has ended") {
    t.set_core(misled.downstream, "lifecycle_phase = 'terminal'");
  }
  t.check_left_alone();
}

TEST_CASE(
    "group_recount leaves alone what an operator replayed after the end of an upstream, unless it is "
    "blocked") {
  RecountStage t;
  const FanIn misled = t.add_misled({.state = runnable(), .raw_fields = {{"replay_count", 1}}});
  const auto replayed = [&](std::int64_t ago_ms) {
    insert(t.db, "ff_operator_event",
           {{"partition_key", 3},
            {"execution_id", to_string(misled.downstream)},
            {"event_type", "replayed"},
            {"occurred_at_ms", kNow - ago_ms}});
  };
  SECTION("nothing tells when") {
    t.check_left_alone();
  }
  SECTION("after the end") {
    replayed(90'000);
    t.check_left_alone();
  }
  SECTION("before it") {
    replayed(90'001);
    CHECK(outcomes(t.tick()) == "recounted=1");
  }
  SECTION("after the end, but blocked") {
    replayed(1'000);
    t.set_core(misled.downstream, "eligibility_state = 'blocked_by_dependencies'");
    CHECK(outcomes(t.tick()) == "recounted=1");
    CHECK(t.state(misled) == "runnable/eligible_now/waiting");
  }
}

TEST_CASE("group_recount wakes whom an operator has replayed after its fan-in had become impossible") {
  RecountStage t;
  const bool replayed = GENERATE(true, false);
  const Json raw_fields = replayed ? Json{{"replay_count", 1}} : Json::object();
  const FanIn misled = insert_fan_in(t.db, 2, {.policy = policy("all_of"), .fail = 1, .running = 1},
                                     {.state = runnable(), .raw_fields = raw_fields});
  t.end(misled, 0, "failed");
  t.end(misled, 1);
  t.set_core(misled.downstream,
             "eligibility_state = 'blocked_by_dependencies', blocking_reason = 'waiting_for_children'");
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(counts(t.db, misled.downstream) == "1/1/0/0");
  CHECK(t.state(misled) == (replayed ? "runnable/eligible_now/waiting" : "terminal/not_applicable/skipped"));
}

TEST_CASE("group_recount leaves a group alone that changes between its scan and its act") {
  RecountStage t;
  const FanIn misled = t.add_misled();
  const std::string sql =
      GENERATE("UPDATE ff_edge_group SET running_count = 2 WHERE downstream_eid = $1",
               "UPDATE ff_edge SET policy = '{\"edge_state\": \"pending\"}' WHERE downstream_eid = $1",
               "UPDATE ff_exec_core SET lifecycle_phase = 'active' WHERE execution_id <> $1",
               "UPDATE ff_exec_core SET lifecycle_phase = 'active' WHERE execution_id = $1",
               "UPDATE ff_completion_event SET dispatched_at_ms = NULL WHERE execution_id <> $1",
               "UPDATE ff_completion_event SET outcome = 'failed' WHERE execution_id <> $1");
  t.check_left_alone_after(sql, pg::Params::of(misled.downstream));
}

TEST_CASE("group_recount goes by the filter of the downstream") {
  RecountStage t;
  const FanIn ours = t.add_misled({.state = blocked(), .raw_fields = origin("a", "i")});
  const FanIn theirs = t.add_misled({.state = blocked(), .raw_fields = origin("b", "i")});
  CHECK(t.tick({.filter = for_namespace("a")}).processed == 1);
  CHECK(counts(t.db, ours.downstream) == "1/0/0/0");
  CHECK(counts(t.db, theirs.downstream) == "0/0/0/1");
}
