#include "histories/generator.hpp"

#include <algorithm>

#include "histories/rescuer.hpp"

namespace ff::test {
namespace {

const std::vector<std::string> kBehaviors{"fail", "cancel", "expire", "escalate",
                                          "auto_resume_with_timeout_signal"};
const std::vector<std::string> kWrittenTables{"ff_exec_core", "ff_attempt", "ff_lease_event",
                                              "ff_completion_event"};
/// The first of which is the more frequent.
const std::vector<std::string> kAttemptStates{"pending_first_attempt", "pending_first_attempt", "pending"};

}  // namespace

History Generator::play() {
  for (int i = 0; i < options_.steps; ++i) next();
  return std::move(history_);
}

void Generator::take(const Step& step) {
  history_.push_back(step);
  theatre_.perform(step);
}

std::string Generator::new_name(char kind) {
  return kind + options_.prefix + std::to_string(++named_[kind]);
}

void Generator::next() {
  const auto& executions = theatre_.names();
  if (executions.empty() || (static_cast<int>(executions.size()) < options_.executions && dice_.chance(12)))
    return create();
  const int roll = dice_.below(100);
  if (roll < 5) return pass_time();
  if (roll < 14) return rescue();
  if (roll < 16) return register_workers();
  if (roll < 18) return add_edge();
  std::vector<std::string> all;
  for (const auto& [name, id] : executions) all.push_back(name);
  const std::string execution = dice_.one_of(all);
  if (roll < 20) return use_quota(execution);
  live(execution);
}

void Generator::create() {
  if (dice_.chance(10)) return create_flow();
  create_alone();
}

void Generator::create_alone() {
  Step step{{"do", "create_execution"}, {"as", new_name('e')}, {"partition", dice_.below(4)}};
  if (dice_.chance(60)) step["max_retries"] = dice_.below(4);
  if (dice_.chance(25)) step["deadline_in_ms"] = and_a_half(3 + dice_.below(20));
  if (dice_.chance(80)) step["runnable"] = dice_.one_of(kAttemptStates);
  take(step);
}

void Generator::pass_time() {
  const int roll = dice_.below(10);
  take({{"do", "age"}, {"ms", units(roll < 6 ? 1 : roll < 9 ? 2 + dice_.below(3) : 12)}});
}

// Whoever was stopped midway is started again, now and then at once.
void Generator::rescue() {
  const std::string reconciler = dice_.one_of(rescuing_reconcilers());
  const int roll = dice_.below(100);
  Step step{{"do", roll < 8 ? "kill" : roll < 18 ? "cut" : "tick"}, {"reconciler", reconciler}};
  if (roll < 18) step["table"] = dice_.one_of(kWrittenTables);
  if (roll < 8) step.update({{"nth", 1 + dice_.below(3)}, {"batch", 1 + dice_.below(3)}});
  take(step);
  if (roll < 18 && dice_.chance(50)) take({{"do", "tick"}, {"reconciler", reconciler}});
}

const Lease* Generator::lease_of(const std::string& execution) const {
  const auto& all = theatre_.leases();
  const auto found = std::find_if(all.rbegin(), all.rend(),
                                  [&](const Lease& lease) { return lease.execution == execution; });
  return found == all.rend() ? nullptr : &*found;
}

void Generator::live(const std::string& execution) {
  const ExecutionRows rows = theatre_.rows_of(execution);
  const std::string phase = rows.text("lifecycle_phase");
  if (dice_.chance(6)) return haunt(execution);
  if (dice_.chance(5)) return operate(execution);
  if (dice_.chance(2)) return signal(execution);
  if (phase == "submitted") return submit(execution);
  if (phase == "runnable") return begin(execution, rows);
  if (phase == "active") return work(execution, rows);
  if (phase == "suspended") return wake(execution, rows);
  if (rows.ended() && dice_.chance(5)) take({{"do", "replay_execution"}, {"execution", execution}});
}

void Generator::submit(const std::string& execution) {
  take({{"do", "make_runnable"}, {"execution", execution}, {"attempt_state", dice_.one_of(kAttemptStates)}});
}

Step Generator::claim_step(const char* what, const std::string& execution) {
  Step step{{"do", what},
            {"execution", execution},
            {"as", new_name('h')},
            {"worker", "w"},
            {"ttl_ms", and_a_half(1 + dice_.below(4))}};
  if (options_.behind && dice_.chance(40)) step["behind"] = true;
  return step;
}

// Somebody wants to work on it, in one of the ways that its state allows.
void Generator::begin(const std::string& execution, const ExecutionRows& rows) {
  const std::string eligibility = rows.text("eligibility_state");
  if (eligibility == "pending_claim") return take(claim_step("issue_grant_and_claim", execution));
  if (eligibility != "eligible_now") return;
  const std::string attempt = rows.text("attempt_state");
  if (rows.text("public_state") == "resumable" && dice_.chance(70))
    return take(claim_step("claim_resumed_execution", execution));
  const int roll = dice_.below(100);
  if (roll < 40) return take(claim_step("claim", execution));
  if (roll < 70 && attempt != "attempt_interrupted") {
    take({{"do", "write_grant"}, {"execution", execution}, {"worker", "w"}, {"grant_ttl_ms", and_a_half(1)}});
    Step step = claim_step("claim_execution", execution);
    if (dice_.chance(15)) step["deadline_in_ms"] = and_a_half(2 + dice_.below(10));
    return take(step);
  }
  if (attempt == "pending") return;
  if (roll < 85) {
    take({{"do", "claim_for_worker"},
          {"execution", execution},
          {"worker", "w"},
          {"grant_ttl_ms", and_a_half(1)}});
    if (dice_.chance(20)) return;
  }
  take(claim_step("issue_grant_and_claim", execution));
}

void Generator::work(const std::string& execution, const ExecutionRows& rows) {
  if (dice_.chance(8)) return reclaim(execution);
  const Lease* lease = lease_of(execution);
  if (lease == nullptr || lease->given_up || dice_.chance(25)) return;  // silence
  // Its children may still be at work, or have ended long ago.
  if (rows.group.is_object() && dice_.chance(15))
    return take({{"do", "wait_children"}, {"handle", lease->handle}});
  work_with(*lease, rows);
}

void Generator::work_with(const Lease& lease, const ExecutionRows& rows) {
  const std::string handle = lease.handle;
  const int roll = dice_.below(100);
  if (roll < 22)
    return take({{"do", dice_.chance(70) || lease.behind ? "renew" : "renew_lease"},
                 {"handle", handle},
                 {"ttl_ms", lease.ttl_ms}});
  if (roll < 40)
    return take({{"do", dice_.chance(60) ? "complete" : "complete_execution"}, {"handle", handle}});
  if (roll < 48)
    return take(
        {{"do", "fail"}, {"handle", handle}, {"class", dice_.chance(70) ? "transient" : "permanent"}});
  if (roll < 58)
    return take({{"do", "fail_execution"},
                 {"handle", handle},
                 {"max_retries", dice_.below(4)},
                 {"backoff_ms", and_a_half(dice_.below(6))}});
  if (roll < 68)
    return take({{"do", "delay"}, {"handle", handle}, {"delay_in_ms", and_a_half(dice_.below(6))}});
  if (roll < 74 && rows.core.at("flow_id").is_string())
    return take({{"do", "wait_children"}, {"handle", handle}});
  if (roll < 78) return spend(lease);
  if (roll < 95) return suspend(lease);
  if (roll < 97) return take({{"do", "progress"}, {"handle", handle}, {"percent", dice_.below(100)}});
  if (roll < 98) return take({{"do", "observe_signals"}, {"handle", handle}});
  take({{"do", dice_.chance(50) ? "cancel" : "cancel_execution"}, {"handle", handle}});
}

// At a fresh waitpoint, at two that both want a signal, or at one that was made before.
void Generator::suspend(const Lease& lease) {
  Step step{{"do", "suspend"}, {"handle", lease.handle}, {"names", {new_name('w')}}, {"key", "wait"}};
  if (dice_.chance(15)) {
    step["waitpoints"] = {{{"key", "wait"}}, {{"key", "other"}}};
    step["names"].push_back(new_name('w'));
  } else if (dice_.chance(30)) {
    const std::string pending = new_name('w');
    take({{"do", "create_waitpoint"},
          {"handle", lease.handle},
          {"as", pending},
          {"key", "wait"},
          {"expires_in_ms", and_a_half(dice_.below(4))}});
    if (dice_.chance(30)) return;
    step["pending"] = pending;
    step["names"] = {pending};
  }
  if (dice_.chance(20)) step["typed"] = true;
  if (dice_.chance(70)) {
    step["timeout_in_ms"] = and_a_half(dice_.below(8));
    step["timeout_behavior"] = dice_.chance(40) ? kBehaviors.back() : dice_.one_of(kBehaviors);
  }
  take(step);
}

// To any waitpoint that it ever had: in time, late, or far too late.
void Generator::signal(const std::string& execution) {
  const std::vector<std::string> waitpoints = theatre_.waitpoints_of(execution);
  if (waitpoints.empty()) return;
  Step step{{"do", dice_.chance(80) ? "deliver_signal" : "deliver_approval_signal"},
            {"execution", execution},
            {"waitpoint", dice_.one_of(waitpoints)},
            {"signal", "go"}};
  if (step.at("do") == "deliver_approval_signal") step["suffix"] = new_name('s');
  take(step);
}

void Generator::wake(const std::string& execution, const ExecutionRows& rows) {
  const int roll = dice_.below(100);
  if (roll < 45 && !rows.waitpoints.empty()) return signal(execution);
  if (roll < 60)
    take({{"do", "resume_execution"},
          {"execution", execution},
          {"resume_delay_ms", dice_.chance(50) ? 0 : and_a_half(1 + dice_.below(4))}});
}

void Generator::operate(const std::string& execution) {
  const int roll = dice_.below(100);
  if (roll < 20)
    return take({{"do", "change_priority"}, {"execution", execution}, {"priority", dice_.below(100)}});
  if (roll < 40) return take({{"do", "revoke_lease"}, {"execution", execution}, {"instance", "w"}});
  if (roll < 70) return take({{"do", "cancel_execution"}, {"execution", execution}});
  if (dice_.chance(40)) cancel_flow();
}

void Generator::reclaim(const std::string& execution) {
  take({{"do", "issue_reclaim_grant"},
        {"execution", execution},
        {"worker", "w"},
        {"grant_ttl_ms", and_a_half(1)}});
  if (dice_.chance(60)) take(claim_step("reclaim_execution", execution));
}

// A worker that was thought dead.
void Generator::haunt(const std::string& execution) {
  std::vector<std::string> handles;
  for (const Lease& lease : theatre_.leases())
    if (lease.execution == execution) handles.push_back(lease.handle);
  if (handles.empty()) return;
  const std::string handle = dice_.one_of(handles);
  const int roll = dice_.below(4);
  if (roll == 0) return take({{"do", "renew"}, {"handle", handle}});
  if (roll == 1) return take({{"do", "complete"}, {"handle", handle}});
  if (roll == 2) return take({{"do", "complete_execution"}, {"handle", handle}});
  take({{"do", "fail_execution"}, {"handle", handle}, {"max_retries", 0}});
}

}  // namespace ff::test
