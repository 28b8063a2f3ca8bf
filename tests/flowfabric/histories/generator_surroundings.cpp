// What a history has besides executions: flows with their edges, budgets, quotas, and the register of workers.
#include "histories/generator.hpp"

namespace ff::test {
namespace {

const std::vector<std::string> kFlowPolicies{"flow_only", "cancel_all", "cancel_pending"};
/// Their names put them into the partitions of histories.
const std::vector<std::string> kWorkers{"worker-313", "worker-319", "worker-365", "worker-510"};

}  // namespace

void Generator::create_flow() {
  const std::string flow = new_name('f');
  const int partition = dice_.below(4);
  take({{"do", "create_flow"}, {"as", flow}, {"partition", partition}});
  std::vector<std::string> members;
  for (int i = 2 + dice_.below(4); i > 0; --i) members.push_back(create_member(flow, partition));
  connect(flow, members);
  for (const std::string& member : members)
    if (dice_.chance(70))
      take({{"do", "make_runnable"}, {"execution", member}, {"attempt_state", "pending_first_attempt"}});
}

// A member lies in its flow's partition.
std::string Generator::create_member(const std::string& flow, int partition) {
  const std::string member = new_name('e');
  const bool at_once = dice_.chance(80);
  Step step{{"do", "create_execution"}, {"as", member}};
  if (at_once)
    step["flow"] = flow;
  else
    step["partition"] = partition;
  if (dice_.chance(50)) step["max_retries"] = dice_.below(3);
  take(step);
  if (!at_once) take({{"do", "add_execution_to_flow"}, {"flow", flow}, {"execution", member}});
  return member;
}

// The last waits for the others, and now and then one of them for the first.
void Generator::connect(const std::string& flow, const std::vector<std::string>& members) {
  const std::string& last = members.back();
  const std::string kind =
      dice_.one_of(std::vector<std::string>{"", "all_of", "any_of", "any_of", "quorum", "quorum"});
  if (!kind.empty()) {
    Step policy{{"do", "set_edge_policy"},
                {"flow", flow},
                {"downstream", last},
                {"policy", kind},
                {"on_satisfied", dice_.chance(50) ? "let_run" : "cancel_remaining"}};
    if (kind == "quorum") policy["k"] = 1 + dice_.below(static_cast<int>(members.size()) - 1);
    take(policy);
  }
  const auto edge = [&](const std::string& upstream, const std::string& downstream) {
    take({{"do", "stage_edge"},
          {"as", new_name('d')},
          {"flow", flow},
          {"upstream", upstream},
          {"downstream", downstream},
          {"apply", !dice_.chance(10)}});
  };
  for (std::size_t i = 0; i + 1 < members.size(); ++i) {
    edge(members[i], last);
    if (dice_.chance(10)) edge(members[i], last);
    if (i > 0 && dice_.chance(25)) edge(members[0], members[i]);
  }
}

// Later than its flow: applied at last, or staged at all, whatever has become of the upstream.
void Generator::add_edge() {
  const std::vector<std::string> staged = theatre_.staged_edges();
  if (!staged.empty() && dice_.chance(70))
    return take({{"do", "apply_edge"}, {"edge", dice_.one_of(staged)}});
  if (theatre_.flows().empty() || !dice_.chance(25)) return;
  const std::string flow = some_flow();
  const std::vector<std::string> members = theatre_.members_of(flow);
  if (members.size() < 2) return;
  take({{"do", "stage_edge"},
        {"as", new_name('d')},
        {"flow", flow},
        {"upstream", members.front()},
        {"downstream", members.back()},
        {"apply", dice_.chance(60)}});
}

std::string Generator::some_flow() {
  std::vector<std::string> names;
  for (const auto& [name, id] : theatre_.flows()) names.push_back(name);
  return dice_.one_of(names);
}

void Generator::cancel_flow() {
  if (theatre_.flows().empty()) return;
  const std::string flow = some_flow();
  const bool header = dice_.chance(50);
  take({{"do", header ? "cancel_flow_header" : "cancel_flow"},
        {"flow", flow},
        {"policy", dice_.one_of(kFlowPolicies)}});
  if (!header) return;
  for (const std::string& member : theatre_.members_of(flow))
    if (dice_.chance(50)) take({{"do", "ack_cancel_member"}, {"flow", flow}, {"execution", member}});
}

std::string Generator::some_budget() {
  const auto& budgets = theatre_.budgets();
  if (budgets.empty() || (budgets.size() < 4 && dice_.chance(30))) {
    const std::string name = new_name('b');
    take({{"do", "create_budget"},
          {"as", name},
          {"partition", dice_.below(4)},
          {"hard", {{"tokens", 1'000'000}}},
          {"reset_interval_ms", dice_.chance(40) ? 0 : and_a_half(4 + dice_.below(6))}});
    return name;
  }
  return dice_.one_of(budgets);
}

void Generator::spend(const Lease& lease) {
  const std::string budget = some_budget();
  const Json tokens{{"tokens", 1 + dice_.below(50)}};
  const int roll = dice_.below(100);
  if (roll < 50)
    take({{"do", "record_spend"}, {"budget", budget}, {"execution", lease.execution}, {"deltas", tokens}});
  else if (roll < 70)
    take({{"do", "release_budget"}, {"budget", budget}, {"execution", lease.execution}});
  else if (roll < 85)
    take({{"do", "report_usage"}, {"budget", budget}, {"handle", lease.handle}, {"deltas", tokens}});
  else if (roll < 95)
    take({{"do", "report_usage_admin"}, {"budget", budget}, {"deltas", tokens}});
  else
    take({{"do", "reset_budget"}, {"budget", budget}});
}

std::string Generator::some_quota() {
  const auto& quotas = theatre_.quotas();
  if (quotas.empty() || (quotas.size() < 3 && dice_.chance(30))) {
    const std::string name = new_name('q');
    take({{"do", "create_quota_policy"}, {"as", name}, {"partition", dice_.below(4)}, {"cap", 3}});
    return name;
  }
  return dice_.one_of(quotas);
}

// A cap of 0 is not counted; who has been admitted seldom gives it back, as FlowFabric has it.
void Generator::use_quota(const std::string& execution) {
  const std::string quota = some_quota();
  if (dice_.chance(20))
    return take({{"do", "release_admission"}, {"quota", quota}, {"execution", execution}});
  take({{"do", "check_admission"},
        {"quota", quota},
        {"execution", execution},
        {"window_seconds", 60 * (1 + dice_.below(5))},
        {"cap", dice_.chance(20) ? 0 : 3}});
}

void Generator::register_workers() {
  const std::string instance = dice_.one_of(kWorkers);
  const int roll = dice_.below(100);
  if (roll < 50)
    take({{"do", "register_worker"},
          {"worker", "w"},
          {"instance", instance},
          {"ttl_ms", and_a_half(1 + dice_.below(3))}});
  else if (roll < 90)
    take({{"do", "heartbeat_worker"}, {"instance", instance}});
  else
    take({{"do", "mark_worker_dead"}, {"instance", instance}});
}

}  // namespace ff::test
