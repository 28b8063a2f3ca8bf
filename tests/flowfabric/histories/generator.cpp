#include "histories/generator.hpp"

#include <algorithm>

#include "histories/rescuer.hpp"

namespace ff::test {
namespace {

const std::vector<std::string> kBehaviors{"fail", "cancel", "expire", "escalate",
                                          "auto_resume_with_timeout_signal"};
const std::vector<std::string> kWrittenTables{"ff_exec_core", "ff_attempt", "ff_lease_event",
                                              "ff_completion_event"};

}  // namespace

std::uint64_t Dice::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

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
  if (theatre_.names().empty() ||
      (static_cast<int>(theatre_.names().size()) < options_.executions && dice_.chance(12)))
    return create();
  const int roll = dice_.below(100);
  if (roll < 5) return pass_time();
  if (roll < 14) return rescue();
  std::vector<std::string> all;
  for (const auto& [name, id] : theatre_.names()) all.push_back(name);
  live(dice_.one_of(all));
}

void Generator::create() {
  if (dice_.chance(10)) return create_flow();
  create_alone();
}

void Generator::create_alone() {
  Step step{{"do", "create_execution"}, {"as", new_name('e')}, {"partition", dice_.below(4)}};
  if (dice_.chance(60)) step["max_retries"] = dice_.below(4);
  if (dice_.chance(25)) step["deadline_in_ms"] = and_a_half(3 + dice_.below(20));
  if (dice_.chance(80)) step["runnable"] = dice_.chance(60) ? "pending_first_attempt" : "pending";
  take(step);
}

void Generator::create_flow() {
  const std::string flow = new_name('f');
  take({{"do", "create_flow"}, {"as", flow}, {"partition", dice_.below(4)}});
  std::vector<std::string> members;
  for (int i = 2 + dice_.below(4); i > 0; --i) {
    members.push_back(new_name('e'));
    Step step{{"do", "create_execution"}, {"as", members.back()}, {"flow", flow}};
    if (dice_.chance(50)) step["max_retries"] = dice_.below(3);
    take(step);
  }
  connect(flow, members);
  for (const std::string& member : members)
    if (dice_.chance(70))
      take({{"do", "make_runnable"}, {"execution", member}, {"attempt_state", "pending_first_attempt"}});
}

// The last waits for the others, and now and then one of them for the first.
void Generator::connect(const std::string& flow, const std::vector<std::string>& members) {
  const std::string& last = members.back();
  const int kind = dice_.below(3);
  if (kind > 0) {
    Step policy{{"do", "set_edge_policy"},
                {"flow", flow},
                {"downstream", last},
                {"policy", kind == 1 ? "any_of" : "quorum"},
                {"on_satisfied", dice_.chance(50) ? "let_run" : "cancel_remaining"}};
    if (kind == 2) policy["k"] = 1 + dice_.below(static_cast<int>(members.size()) - 1);
    take(policy);
  }
  const auto edge = [&](const std::string& upstream, const std::string& downstream) {
    take({{"do", "stage_edge"},
          {"flow", flow},
          {"upstream", upstream},
          {"downstream", downstream},
          {"apply", true}});
  };
  for (std::size_t i = 0; i + 1 < members.size(); ++i) {
    edge(members[i], last);
    if (dice_.chance(10)) edge(members[i], last);
    if (i > 0 && dice_.chance(25)) edge(members[0], members[i]);
  }
}

void Generator::pass_time() {
  const int roll = dice_.below(10);
  take({{"do", "age"}, {"ms", units(roll < 6 ? 1 : roll < 9 ? 2 + dice_.below(3) : 12)}});
}

void Generator::rescue() {
  Step step{{"do", "tick"}, {"reconciler", dice_.one_of(rescuing_reconcilers())}};
  if (options_.kills && dice_.chance(8)) step["cut"] = dice_.one_of(kWrittenTables);
  take(step);
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
  if (dice_.chance(5)) return operate(execution, rows);
  if (phase == "submitted") return submit(execution);
  if (phase == "runnable") return begin(execution, rows);
  if (phase == "active") return work(execution, rows);
  if (phase == "suspended") return wake(execution, rows);
  if (rows.ended() && dice_.chance(5)) take({{"do", "replay_execution"}, {"execution", execution}});
}

void Generator::submit(const std::string& execution) {
  take({{"do", "make_runnable"},
        {"execution", execution},
        {"attempt_state", dice_.chance(60) ? "pending_first_attempt" : "pending"}});
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
  if (roll < 78) return spend(lease.execution);
  if (roll < 98) return suspend(lease);
  take({{"do", "cancel"}, {"handle", handle}});
}

void Generator::suspend(const Lease& lease) {
  Step step{{"do", "suspend"}, {"handle", lease.handle}, {"names", {new_name('w')}}, {"key", "wait"}};
  if (dice_.chance(30)) {
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
  if (dice_.chance(70)) {
    step["timeout_in_ms"] = and_a_half(dice_.below(8));
    step["timeout_behavior"] = dice_.chance(40) ? kBehaviors.back() : dice_.one_of(kBehaviors);
  }
  take(step);
}

void Generator::wake(const std::string& execution, const ExecutionRows& rows) {
  const int roll = dice_.below(100);
  if (roll < 45 && !rows.waitpoints.empty()) {
    const std::string waitpoint =
        theatre_.waitpoint_name(dice_.one_of(rows.waitpoints).at("waitpoint_id").get<std::string>());
    if (!waitpoint.empty())
      take({{"do", "deliver_signal"}, {"execution", execution}, {"waitpoint", waitpoint}, {"signal", "go"}});
    return;
  }
  if (roll < 60)
    take({{"do", "resume_execution"},
          {"execution", execution},
          {"resume_delay_ms", dice_.chance(50) ? 0 : and_a_half(1 + dice_.below(4))}});
}

void Generator::operate(const std::string& execution, const ExecutionRows& rows) {
  const int roll = dice_.below(100);
  if (roll < 20)
    return take({{"do", "change_priority"}, {"execution", execution}, {"priority", dice_.below(100)}});
  if (roll < 40) return take({{"do", "revoke_lease"}, {"execution", execution}, {"instance", "w"}});
  if (roll < 70) return take({{"do", "cancel_execution"}, {"execution", execution}});
  static_cast<void>(rows);
  if (theatre_.flows().empty() || !dice_.chance(40)) return;
  std::vector<std::string> flows;
  for (const auto& [name, id] : theatre_.flows()) flows.push_back(name);
  take({{"do", dice_.chance(50) ? "cancel_flow" : "cancel_flow_header"},
        {"flow", dice_.one_of(flows)},
        {"policy", dice_.one_of(std::vector<std::string>{"flow_only", "cancel_all", "cancel_pending"})}});
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

void Generator::spend(const std::string& execution) {
  if (theatre_.budgets().empty() || (theatre_.budgets().size() < 3 && dice_.chance(30)))
    take({{"do", "create_budget"},
          {"as", new_name('b')},
          {"partition", dice_.below(4)},
          {"hard", {{"tokens", 1'000'000}}},
          {"reset_interval_ms", and_a_half(4 + dice_.below(6))}});
  if (theatre_.budgets().empty()) return;
  const std::string budget = dice_.one_of(theatre_.budgets());
  if (dice_.chance(70))
    take({{"do", "record_spend"},
          {"budget", budget},
          {"execution", execution},
          {"deltas", {{"tokens", 1 + dice_.below(50)}}}});
  else
    take({{"do", "release_budget"}, {"budget", budget}, {"execution", execution}});
}

}  // namespace ff::test
