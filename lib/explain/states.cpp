#include "explain/states.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "audit/remedy.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

constexpr std::string_view kClaimable = "eligibility_state = 'eligible_now'";

void add_delayed(const Facts& facts, std::vector<Finding>& found) {
  const Inspection* inspection = facts.inspection("delayed_promoter");
  const auto at = inspection == nullptr ? std::nullopt : inspection->takeable_at();
  const bool retry = facts.core->backs_off();
  if (!at)
    found.push_back({"delay_without_end", "it is delayed, but until when stands nowhere",
                     update_core(facts.id, "eligibility_state = 'eligible_now', public_state = 'waiting'")});
  else if (inspection->due())
    found.push_back(
        {"delay_over", "its delay was over " + when(*at, facts.now), tick("delayed_promoter", facts.id)});
  else
    found.push_back({retry ? "retry_backoff" : "delayed",
                     fmt::format("{} ends {}", retry ? "the back-off before its next attempt" : "its delay",
                                 when(*at, facts.now)),
                     "wait: delayed_promoter makes it claimable then"});
}

// What is to go on with an attempt, but has none at all: index_repair has nothing to point it to.
bool lacks_attempt(const Facts& facts) {
  return facts.core->attempt_state == "attempt_interrupted" && facts.attempts.empty();
}

// FlowFabric's claim and claim_execution want what is eligible_now, and issue_grant_and_claim does not know the attempt_state
// `pending`.
std::string calls_for_promised(const Core& core) {
  if (core.attempt_state == "pending") return {};
  return core.public_state == "resumable" ? "claim_resumed_execution or issue_grant_and_claim"
                                          : "issue_grant_and_claim";
}

void add_pending_claim(const Facts& facts, std::vector<Finding>& found) {
  const std::string calls = calls_for_promised(*facts.core);
  const Inspection* returner = facts.inspection("grant_expiry");
  const auto at = returner == nullptr || returner->filtered ? std::nullopt : returner->takeable_at();
  if (const Grant* grant = facts.grant("claim")) {
    found.push_back(
        {"claim_promised",
         fmt::format("it is promised to {}, which has not claimed it yet, and claim_execution, "
                     "for which the grant is, refuses it: the grant {}",
                     grant->worker, end_of(*grant, facts.now)),
         (calls.empty() ? std::string() : "claim it by FlowFabric's " + calls + ", or ") +
             (grant->is_endless() ? "once the grant is deleted, which never ends, grant_expiry returns it"
                                  : "wait: grant_expiry returns it when the grant has ended") +
             ", and FlowFabric's claim takes it from there"});
    return;
  }
  const auto last = std::find_if(facts.grants.begin(), facts.grants.end(),
                                 [](const Grant& grant) { return grant.kind == "claim"; });
  const std::string grant = last == facts.grants.end() ? "there is no grant"
                                                       : "the grant of " + last->worker + " ended " +
                                                             when(last->expires_at, facts.now);
  const std::string abandoned = "it is pending_claim, and " + grant;
  if (!at)
    found.push_back({"claim_abandoned",
                     abandoned + ": " + (calls.empty() ? "no call" : "only FlowFabric's " + calls) +
                         " takes it from there",
                     update_core(facts.id, kClaimable)});
  else if (returner->due())
    found.push_back(
        {"claim_abandoned", abandoned + ": grant_expiry returns it", tick("grant_expiry", facts.id)});
  else
    found.push_back({"claim_abandoned", abandoned + ": grant_expiry returns it " + when(*at, facts.now),
                     last == facts.grants.end() ? "wait: the grant that it remembers ends then"
                                                : "wait for the end of the grace, or set a shorter one"});
}

// The newest moment that the rows tell of.
UnixMillis last_sign(const Facts& facts) {
  UnixMillis last = facts.core->created_at;
  const auto take = [&](const std::optional<UnixMillis>& at) {
    if (at && *at > last && *at <= facts.now) last = *at;
  };
  take(facts.core->last_mutation_at);
  for (const Attempt& attempt : facts.attempts) {
    take(attempt.started_at);
    take(attempt.terminal_at);
  }
  if (!facts.lease_events.empty()) take(facts.lease_events.front().at);
  return last;
}

// What was interrupted is taken up again by some calls only. With an attempt that is not there `claim` begins another.
std::string calls_that_take_it(const Core& core, bool is_there) {
  if (core.attempt_state != "attempt_interrupted") return {};
  if (!is_there) return "by FlowFabric's claim";
  return std::string("by FlowFabric's claim") +
         (core.public_state == "resumable" ? ", claim_resumed_execution" : "") + " or issue_grant_and_claim";
}

// FlowFabric's claim gives up at the first of a lane that its worker may not take, whatever stands behind it.
bool add_first(const Facts& facts, std::vector<Finding>& found) {
  const auto& first = facts.first;
  if (!first || first->id == facts.id || first->capabilities.empty() || first->capable > 0) return false;
  found.push_back(
      {"behind_another",
       fmt::format("{} stands in front of it in lane {} and wants capabilities {}, which no "
                   "registered worker of that lane has: FlowFabric's claim looks at no other, "
                   "and gives up",
                   to_string(first->id), facts.core->lane, first->capabilities),
       explain(first->id) + " # start a worker with those capabilities, or cancel that one" +
           (facts.core->attempt_state == "pending" ? "" : ", or claim this one by issue_grant_and_claim")});
  return true;
}

void add_claimable(const Facts& facts, bool at_fault, std::vector<Finding>& found) {
  const Core& core = *facts.core;
  const bool is_astray = due_inspection(facts, "index_repair") != nullptr;
  if (is_astray)
    found.push_back({"attempt_missing",
                     "it is to go on with an attempt that is not there, so claim_resumed_execution and "
                     "issue_grant_and_claim refuse it: index_repair names the one that is",
                     tick("index_repair", facts.id)});
  if (lacks_attempt(facts)) {
    const audit::Check& check = audit::check_named("interrupted_without_attempt");
    found.push_back({check.name, std::string(check.meaning), remedy(check.name, facts.id)});
  }
  if (at_fault) return;
  const Workers& workers = facts.workers;
  const std::string wants =
      "lane " + core.lane + (core.capabilities.empty() ? "" : ", capabilities " + core.capabilities);
  const std::string calls = calls_that_take_it(core, !is_astray && !lacks_attempt(facts));
  const bool is_behind = add_first(facts, found);
  const std::string may = calls.empty()
                              ? std::string("any worker may claim it") + (is_behind ? " after that one" : "")
                              : "a worker may take it up again " + calls +
                                    ", but not by claim_execution, which is what a scheduler's "
                                    "grant is for";
  found.push_back({core.public_state == "resumable" ? "resumable" : "unclaimed",
                   fmt::format("{} ({}), but none does; the last that is known of it was {}. Registered and "
                               "alive: {}, for its lane: {}, and with its capabilities: {}",
                               may, wants, when(last_sign(facts), facts.now), workers.alive, workers.for_lane,
                               workers.capable),
                   workers.alive > 0 && workers.capable == 0
                       ? "start a worker for its lane and capabilities"
                       : "see whether workers run, have room and ask for this lane" +
                             (calls.empty() ? calls : ", " + calls) + " (not all of them register)"});
}

void add_runnable(const Facts& facts, bool at_fault, std::vector<Finding>& found) {
  const std::string& eligibility = facts.core->eligibility_state;
  if (eligibility == "not_eligible_until_time") return add_delayed(facts, found);
  if (eligibility == "pending_claim") return add_pending_claim(facts, found);
  if (eligibility == "blocked_by_dependencies") return add_waiting(facts, found);
  if (eligibility == "eligible_now") return add_claimable(facts, at_fault, found);
  found.push_back({"not_eligible",
                   fmt::format("eligibility_state is {}{}, which no reconciler changes", eligibility,
                               facts.core->blocking_reason ? " (" + *facts.core->blocking_reason + ")" : ""),
                   update_core(facts.id, kClaimable)});
}

void add_submitted(const Facts& facts, bool at_fault, std::vector<Finding>& found) {
  if (facts.fan_in && !facts.fan_in->satisfied()) return add_waiting(facts, found);
  if (add_uncounted_edge(facts, found) || at_fault) return;
  found.push_back({"not_scheduled", "it is submitted, and no scheduler has made it runnable",
                   update_core(facts.id,
                               "lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', "
                               "attempt_state = 'pending_first_attempt'")});
}

// What stands there of a failure is of whatever attempt had one last, and FlowFabric's replay leaves it.
std::string how_it_ended(const Facts& facts) {
  const Core& core = *facts.core;
  const std::string state = facts.state();
  const std::string reason = core.cancellation_reason.value_or("");
  const bool by_cancel = state == "cancelled";
  std::string text = "it has ended as " + state;
  if (core.terminal_at) text += " " + when(*core.terminal_at, facts.now);
  if (!by_cancel && core.was_cancelled()) text += ", after a cancel";
  if (!reason.empty())
    text += (by_cancel ? ", cancelled: " : core.was_cancelled() ? ": " : ", reason: ") + reason;
  if (core.was_cancelled()) text += ", by " + *core.cancelled_by;
  const bool has_failed =
      state == "failed" || state == "expired" || reason.starts_with("suspension_timeout_");
  if (has_failed && core.last_failure) text += ", last failure: " + *core.last_failure;
  return text;
}

// One that its worker may renew, and complete the execution by.
const Attempt* still_leased(const Facts& facts) {
  const auto found = std::ranges::find_if(facts.attempts, [&](const Attempt& attempt) {
    return attempt.lease_expires_at && *attempt.lease_expires_at >= facts.now;
  });
  return found == facts.attempts.end() ? nullptr : &*found;
}

// That it is deleted some day moves nothing.
bool is_anything_left(const Inspection& inspection) {
  if (inspection.rows.empty() || inspection.filtered) return false;
  return inspection.due() || (inspection.enabled && inspection.reconciler != "execution_retention");
}

std::string after_its_end(const Facts& facts, const Attempt* leased, bool at_fault) {
  const bool any_left = at_fault || std::ranges::any_of(facts.inspections, is_anything_left);
  return std::string(leased != nullptr ? "its worker may still end it otherwise"
                     : any_left        ? "it has ended, but for what the other lines say"
                                       : "nothing moves it any more") +
         (facts.core->is("terminal")
              ? "; FlowFabric's replay begins it anew"
              : "; FlowFabric replays only what is terminal, and not what is cancelled");
}

void add_ended(const Facts& facts, bool at_fault, std::vector<Finding>& found) {
  const Attempt* leased = still_leased(facts);
  found.push_back({"ended", how_it_ended(facts), after_its_end(facts, leased, at_fault)});
  if (due_inspection(facts, "suspension_timeout") != nullptr)
    found.push_back({"suspension_left",
                     "its suspension or waitpoints are left: a late signal would begin it anew",
                     tick("suspension_timeout", facts.id)});
  if (due_inspection(facts, "lease_expiry") != nullptr)
    found.push_back({"lease_left", "a lease of its is left", tick("lease_expiry", facts.id)});
  else if (leased != nullptr)
    found.push_back(
        {"lease_left",
         fmt::format("a lease of its is left to {} and ends {}: until then that worker may renew it, and "
                     "complete or fail the execution",
                     leased->worker.value_or("a worker"), when(*leased->lease_expires_at, facts.now)),
         "wait: a lease that has lapsed is taken by lease_expiry"});
}

// No setting enforces one that passed before a replay.
Finding ignored_deadline(const Facts& facts) {
  const Core& core = *facts.core;
  const std::string deadline =
      fmt::format("its deadline ({}) is not enforced: ", when(*core.deadline_at, facts.now));
  if (facts.deadline_is_of_former_run())
    return {"deadline_ignored", deadline + "it is of the run before it was replayed",
            update_core(facts.id, "deadline_at_ms = NULL") +
                " -- or the moment of another deadline, for this run"};
  return {"deadline_ignored", deadline + "it is not active, and include_waiting is off",
          std::string("reconcilers.execution_deadline.include_waiting ends what waits, too") +
              (core.is_replayed ? ", but for a deadline that passed before the replay" : "")};
}

void add_deadline(const Facts& facts, std::vector<Finding>& found) {
  const Core& core = *facts.core;
  const Inspection* inspection = facts.inspection("execution_deadline");
  if (!core.deadline_at || core.ended() || core.delayed() || inspection == nullptr) return;
  if (inspection->rows.empty())
    found.push_back(ignored_deadline(facts));
  else if (inspection->due())
    found.push_back({"deadline_passed", "its deadline was " + when(*core.deadline_at, facts.now),
                     tick("execution_deadline", facts.id)});
  else
    found.push_back({"deadline_ahead", "its deadline is " + when(*core.deadline_at, facts.now),
                     "execution_deadline ends it then"});
}

// Of one whose flow is cancelled nothing is said that would make it begin.
void add_own_state(const Facts& facts, std::vector<Finding>& found) {
  const Core& core = *facts.core;
  const Inspection* backlog = facts.inspection("cancel_backlog");
  if (facts.flow_cancelled && !core.ended() && (backlog == nullptr || backlog->rows.empty())) {
    found.push_back({"flow_cancelled", std::string(audit::check_named("member_of_cancelled").meaning),
                     "cancel it: FlowFabric's cancel_execution"});
    const bool is_held = core.is("active")
                             ? facts.current_attempt() && facts.current_attempt()->lease_expires_at
                             : core.is("suspended") && facts.suspension;
    if (!is_held) return;
  }
  const bool at_fault = (core.ended() || !facts.flow_cancelled) && add_faults(facts, found);
  if (core.ended())
    add_ended(facts, at_fault, found);
  else if (core.is("active"))
    add_active(facts, at_fault, found);
  else if (core.is("suspended"))
    add_suspended(facts, found);
  else if (core.is("blocked"))
    add_waiting(facts, found);
  else if (core.is("submitted"))
    add_submitted(facts, at_fault, found);
  else if (core.is("runnable"))
    add_runnable(facts, at_fault, found);
  else
    found.push_back({"phase_unknown", std::string(audit::check_named("unknown_phase").meaning),
                     remedy("unknown_phase", facts.id)});
}

}  // namespace

const Inspection* due_inspection(const Facts& facts, std::string_view reconciler) {
  const Inspection* inspection = facts.inspection(reconciler);
  return inspection != nullptr && inspection->moves() ? inspection : nullptr;
}

void add_states(const Facts& facts, std::vector<Finding>& found) {
  add_own_state(facts, found);
  add_waitpoints(facts, found);
  add_flow(facts, found);
  add_deadline(facts, found);
}

}  // namespace ff::explain
