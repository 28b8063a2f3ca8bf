// What is wrong with an execution, made on purpose: `explain` says what `audit` says of it, and nothing that would harm or
// lead nowhere.
#include <catch2/catch.hpp>

#include "audit/remedy.hpp"
#include "explain/words.hpp"
#include "explain_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::string causes(const std::vector<explain::Finding>& found) {
  std::string all;
  for (const explain::Finding& each : found) all += (all.empty() ? "" : " ") + std::string(each.cause);
  return all;
}

Uuid of_cancelled_flow(ExplainStage& stage, State state, const std::string& raw_fields = "{}") {
  const Uuid flow = new_uuid();
  insert(stage.db, "ff_flow_core",
         {{"partition_key", 3},
          {"flow_id", to_string(flow)},
          {"public_flow_state", "cancelled"},
          {"created_at_ms", 5},
          {"raw_fields", Json::parse(raw_fields)}});
  const bool has_ended = state.lifecycle_phase == "cancelled";
  return stage.core({.flow = flow,
                     .state = std::move(state),
                     .terminal_at_ms = has_ended ? std::optional(stage.now) : std::nullopt});
}

}  // namespace

TEST_CASE("explain does not advise to begin the work of a cancelled flow") {
  ExplainStage stage;
  CHECK(causes(explain::findings(stage.ask(of_cancelled_flow(stage, runnable())))) == "flow_cancelled");
  CHECK(causes(explain::findings(stage.ask(of_cancelled_flow(stage, blocked())))) == "flow_cancelled");
  CHECK(causes(explain::findings(stage.ask(of_cancelled_flow(stage, cancelled())))) == "ended");
  const Uuid at_work = of_cancelled_flow(stage, active());
  stage.attempt({.execution = at_work, .lease_expires_at_ms = stage.now + kHour});
  CHECK(causes(explain::findings(stage.ask(at_work))) == "flow_cancelled lease_runs");
  const Uuid may_finish =
      of_cancelled_flow(stage, runnable(), R"({"cancellation_policy": "cancel_pending"})");
  CHECK(causes(explain::findings(stage.ask(may_finish))) == "unclaimed");
}

TEST_CASE("explain finds what audit finds in the execution's own rows, and says the same") {
  check_causes({
      {"waiting_but_leased",
       [](auto& s) { return core_with(s, in_state(runnable()), "ownership_state = 'leased'"); },
       "SET ownership_state = 'unowned' WHERE"},
      {"waiting_in_part",
       [](auto& s) { return core_with(s, in_state(runnable()), "attempt_state = 'attempt_terminal'"); },
       "SET attempt_state = 'pending_retry_attempt' WHERE"},
      {"alive_after_its_end",
       [](auto& s) { return core_with(s, in_state(runnable()), "terminal_at_ms = 5"); }, "cancel_execution"},
      {"negative_attempt_index",
       [](auto& s) { return core_with(s, in_state(submitted()), "attempt_index = -1"); },
       "SET attempt_index = "},
      {"active_in_part",
       [](auto& s) {
         const Uuid id = s.leased(kHour);
         s.set(id, "ownership_state = 'unowned'");
         return id;
       },
       "SET ownership_state = 'leased'"},
      {"lease_without_worker",
       [](auto& s) {
         const Uuid id = s.leased(kHour);
         s.db.execute("UPDATE ff_attempt SET worker_id = NULL, worker_instance_id = NULL");
         return id;
       },
       "UPDATE ff_attempt SET lease_expires_at_ms = NULL"},
      {"lease_for_ever", [](auto& s) { return s.leased(90'000 * kHour); },
       "UPDATE ff_attempt SET lease_expires_at_ms"},
  });
  ExplainStage stage;
  const Uuid id = core_with(stage, in_state(runnable()), "ownership_state = 'leased'");
  CHECK(causes(explain::findings(stage.ask(id))) == "waiting_but_leased");
}

TEST_CASE("explain says of one that waits without a fan-in what audit says, and that gives it back") {
  const audit::Check& check = audit::check_named("edge_without_group");
  for (const State& state : {submitted(), blocked()}) {
    CAPTURE(state.lifecycle_phase);
    ExplainStage stage;
    const FanIn made = fan_in(stage, {});
    stage.set(made.downstream, "lifecycle_phase = '" + state.lifecycle_phase + "'");
    stage.db.execute("DELETE FROM ff_edge_group");
    const auto found = explain::findings(stage.ask(made.downstream));
    CHECK(causes(found) == "blocked_without_fan_in");
    CHECK(found.at(0).text == check.meaning);
    stage.db.execute_script(found.at(0).next);
    CHECK(causes(explain::findings(stage.ask(made.downstream))) == "waits_for_upstreams");
  }
}

// The edges of these upstreams are only staged, and the group is this, or there is none.
TEST_CASE("explain begins nobody whose edge to an upstream is only staged") {
  const auto staged = [](ExplainStage& stage, const FanIn& made, std::size_t upstream) {
    stage.db.execute("UPDATE ff_edge SET policy = '{\"edge_state\": \"pending\"}' WHERE upstream_eid = $1",
                     pg::Params::of(made.upstreams.at(upstream)));
  };
  const auto check = [](ExplainStage& stage, const FanIn& made, std::size_t upstream) {
    const auto found = explain::findings(stage.ask(made.downstream));
    CHECK(causes(found) == "edge_only_staged");
    const explain::Finding& its = found.at(0);
    const std::string id = to_string(ExecutionId{{3}, made.upstreams.at(upstream)});
    CHECK_THAT(its.text, Catch::StartsWith("it waits for " + id + " (edge only staged)"));
    CHECK_THAT(its.next, Catch::Contains("apply_dependency_to_child") &&
                             Catch::Contains("DELETE FROM ff_edge WHERE") && !Catch::Contains("UPDATE"));
    // Whoever builds the flow may be about to apply it.
    const std::string made_at = "created_at_ms = " + std::to_string(now_ms(stage.db) - 60'000);
    stage.set(made.downstream, made_at);
    CHECK(explain::findings(stage.ask(made.downstream)).at(0).next ==
          "wait: who builds its flow applies its edges one by one");
  };
  for (const char* phase : {"submitted", "blocked"}) {
    CAPTURE(phase);
    ExplainStage stage;
    const FanIn none = parent(stage, {});
    stage.set(none.downstream, "blocking_reason = NULL, lifecycle_phase = '" + std::string(phase) + "'");
    staged(stage, none, 0);
    stage.db.execute("DELETE FROM ff_edge_group");
    check(stage, none, 0);
    // The other one is applied, and has ended.
    const FanIn one = fan_in(stage, {.success = 1, .running = 0});
    stage.set(one.downstream, "lifecycle_phase = '" + std::string(phase) + "'");
    end_and_pass_on(stage, one, {0});
    staged(stage, one, 1);
    check(stage, one, 1);
  }
  ExplainStage stage;
  const FanIn children = parent(stage, {});
  staged(stage, children, 0);
  stage.db.execute("DELETE FROM ff_edge_group");
  check(stage, children, 0);
}

TEST_CASE("explain takes an active execution without a lease from its worker, as audit does") {
  ExplainStage stage;
  const Uuid id = stage.core({});
  stage.attempt({.execution = id});
  const explain::Finding its = *finding(explain::findings(stage.ask(id)), "active_without_lease");
  CHECK(its.text == audit::check_named("active_without_lease").meaning);
  stage.db.execute_script(its.next);
  CHECK(attempt(stage.db, id)["lease_epoch"] == 2);
  CHECK(core(stage.db, id)["attempt_index"] == 0);
  CHECK(core(stage.db, id)["lifecycle_phase"] == "runnable");
}

TEST_CASE("explain and audit mend in one way what has an unknown phase or has lost its suspension") {
  ExplainStage stage;
  const auto first = [&](const Uuid& id) { return explain::findings(stage.ask(id)).at(0); };
  const auto mended = [](const char* check, const Uuid& id) { return explain::remedy(check, {{3}, id}); };
  const Uuid parked = core_with(stage, in_state(runnable()), "lifecycle_phase = 'parked'");
  CHECK(first(parked).next == mended("unknown_phase", parked));
  const Uuid lost = stage.core(in_state(suspended()));
  stage.attempt({.execution = lost});
  CHECK(first(lost).next == mended("suspended_without_suspension", lost));
}

TEST_CASE("explain names the claim alone for what is to go on with an attempt and has none, as audit does") {
  ExplainStage stage;
  const Uuid id =
      stage.core(in_state({"runnable", "released", "eligible_now", "resumable", "attempt_interrupted"}));
  const auto found = explain::findings(stage.ask(id));
  CHECK(causes(found) == "interrupted_without_attempt resumable");
  CHECK(text_of(found, "interrupted_without_attempt") ==
        audit::check_named("interrupted_without_attempt").meaning);
  CHECK_THAT(text_of(found, "resumable"),
             Catch::StartsWith("a worker may take it up again by FlowFabric's claim, but not by claim_exec"));
  stage.db.execute_script(next_of(found, "interrupted_without_attempt"));
  CHECK(causes(explain::findings(stage.ask(id))) == "resumable");
}

TEST_CASE("explain names nothing beside the cause that would move nothing") {
  ExplainStage stage;
  const Uuid promised = stage.leased(-kMinute);
  stage.grant(promised, "reclaim", kHour);
  CHECK(causes(explain::findings(stage.ask(promised))) == "lease_promised");
  // A signal on a waitpoint of a former suspension counts by its key.
  const Uuid suspended = suspended_with(stage, kHour);
  stage.db.execute("UPDATE ff_waitpoint_pending SET state = 'active', activated_at_ms = 5");
  const auto found = explain::findings(stage.ask(suspended));
  CHECK_THAT(finding(found, "suspended_until")->text,
             Catch::StartsWith("it waits for any signal at waitpoint "));
  CHECK_THAT(finding(found, "waitpoint_astray")->text,
             Catch::EndsWith("counts for the present one, which has the same key"));
}

TEST_CASE("what has to stand still first has not been moved meanwhile") {
  ExplainStage stage;
  const FanIn made = fan_in(stage, {.success = 1, .running = 1});
  for (const std::size_t upstream : {0U, 1U}) end_upstream(stage.db, made, upstream);
  stage.db.execute("UPDATE ff_completion_event SET dispatched_at_ms = 5");
  for (const explain::Verdict& each : explain::verdicts(stage.ask(made.downstream)))
    if (each.reconciler == "group_recount") {
      CHECK(each.word == "later");
      CHECK_THAT(each.text, Catch::EndsWith(", has to stand still for 1 m first"));
    }
}

TEST_CASE("explain says of a cancel what there is to say") {
  ExplainStage stage;
  const Uuid id =
      core_with(stage, in_state(cancelled()), "cancellation_reason = '', cancelled_by = 'cancel_backlog'");
  const auto found = explain::findings(stage.ask(id));
  CHECK_THAT(finding(found, "ended")->text,
             !Catch::Contains("cancelled:") && Catch::Contains(", by cancel_backlog"));
}
