// What `explain` says has to be true of what FlowFabric does with the row, and what it advises has to lead somewhere.
#include <catch2/catch.hpp>

#include "audit/remedy.hpp"
#include "explain_stage.hpp"
#include "resume_conditions.hpp"

using namespace ff;
using namespace ff::test;

namespace {

// What is said of one that waits for signals, the ids of its waitpoints as their keys.
std::string awaited(const Json& condition, const Json& signals = Json::object(),
                    const std::vector<std::string>& keys = {"a", "b"}) {
  ExplainStage stage;
  const Uuid id = suspended_with(stage, kHour, false);
  for (const std::string& key : keys) insert_open_waitpoint(stage, id, key);
  set_condition(stage, id, condition, signals);
  const explain::Facts facts = stage.ask(id);
  const auto found = explain::findings(facts);
  std::string text = text_of(found, "suspended_until");
  for (const explain::Waitpoint& each : facts.waitpoints)
    for (auto at = text.find(each.id); at != std::string::npos; at = text.find(each.id))
      text.replace(at, each.id.size(), each.key);
  return text.substr(0, text.find("; its time-out")) + " -> " + next_of(found, "suspended_until");
}

Json named(const std::string& key, const std::string& signal) {
  return {{"Single", {{"waitpoint_key", key}, {"matcher", {{"ByName", signal}}}}}};
}
Json all_of(const Json& members) {
  return {{"Composite", {{"kind", "AllOf"}, {"members", members}}}};
}
Json count_of(int n, const std::string& kind) {
  return {{"Composite", {{"kind", "Count"}, {"n", n}, {"count_kind", kind}, {"waitpoints", {"a", "b"}}}}};
}
Json signal(const std::string& name, const std::string& source = "s1") {
  return {{"signal_id", name}, {"signal_name", name}, {"source_type", "t"}, {"source_identity", source}};
}

constexpr const char* kDeliver = " -> deliver the signal, or wait: suspension_timeout acts then";
constexpr const char* kByOperator =
    " -> an operator's resume or cancel in FlowFabric, or wait: suspension_timeout acts then";

}  // namespace

TEST_CASE(
    "explain says of a suspension that no signal can bring it about, where FlowFabric has taken such a one") {
  const std::string never = std::string(": no signal can bring that about") + kByOperator;
  CHECK(awaited(all_of(Json::array())) == "it waits for all of 0" + never);
  CHECK(awaited(named("zz", "go")) == "it waits for go at waitpoint \"zz\" (not open)" + never);
  CHECK(awaited(count_of(9, "DistinctWaitpoints")) ==
        "it waits for 9 of 2: any signal at waitpoint a, any signal at waitpoint b" + never);
  CHECK(awaited(all_of({named("a", "go"), named("zz", "go")})) ==
        "it waits for all of 2: go at waitpoint a, go at waitpoint \"zz\" (not open)" + never);
  // What has come is enough, whatever is open.
  CHECK_THAT(awaited(all_of({named("a", "go"), named("zz", "go")}), {{"zz", {signal("go")}}}),
             Catch::StartsWith("it waits for all of 2 (1 has come): go at waitpoint a ->"));
  CHECK_THAT(awaited(count_of(1, "DistinctSignals")), Catch::StartsWith("it waits for 1 signal: "));
}

TEST_CASE(
    "explain knows that a signal counts by the key of its waitpoint, be that of a former suspension or only "
    "announced") {
  ExplainStage stage;
  const Uuid id = suspended_with(stage, {}, false);
  insert_open_waitpoint(stage, id, "a");
  const std::string other = GENERATE("activated_at_ms = 1", "state = 'pending', activated_at_ms = NULL");
  stage.db.execute("UPDATE ff_waitpoint_pending SET " + other);
  set_condition(stage, id, named("a", "go"), Json::object());
  CHECK_THAT(text_of(found_of(stage, id), "waits_for_signal"),
             Catch::StartsWith("it waits for go at waitpoint "));
}

TEST_CASE("explain tells a waitpoint that has lost its key from one of a former suspension") {
  ExplainStage stage;
  const Uuid id = suspended_with(stage, {}, false);
  insert_open_waitpoint(stage, id, "");
  set_condition(stage, id, named("a", "go"));
  const Found found = found_of(stage, id);
  CHECK_THAT(text_of(found, "waitpoint_without_key"),
             Catch::StartsWith("FlowFabric has lost the key \"a\" of waitpoint "));
  CHECK_THAT(text_of(found, "waits_for_signal"), Catch::StartsWith("it waits for go at waitpoint "));
  for (const char* cause : {"waitpoint_astray", "suspended_for_ever"}) CHECK(text_of(found, cause) == "none");
  // Which of two it was to have, nobody knows.
  set_condition(stage, id, all_of({named("a", "go"), named("b", "go")}));
  const Found unclear = found_of(stage, id);
  CHECK(text_of(unclear, "waitpoint_without_key") == "none");
  CHECK(text_of(unclear, "suspended_for_ever") != "none");
}

TEST_CASE("explain says that one more signal is wanted where all that is waited for has come") {
  ExplainStage stage;
  const Uuid id = suspended_with(stage, {});
  set_condition(stage, id, named("approval", "go"), {{"approval", {signal("go")}}});
  CHECK(text_of(found_of(stage, id), "waits_for_signal") ==
        "what it waits for has come, but FlowFabric resumes it only when one more signal comes; there is no "
        "time-out");
}

TEST_CASE("explain sees the waitpoints of the present suspension, however many there are of former ones") {
  ExplainStage stage;
  const Uuid id = suspended_with(stage, {}, false);
  for (int i = 0; i < 60; ++i) insert_open_waitpoint(stage, id, "former");
  stage.db.execute("UPDATE ff_waitpoint_pending SET activated_at_ms = 1, created_at_ms = 1");
  insert_open_waitpoint(stage, id, "present");
  set_condition(stage, id, named("present", "go"), Json::object());
  CHECK_THAT(text_of(found_of(stage, id), "waits_for_signal"),
             Catch::StartsWith("it waits for go at waitpoint "));
}

TEST_CASE(
    "explain has a fan-in counted anew before it has an event written by hand, and that with the word of the "
    "end") {
  ExplainStage stage;
  const FanIn made =
      fan_in(stage, {}, "lifecycle_phase = 'terminal', public_state = 'running', terminal_at_ms = 5");
  stage.db.execute("DELETE FROM ff_edge WHERE upstream_eid = $1", pg::Params::of(made.upstreams[1]));
  stage.db.execute("UPDATE ff_attempt SET outcome = 'success', terminal_at_ms = 5 WHERE execution_id = $1",
                   pg::Params::of(made.upstreams[0]));
  // Not of this run.
  stage.db.execute(
      "INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, outcome, terminal_at_ms)"
      " SELECT 3, $1, -1, 'failed', 4",
      pg::Params::of(made.upstreams[0]));
  CHECK_THAT(next_of(found_of(stage, made.downstream), "fan_in_misled"),
             Catch::StartsWith("ff-reconcilerd tick group_recount"));
  const explain::Facts facts = stage.ask(made.downstream);
  const auto silent = std::ranges::find(facts.upstreams, made.upstreams[0],
                                        [](const explain::Upstream& upstream) { return upstream.id.uuid; });
  REQUIRE(silent != facts.upstreams.end());
  CHECK(silent->word_of_end == "success");
  const std::string its_row = "WHERE execution_id = '" + to_string(made.upstreams[0]) + "'";
  CHECK_THROWS_AS(stage.db.execute_script(audit::insert_event_of_end("", its_row)), pg::Error);
  stage.db.execute_script(audit::insert_event_of_end(*silent->word_of_end, its_row));
  CHECK(row(stage.db, "SELECT outcome FROM ff_completion_event")["outcome"] == "success");
}

TEST_CASE(
    "explain says how many ends a fan-in has lost while a sibling lives, to who waits first and to a "
    "parent") {
  ExplainStage stage;
  const FanIn made = fan_in(stage, {.policy = {{"kind", "any_of"}}});
  end_and_pass_on(stage, made, {0});
  const bool is_parent = GENERATE(false, true);
  if (is_parent)
    stage.set(made.downstream,
              "lifecycle_phase = 'runnable', blocking_reason = 'waiting_for_children', attempt_state = "
              "'attempt_interrupted'");
  const Found found = found_of(stage, made.downstream);
  CHECK_THAT(text_of(found, "fan_in_misled"),
             Catch::Equals("1 of its 2 upstreams has ended and only 0 are counted (any_of: 0 success, 0 "
                           "failed, 0 skipped, 2 running)"));
  CHECK(finding(found, is_parent ? "waits_for_children" : "waits_for_upstreams") == nullptr);
}

TEST_CASE("explain calls no fan-in impossible to which edges are still being applied") {
  ExplainStage stage;
  const FanIn made = fan_in(stage, {.policy = {{"kind", "quorum"}, {"k", 3}}});
  const Found found = found_of(stage, made.downstream);
  CHECK(finding(found, "fan_in_impossible") == nullptr);
  CHECK_THAT(text_of(found, "waits_for_upstreams"),
             Catch::Contains("needs 3 successes, and over the 2 edges that it has so far 2 can come"));

  const FanIn other = fan_in(stage, {.policy = {{"kind", "any_of"}}, .fail = 2, .running = 0}, kEnded);
  stage.set(other.upstreams[1], kEnded);
  CHECK(finding(found_of(stage, other.downstream), "fan_in_impossible") != nullptr);
  const Uuid late = stage.core({.flow = other.flow, .state = runnable()});
  insert_edge(stage.db, {3}, other.flow, late, other.downstream, {{"edge_state", "pending"}});
  const Found staged = found_of(stage, other.downstream);
  CHECK(finding(staged, "fan_in_impossible") == nullptr);
  CHECK_THAT(text_of(staged, "edge_only_staged"), Catch::Contains("edge only staged"));
}

TEST_CASE("explain does not make one eligible whose flow has only begun to be built") {
  ExplainStage stage;
  const FanIn made = fan_in(stage, {.policy = {{"kind", "quorum"}, {"k", 2}}, .running = 0});
  stage.db.execute("DELETE FROM ff_edge");
  CHECK_THAT(next_of(found_of(stage, made.downstream), "waits_for_upstreams"),
             Catch::StartsWith("UPDATE ff_exec_core"));
  stage.set(made.downstream, "created_at_ms = " + std::to_string(stage.now));
  CHECK_THAT(next_of(found_of(stage, made.downstream), "waits_for_upstreams"), Catch::StartsWith("wait: "));
}

TEST_CASE(
    "explain names a replay only where FlowFabric replays, and an end only where nothing is left of it") {
  ExplainStage stage;
  const auto next = [&](const Uuid& id) { return next_of(found_of(stage, id), "ended"); };
  const auto just_ended = [&](const State& state) {
    return stage.core({.state = state, .terminal_at_ms = stage.now});
  };
  CHECK(next(just_ended(terminal())) == "nothing moves it any more; FlowFabric's replay begins it anew");
  CHECK(next(just_ended(cancelled())) ==
        "nothing moves it any more; FlowFabric replays only what is terminal, and not what is cancelled");
  CHECK_THAT(next(stage.leased(kHour, Json::object(), in_state(cancelled()))),
             Catch::StartsWith("its worker may still end it otherwise; "));
  const Uuid untold = stage.core(in_state(terminal()));
  insert_completion(stage.db, {.execution = untold});
  CHECK_THAT(next(untold), Catch::StartsWith("it has ended, but for what the other lines say; "));
}

TEST_CASE("explain says that a worker completed what had been cancelled") {
  ExplainStage stage;
  const Uuid id = core_with(stage, in_state(terminal("cancelled")),
                            "cancellation_reason = 'operator', cancelled_by = 'cancel_flow_header'");
  CHECK_THAT(text_of(found_of(stage, id), "ended"),
             Catch::Contains("it has ended as cancelled, cancelled: operator, by cancel_flow_header"));
  insert_completion(stage.db, {.execution = id});
  CHECK_THAT(text_of(found_of(stage, id), "ended"),
             Catch::Contains("it has ended as completed, after a cancel: operator, by cancel_flow_header"));
  // The event of the run before an operator replayed and cancelled it says nothing of this end.
  stage.set(id, "lifecycle_phase = 'cancelled', attempt_state = 'cancelled'");
  CHECK_THAT(text_of(found_of(stage, id), "ended"), Catch::Contains("it has ended as cancelled"));
}

TEST_CASE("explain says of a waiting one how an upstream ended that was completed after its cancel") {
  ExplainStage stage;
  const FanIn made = fan_in(stage, {});
  end_upstream(stage.db, made, 0);
  stage.set(made.upstreams[0],
            "lifecycle_phase = 'terminal', public_state = 'cancelled', attempt_state = 'attempt_terminal'");
  CHECK_THAT(text_of(found_of(stage, made.downstream), "upstream_not_dispatched"),
             Catch::Contains(" ended as completed, "));
}

TEST_CASE("explain advises no tick that would leave the row alone") {
  ExplainStage stage;
  const FanIn wanted = one_too_many(stage);
  insert_pending(stage.db, {3}, wanted.flow, wanted.downstream, stage.now - kMinute);
  const Found cancelling = found_of(stage, wanted.downstream);
  CHECK(finding(cancelling, "siblings_to_cancel") != nullptr);
  CHECK(finding(cancelling, "due") == nullptr);
  const FanIn stale = fan_in(stage, {});
  insert_pending(stage.db, {3}, stale.flow, stale.downstream, stage.now - kMinute);
  const Found tidied = found_of(stage, stale.downstream);
  CHECK(finding(tidied, "cancel_entry_left") != nullptr);
  CHECK(finding(tidied, "siblings_to_cancel") == nullptr);
  CHECK(finding(tidied, "due") == nullptr);
}

TEST_CASE("explain says which signals a suspension waits for, and how many of them") {
  const Json both = {named("a", "go"), any_signal_at("b")};
  CHECK(awaited(named("a", "go")) == std::string("it waits for go at waitpoint a") + kDeliver);
  CHECK(awaited(all_of(both)) ==
        std::string("it waits for all of 2: go at waitpoint a, any signal at waitpoint b") + kDeliver);
  CHECK(awaited(count_of(1, "DistinctWaitpoints")) ==
        std::string("it waits for 1 of 2: any signal at waitpoint a, any signal at waitpoint b") + kDeliver);
  CHECK(awaited(all_of({count_of(1, "DistinctWaitpoints"), named("a", "go")})) ==
        std::string("it waits for all of 2: [1 of 2: any signal at waitpoint a, any signal at waitpoint b], "
                    "go at waitpoint a") +
            kDeliver);
}

TEST_CASE("explain leaves out what has come of the signals that a suspension waits for") {
  const Json both = {named("a", "go"), any_signal_at("b")};
  CHECK(awaited(all_of(both), {{"b", {signal("x")}}}) ==
        std::string("it waits for all of 2 (1 has come): go at waitpoint a") + kDeliver);
  // Another name than that it waits for.
  CHECK_THAT(awaited(all_of(both), {{"a", {signal("x")}}}), Catch::StartsWith("it waits for all of 2: go "));
  CHECK_THAT(awaited(count_of(2, "DistinctWaitpoints"), {{"a", {signal("x")}}}),
             Catch::StartsWith("it waits for 2 of 2 (1 has come): any signal at waitpoint b"));
  const Json twice = {{"a", {signal("x"), signal("y")}}};
  CHECK_THAT(awaited(count_of(3, "DistinctSignals"), twice),
             Catch::StartsWith("it waits for 3 signals (2 have come): any signal at waitpoint a, any "));
  CHECK_THAT(awaited(count_of(2, "DistinctSources"), twice),
             Catch::StartsWith("it waits for 2 sources (1 has come): any signal at waitpoint a, any "));
}

TEST_CASE("explain names no signal where none can resume a suspension") {
  CHECK(awaited("OperatorOnly", {{"a", {signal("x")}}}, {"a"}) ==
        std::string("it waits for an operator's resume: no signal can resume it") + kByOperator);
  CHECK(awaited("TimeoutOnly", Json::object(), {"a"}) ==
        std::string("it waits for its time-out: no signal can resume it") + kByOperator);
  CHECK(awaited(any_signal_at("a"), Json::object(), {}) ==
        std::string("no waitpoint of its is open, so no signal can reach it") + kByOperator);
}

TEST_CASE("explain promises no signal a welcome that FlowFabric refuses") {
  const Json at_a = any_signal_at("a");
  for (const Json& condition : {Json::object(), Json(nullptr), Json("Anything"), Json{{"Quorum", 2}},
                                Json{{"Single", {{"waitpoint_key", "a"}, {"matcher", nullptr}}}},
                                Json{{"Single", at_a["Single"]}, {"x", 1}}, all_of({at_a, Json::object()}),
                                count_of(2, "DistinctDays"), count_of(-1, "DistinctSignals")}) {
    CAPTURE(condition.dump());
    CHECK(awaited(condition, Json::object(), {"a"}) ==
          std::string("FlowFabric refuses signals: its condition cannot be read") + kByOperator);
  }
  for (const Json& signals : {Json::array(), Json{{"a", Json::object()}}}) {
    CAPTURE(signals.dump());
    ExplainStage stage;
    const Uuid id = suspended_with(stage, kHour);
    set_condition(stage, id, any_signal_at("approval"), signals);
    const Found found = found_of(stage, id);
    CHECK(text_of(found, "signals_refused") == audit::check_named("signals_refused").meaning);
    CHECK_THAT(next_of(found, "suspended_until"), Catch::StartsWith("mend signals_refused, then deliver "));
    stage.db.execute_script(next_of(found, "signals_refused"));
    CHECK_THAT(next_of(found_of(stage, id), "suspended_until"), Catch::StartsWith("deliver the signal, "));
  }
}

TEST_CASE("explain takes nothing for a signal that has come but what stands in a list of them") {
  for (const Json& no_list : {Json{{"never_committed", true}}, Json("x"), Json(true)}) {
    CAPTURE(no_list.dump());
    const Json signals{{"a", no_list}};
    CHECK_THAT(awaited(any_signal_at("a"), signals),
               Catch::StartsWith("it waits for any signal at waitpoint a"));
    CHECK_THAT(awaited(count_of(1, "DistinctSources"), signals),
               Catch::StartsWith("it waits for 1 source: "));
  }
}

TEST_CASE(
    "explain does not take a waitpoint that is only announced, or of a former suspension, for one waited "
    "for") {
  ExplainStage stage;
  const Uuid id = suspended_with(stage, kHour);
  const std::string before = text_of(found_of(stage, id), "suspended_until");
  insert_waitpoint(
      stage.db,
      {.partition = {3}, .execution = id, .expires_at_ms = stage.now + kHour, .waitpoint_key = "other"});
  CHECK(text_of(found_of(stage, id), "suspended_until").substr(0, 60) == before.substr(0, 60));
  CHECK_THAT(text_of(found_of(stage, id), "suspended_until"), !Catch::Contains(", any signal"));

  const auto stray = [&](const std::string& key) {
    stage.db.execute(
        "UPDATE ff_waitpoint_pending SET state = 'active', activated_at_ms = 5, waitpoint_key = $1"
        " WHERE waitpoint_key <> 'approval' OR activated_at_ms = 5",
        pg::Params::of(key));
    return text_of(found_of(stage, id), "waitpoint_astray");
  };
  CHECK_THAT(stray("third"), Catch::EndsWith("would count for the next suspension of the same key"));
  CHECK_THAT(stray("approval"), Catch::EndsWith("counts for the present one, which has the same key"));
}

TEST_CASE("explain names the calls that take an interrupted attempt up again") {
  ExplainStage stage;
  State state = runnable();
  CHECK_THAT(text_of(found_of(stage, stage.core(in_state(state))), "unclaimed"),
             Catch::StartsWith("any worker may claim it (lane default), but none does"));
  state.attempt_state = "attempt_interrupted";
  const auto interrupted = [&](int attempt_index) {
    const Uuid id = stage.core({.state = state, .attempt_index = attempt_index});
    stage.attempt({.execution = id});
    return found_of(stage, id);
  };
  CHECK_THAT(text_of(interrupted(0), "unclaimed"),
             Catch::Contains("by FlowFabric's claim or issue_grant_and_claim, but not by claim_execution"));
  CHECK_THAT(next_of(interrupted(0), "unclaimed"), Catch::Contains("issue_grant_and_claim"));
  // Its attempt is not there: the others refuse it.
  CHECK_THAT(text_of(interrupted(1), "unclaimed"),
             Catch::Contains("by FlowFabric's claim, but not by claim_execution"));
  state.public_state = "resumable";
  CHECK_THAT(text_of(interrupted(0), "resumable"),
             Catch::Contains("claim, claim_resumed_execution or issue_grant_and_claim"));
}

TEST_CASE("explain tells of a failure only where the run that is shown ended so") {
  ExplainStage stage;
  const std::string failed = "raw_fields = '{\"last_failure_message\": \"suspension_timeout\"}'";
  const auto ended = [&](const std::string& public_state, const std::string& assignments) {
    return text_of(found_of(stage, core_with(stage, in_state(terminal(public_state)), assignments)), "ended");
  };
  CHECK(ended("completed", failed) == "it has ended as completed");
  CHECK(ended("expired", failed + ", cancellation_reason = 'suspension_timeout_expire'") ==
        "it has ended as expired, reason: suspension_timeout_expire, last failure: suspension_timeout");
  CHECK(ended("cancelled", failed + ", cancellation_reason = 'suspension_timeout_cancel'") ==
        "it has ended as cancelled, cancelled: suspension_timeout_cancel, last failure: suspension_timeout");
}

TEST_CASE("explain gives no date to a row that has none") {
  ExplainStage stage;
  State state = suspended();
  const Uuid id = stage.core({.state = state, .attempt_index = 1});
  stage.attempt({.execution = id});
  insert_suspension(stage.db, {.partition = {3}, .execution = id});
  const explain::Facts facts = stage.ask(id);
  CHECK(text_of(explain::findings(facts), "due") == "index_repair has it to move");
  for (const explain::Verdict& each : explain::verdicts(facts))
    if (each.reconciler == "index_repair") CHECK(each.text == "due, outcome: repaired");
}

TEST_CASE("explain reads a condition as FlowFabric and audit do") {
  ExplainStage stage;
  const Uuid id = suspended_with(stage, kHour, false);
  insert_open_waitpoint(stage, id, "k");
  const auto is_unreadable = [&](const std::string& condition) {
    stage.db.execute("UPDATE ff_suspension_current SET condition = $1::jsonb WHERE execution_id = $2",
                     pg::Params::of(condition, id));
    return text_of(found_of(stage, id), "suspended_until").find("cannot be read") != std::string::npos;
  };
  for (const std::string& condition : readable_conditions()) {
    CAPTURE(condition);
    CHECK_FALSE(is_unreadable(condition));
  }
  for (const std::string& condition : unreadable_conditions()) {
    CAPTURE(condition);
    CHECK(is_unreadable(condition));
  }
}
