// What holds an execution up, made on purpose: `explain` names it with the next step, and what it foretells of the
// reconcilers comes true.
#include <catch2/catch.hpp>

#include "explain_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

CoreRow in_state(State state) {
  return {.state = std::move(state)};
}

// What else is set in its row.
Uuid core_with(ExplainStage& stage, CoreRow row, const std::string& assignments) {
  const Uuid id = stage.core(std::move(row));
  stage.set(id, assignments);
  return id;
}

Uuid suspended_with(ExplainStage& stage, std::optional<std::int64_t> timeout_in_ms,
                    bool with_waitpoint = true) {
  const Uuid id = stage.core(in_state(suspended()));
  stage.attempt({.execution = id});
  const auto timeout = timeout_in_ms ? std::optional(stage.now + *timeout_in_ms) : std::nullopt;
  insert_suspension(stage.db, {.partition = {3}, .execution = id, .timeout_at_ms = timeout});
  if (with_waitpoint)
    insert_waitpoint(stage.db, {.partition = {3}, .execution = id, .waitpoint_key = "approval"});
  return id;
}

// What the cancel of its flow still owes it.
void insert_cancel_backlog(pg::Connection& db, PartitionKey partition, const Uuid& flow,
                           const Uuid& execution, std::int64_t requested_at_ms) {
  insert(db, "ff_cancel_backlog",
         {{"partition_key", partition.value},
          {"flow_id", to_string(flow)},
          {"requested_at_ms", requested_at_ms},
          {"cancellation_policy", "cancel_all"}});
  insert(db, "ff_cancel_backlog_member",
         {{"partition_key", partition.value},
          {"flow_id", to_string(flow)},
          {"execution_id", to_string(ExecutionId{partition, execution})}});
}

// Of two upstreams, the first with this in its row.
FanIn fan_in(ExplainStage& stage, GroupRow group, const std::string& upstream = {}) {
  if (group.policy.is_null()) group.policy = {{"kind", "all_of"}};
  const FanIn made = insert_fan_in(stage.db, 2, std::move(group));
  for (const Uuid& id : made.upstreams)
    insert_attempt(stage.db, {.partition = {3}, .execution = id, .lease_expires_at_ms = stage.now + kHour});
  if (!upstream.empty()) stage.set(made.upstreams[0], upstream);
  return made;
}

// Satisfied, with an upstream that is to be cancelled.
FanIn one_too_many(ExplainStage& stage) {
  FanIn made = fan_in(stage, {.policy = {{"kind", "any_of"}}, .success = 1, .running = 1});
  stage.db.execute(
      "UPDATE ff_edge_group SET cancel_siblings_pending_flag = true,"
      " cancel_siblings_pending_members = ARRAY[$1::text]",
      pg::Params::of(made.upstreams[1]));
  return made;
}

const char* const kEnded =
    "lifecycle_phase = 'cancelled', public_state = 'cancelled', eligibility_state = 'not_applicable'";

// A parent that has one child, which is counted or not.
FanIn parent(ExplainStage& stage, GroupRow group) {
  group.policy = {{"kind", "all_of"}};
  const FanIn made = insert_fan_in(stage.db, 1, std::move(group), in_state(runnable()));
  stage.set(made.downstream,
            "eligibility_state = 'blocked_by_dependencies', blocking_reason = 'waiting_for_children'");
  return made;
}

}  // namespace

TEST_CASE("explain names what holds up an execution that is or was leased") {
  check_causes({
      {"lease_runs", [](auto& s) { return s.leased(kHour); }, "wait"},
      {"lease_lapsed", [](auto& s) { return s.leased(-kMinute); }, "tick lease_expiry --execution '{id}'"},
      {"lease_lapsed",
       [](auto& s) {
         return s.leased(-kMinute, {{"lease_reclaims", 3}}, {.policy = max_retries(2)});
       },
       "tick attempt_timeout --execution '{id}'"},
      {"retries_spent",
       [](auto& s) {
         return s.leased(-kMinute, {{"lease_reclaims", 3}});
       },
       "tick attempt_timeout --execution '{id}'"},
      {"lease_in_grace",
       [](auto& s) {
         for (const char* name : {"lease_expiry", "attempt_timeout"}) s.settings[name] = {{"grace", kHour}};
         return s.leased(-kMinute);
       },
       "grace"},
      {"lease_waits",
       [](auto& s) {
         return s.leased(-kMinute / 2, {{"lease_reclaims", 7}});
       },
       "tick attempt_timeout --execution '{id}'"},
      {"lease_promised",
       [](auto& s) {
         const Uuid id = s.leased(-kMinute);
         s.grant(id, "reclaim", kHour);
         return id;
       },
       "reclaims it"},
      {"active_without_lease",
       [](auto& s) {
         const Uuid id = s.core({});
         s.attempt({.execution = id});
         return id;
       },
       "UPDATE ff_exec_core"},
      {"deadline_ahead",
       [](auto& s) { return s.leased(kHour, Json::object(), {.deadline_at_ms = s.now + kHour}); },
       "execution_deadline"},
      {"deadline_passed",
       [](auto& s) { return s.leased(kHour, Json::object(), {.deadline_at_ms = s.now - kMinute}); },
       "tick execution_deadline --execution '{id}'"},
      {"deadline_ignored",
       [](auto& s) { return s.core({.state = runnable(), .deadline_at_ms = s.now - kMinute}); },
       "include_waiting"},
  });
}

TEST_CASE("explain names what holds up an execution that is to be claimed") {
  check_causes({
      {"unclaimed", [](auto& s) { return s.core(in_state(runnable())); }, "workers"},
      {"resumable", [](auto& s) { return core_with(s, in_state(runnable()), "public_state = 'resumable'"); },
       "workers"},
      {"attempt_missing",
       [](auto& s) {
         const Uuid id = core_with(
             s, in_state({"runnable", "released", "eligible_now", "resumable", "attempt_interrupted"}),
             "attempt_index = 1");
         s.attempt({.execution = id});
         return id;
       },
       "tick index_repair --execution '{id}'"},
      {"not_scheduled", [](auto& s) { return s.core(in_state(submitted())); }, "UPDATE ff_exec_core"},
      {"not_eligible",
       [](auto& s) { return core_with(s, in_state(runnable()), "eligibility_state = 'blocked_by_budget'"); },
       "UPDATE ff_exec_core"},
      {"phase_unknown",
       [](auto& s) { return core_with(s, in_state(runnable()), "lifecycle_phase = 'parked'"); },
       "find out who wrote it"},
      {"due",
       [](auto& s) {
         const Uuid flow = new_uuid();
         const Uuid id = s.core({.flow = flow, .state = runnable()});
         insert_cancel_backlog(s.db, {3}, flow, id, s.now - kHour);
         return id;
       },
       "tick cancel_backlog --execution '{id}'"},
      {"claim_promised",
       [](auto& s) {
         const Uuid id = core_with(s, in_state(runnable()), "eligibility_state = 'pending_claim'");
         s.grant(id, "claim", kHour);
         return id;
       },
       "wait for that worker"},
      {"delayed", [](auto& s) { return s.core({.state = delayed(), .deadline_at_ms = s.now + kHour}); },
       "delayed_promoter"},
      {"delay_over", [](auto& s) { return s.core({.state = delayed(), .deadline_at_ms = s.now - kMinute}); },
       "tick delayed_promoter --execution '{id}'"},
      {"delay_without_end", [](auto& s) { return s.core(in_state(delayed())); }, "UPDATE ff_exec_core"},
      {"retry_backoff",
       [](auto& s) {
         return core_with(
             s, {.state = delayed(), .raw_fields = {{"delay_until", std::to_string(s.now + kHour)}}},
             "blocking_reason = 'waiting_for_retry_backoff'");
       },
       "delayed_promoter"},
  });
}

TEST_CASE("explain names whom an execution waits for") {
  check_causes({
      {"waits_for_upstreams", [](auto& s) { return fan_in(s, {}).downstream; }, "explain '{fp:3}:"},
      {"upstream_not_dispatched",
       [](auto& s) {
         const FanIn made = fan_in(s, {});
         end_upstream(s.db, made, 0);
         return made.downstream;
       },
       "tick dependency --execution '{fp:3}:"},
      {"upstream_without_event", [](auto& s) { return fan_in(s, {}, kEnded).downstream; },
       "INSERT INTO ff_completion_event"},
      {"fan_in_misled",
       [](auto& s) {
         const FanIn made = fan_in(s, {.success = 1, .running = 1});
         for (const std::size_t upstream : {0U, 1U}) end_upstream(s.db, made, upstream);
         s.db.execute("UPDATE ff_completion_event SET dispatched_at_ms = 5");
         return made.downstream;
       },
       "tick group_recount --execution '{id}'"},
      {"upstream_without_event",
       [](auto& s) {
         return fan_in(s, {}, kEnded + (", terminal_at_ms = " + std::to_string(s.now - kMinute))).downstream;
       },
       "tick completion_repair --execution '{fp:3}:"},
      {"fan_in_impossible", [](auto& s) { return fan_in(s, {.fail = 1, .running = 1}, kEnded).downstream; },
       "cancel it"},
      {"fan_in_satisfied",
       [](auto& s) {
         return fan_in(s, {.policy = {{"kind", "any_of"}}, .success = 1, .running = 1}, kEnded).downstream;
       },
       "UPDATE ff_exec_core"},
      {"blocked_without_fan_in", [](auto& s) { return s.core(in_state(blocked())); }, "UPDATE ff_exec_core"},
      {"blocked_without_fan_in",
       [](auto& s) {
         const FanIn made = fan_in(s, {});
         s.db.execute("DELETE FROM ff_edge_group");
         return made.downstream;
       },
       "INSERT INTO ff_edge_group"},
      {"waits_for_children", [](auto& s) { return parent(s, {}).downstream; }, "explain '{fp:3}:"},
      {"children_ended", [](auto& s) { return parent(s, {.success = 1, .running = 0}).downstream; },
       "tick dependency --execution '{id}'"},
      {"siblings_to_cancel",
       [](auto& s) {
         const FanIn made = one_too_many(s);
         insert_pending(s.db, {3}, made.flow, made.downstream, s.now - kMinute);
         return made.downstream;
       },
       "tick edge_cancel_dispatcher --execution '{id}'"},
      {"to_be_cancelled",
       [](auto& s) {
         const FanIn made = one_too_many(s);
         insert_pending(s.db, {3}, made.flow, made.downstream, s.now - kMinute);
         return made.upstreams[1];
       },
       "tick edge_cancel_dispatcher --execution '{fp:3}:"},
      {"to_be_cancelled", [](auto& s) { return one_too_many(s).upstreams[1]; },
       "INSERT INTO ff_pending_cancel_groups"},
      {"cancel_forgotten", [](auto& s) { return one_too_many(s).downstream; },
       "INSERT INTO ff_pending_cancel_groups"},
      {"waits_for_upstreams",
       [](auto& s) {
         const FanIn made = fan_in(s, {});
         s.db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(made.upstreams[0]));
         return made.downstream;
       },
       "DELETE FROM ff_edge WHERE"},
      {"waits_for_upstreams",
       [](auto& s) {
         const FanIn made = fan_in(s, {});
         s.db.execute("UPDATE ff_edge SET upstream_eid = downstream_eid WHERE upstream_eid = $1",
                      pg::Params::of(made.upstreams[0]));
         return made.downstream;
       },
       "DELETE FROM ff_edge WHERE"},
      {"upstream_without_event",
       [](auto& s) {
         const FanIn made =
             fan_in(s, {}, kEnded + (", terminal_at_ms = " + std::to_string(s.now - 200 * kHour)));
         s.db.execute("DELETE FROM ff_edge WHERE upstream_eid = $1", pg::Params::of(made.upstreams[1]));
         return made.downstream;
       },
       "INSERT INTO ff_completion_event"},
  });
}

TEST_CASE("explain names what a suspended execution waits for") {
  check_causes({
      {"suspended_until", [](auto& s) { return suspended_with(s, kHour); }, "deliver the signal"},
      {"waits_for_signal", [](auto& s) { return suspended_with(s, {}); }, "deliver the signal"},
      {"suspended_for_ever", [](auto& s) { return suspended_with(s, {}, false); }, "operator"},
      {"suspension_over", [](auto& s) { return suspended_with(s, -kMinute); },
       "tick suspension_timeout --execution '{id}'"},
      {"suspended_without_suspension", [](auto& s) { return s.core(in_state(suspended())); },
       "UPDATE ff_exec_core"},
      {"waitpoint_pending",
       [](auto& s) {
         const Uuid id = s.leased(kHour);
         insert_waitpoint(s.db, {.partition = {3}, .execution = id, .expires_at_ms = s.now + kHour});
         return id;
       },
       "wait"},
      {"waitpoint_expired",
       [](auto& s) {
         const Uuid id = s.leased(kHour);
         insert_waitpoint(s.db, {.partition = {3}, .execution = id, .expires_at_ms = s.now - kMinute});
         return id;
       },
       "tick pending_waitpoint_expiry --execution '{id}'"},
      {"waitpoint_astray",
       [](auto& s) {
         const Uuid id = s.leased(kHour);
         insert_waitpoint(s.db, {.partition = {3}, .execution = id});
         s.db.execute("UPDATE ff_waitpoint_pending SET state = 'active' WHERE execution_id = $1",
                      pg::Params::of(id));
         return id;
       },
       "tick stray_waitpoint --execution '{id}'"},
  });
}

TEST_CASE("explain says how an execution ended, and what it left") {
  check_causes({
      {"ended",
       [](auto& s) { return s.core({.state = terminal("failed"), .terminal_at_ms = s.now - kMinute}); },
       "replay"},
      {"end_not_dispatched",
       [](auto& s) {
         const Uuid id = s.core(in_state(terminal()));
         insert_completion(s.db, {.execution = id});
         return id;
       },
       "tick dependency --execution '{id}'"},
      {"lease_left", [](auto& s) { return s.leased(-kMinute, Json::object(), in_state(cancelled())); },
       "tick lease_expiry --execution '{id}'"},
      {"suspension_left",
       [](auto& s) {
         const Uuid id = suspended_with(s, {});
         s.set(id, kEnded);
         return id;
       },
       "tick suspension_timeout --execution '{id}'"},
  });
}

// Who gives back what was promised, and never claimed, may be one of the reconcilers.
TEST_CASE("explain names a claim that was promised and never made") {
  ExplainStage stage;
  const Uuid id = core_with(stage, in_state(runnable()), "eligibility_state = 'pending_claim'");
  stage.grant(id, "claim", -kMinute);
  const auto found = explain::findings(stage.ask(id));
  const explain::Finding* its = finding(found, "claim_abandoned");
  REQUIRE(its != nullptr);
  CHECK_THAT(its->text, Catch::Contains("the grant of w2-1 ended 1 m "));
  CHECK_THAT(its->text, Catch::Contains("grant_expiry returns it"));
  CHECK_THAT(its->next, Catch::StartsWith("ff-reconcilerd tick grant_expiry "));
}

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
  return stage.core({.flow = flow, .state = std::move(state)});
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

TEST_CASE("explain names nothing beside the cause that would move nothing") {
  ExplainStage stage;
  const Uuid promised = stage.leased(-kMinute);
  stage.grant(promised, "reclaim", kHour);
  CHECK(causes(explain::findings(stage.ask(promised))) == "lease_promised");
  // A waitpoint of a former suspension is none to deliver to.
  const Uuid suspended = suspended_with(stage, kHour);
  stage.db.execute("UPDATE ff_waitpoint_pending SET state = 'active', activated_at_ms = 5");
  const auto found = explain::findings(stage.ask(suspended));
  CHECK_THAT(finding(found, "suspended_until")->text, Catch::StartsWith("no waitpoint of its is open"));
  CHECK(finding(found, "waitpoint_astray") != nullptr);
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
