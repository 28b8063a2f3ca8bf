// What holds an execution up, made on purpose: `explain` names it with the next step, and what it foretells of the
// reconcilers comes true.
#include <catch2/catch.hpp>

#include "explain_stage.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("explain names what holds up an execution that is or was leased") {
  check_causes({
      {"lease_runs", [](auto& s) { return s.leased(kHour); }, "wait"},
      {"lease_lapsed", [](auto& s) { return s.leased(-kMinute); }, "tick lease_expiry --execution '{id}'"},
      {"lease_lapsed",
       [](auto& s) {
         return s.leased(-kMinute, {{"lease_reclaims", 3}}, {.policy = max_retries(2)});
       },
       "tick attempt_timeout --execution '{id}'"},
      {"lease_lapsed",
       [](auto& s) {
         return s.leased(-kMinute / 2, {{"lease_reclaims", 7}}, {.raw_fields = {{"replay_count", 1}}});
       },
       "tick lease_expiry --execution '{id}'"},
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
       "UPDATE ff_attempt SET lease_epoch = lease_epoch + 1 "},
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
       "find out who wrote it first"},
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
       "grant_expiry returns it when the grant has ended, and FlowFabric's claim takes it from there"},
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
         end_and_pass_on(s, made, {0, 1});
         return made.downstream;
       },
       "tick group_recount --execution '{id}'"},
      {"fan_in_misled",
       [](auto& s) {
         const FanIn made = fan_in(s, {.policy = Json{{"kind", "any_of"}}});
         end_and_pass_on(s, made, {0});
         return made.downstream;
       },
       "tick group_recount --execution '{id}'"},
      {"fan_in_misled",
       [](auto& s) {
         const FanIn made = fan_in(s, {});
         end_and_pass_on(s, made, {0});
         return made.downstream;
       },
       "wait: group_recount counts it anew"},
      {"fan_in_misled",
       [](auto& s) {
         const FanIn made = fan_in(s, {});
         end_and_pass_on(s, made, {0});
         s.set(made.upstreams[1], "raw_fields = '{\"replay_count\": 1}'");
         return made.downstream;
       },
       "wait: group_recount counts it anew"},
      {"upstream_without_event",
       [](auto& s) {
         return fan_in(s, {}, kEnded + (", terminal_at_ms = " + std::to_string(s.now - kMinute))).downstream;
       },
       "tick completion_repair --execution '{fp:3}:"},
      {"fan_in_miscounted", [](auto& s) { return fan_in(s, {.success = 2}).downstream; }, "audit"},
      {"fan_in_miscounted",
       [](auto& s) {
         const FanIn made = fan_in(s, {.fail = 1, .running = 1});
         end_and_pass_on(s, made, {0});
         return made.downstream;
       },
       "audit"},
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
      {"children_ended",
       [](auto& s) {
         const FanIn made = parent(s, {.success = 1, .running = 0});
         end_and_pass_on(s, made, {0});
         return made.downstream;
       },
       "tick dependency --execution '{id}'"},
      {"fan_in_miscounted", [](auto& s) { return parent(s, {.success = 1, .running = 0}).downstream; },
       "ff-reconcilerd audit #"},
      {"siblings_to_cancel",
       [](auto& s) {
         const FanIn made = one_too_many(s);
         insert_pending(s.db, {3}, made.flow, made.downstream, s.now - kMinute);
         return made.downstream;
       },
       "tick edge_cancel_dispatcher --execution '{id}'"},
      {"cancel_entry_left",
       [](auto& s) {
         const FanIn made = fan_in(s, {});
         insert_pending(s.db, {3}, made.flow, made.downstream, s.now - kMinute);
         return made.downstream;
       },
       "tick edge_cancel_reconciler --execution '{id}'"},
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
      {"fan_in_misled",
       [](auto& s) {
         const FanIn made =
             fan_in(s, {}, kEnded + (", terminal_at_ms = " + std::to_string(s.now - 200 * kHour)));
         s.db.execute("DELETE FROM ff_edge WHERE upstream_eid = $1", pg::Params::of(made.upstreams[1]));
         return made.downstream;
       },
       "tick group_recount --execution '{id}'"},
  });
}

namespace {

// FlowFabric has lost the key of its waitpoint.
Uuid suspended_without_key(ExplainStage& stage) {
  const Uuid id = suspended_with(stage, {}, false);
  insert_open_waitpoint(stage, id, "");
  return id;
}

}  // namespace

TEST_CASE("explain names what a suspended execution waits for") {
  check_causes({
      {"suspended_until", [](auto& s) { return suspended_with(s, kHour); }, "deliver the signal"},
      {"waits_for_signal", [](auto& s) { return suspended_with(s, {}); }, "deliver the signal"},
      {"suspended_for_ever", [](auto& s) { return suspended_with(s, {}, false); }, "operator"},
      {"waitpoint_without_key", [](auto& s) { return suspended_without_key(s); },
       "tick stray_waitpoint --execution '{id}'"},
      {"waits_for_signal", [](auto& s) { return suspended_without_key(s); }, "deliver the signal"},
      {"waits_for_operator",
       [](auto& s) {
         const Uuid id = suspended_with(s, {});
         set_condition(s, id, "OperatorOnly");
         return id;
       },
       "an operator's resume or cancel"},
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
      {"lease_left", [](auto& s) { return s.leased(kHour, Json::object(), in_state(cancelled())); },
       "wait: a lease that has lapsed is taken"},
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
