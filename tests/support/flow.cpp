#include "support/flow.hpp"

#include <algorithm>

namespace ff::test {
namespace {

std::string word(FlowPlan::Kind kind) {
  return kind == FlowPlan::Kind::any_of ? "any_of" : kind == FlowPlan::Kind::quorum ? "quorum" : "all_of";
}

std::size_t below(std::mt19937& generator, std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(generator);
}

// `number` different ones.
std::vector<std::size_t> some_of(std::mt19937& generator, const std::vector<std::size_t>& all,
                                 std::size_t number) {
  std::vector<std::size_t> chosen;
  std::sample(all.begin(), all.end(), std::back_inserter(chosen), number, generator);
  return chosen;
}

// Gives an execution one of the three policies over ordinary executions of the level before.
void plan_fan_in(std::mt19937& generator, FlowPlan::Execution& execution,
                 const std::vector<std::size_t>& before) {
  using Kind = FlowPlan::Kind;
  const std::size_t draw = below(generator, 8);
  execution.kind = draw < 2 ? Kind::all_of : draw < 5 ? Kind::any_of : Kind::quorum;
  if (execution.kind == Kind::quorum) execution.k = 2;
  const std::size_t least = execution.kind == Kind::quorum ? 3 : execution.kind == Kind::any_of ? 2 : 1;
  execution.waits_for = some_of(generator, before, least + below(generator, 2));
}

bool is_satisfied(const FlowPlan::Execution& execution, std::size_t completed) {
  if (execution.kind == FlowPlan::Kind::any_of) return completed >= 1;
  if (execution.kind == FlowPlan::Kind::quorum) return completed >= static_cast<std::size_t>(execution.k);
  return completed == execution.waits_for.size();
}

}  // namespace

void insert_group(pg::Connection& connection, const GroupRow& row) {
  insert(connection, "ff_edge_group",
         {{"partition_key", row.partition.value},
          {"flow_id", to_string(row.flow)},
          {"downstream_eid", to_string(row.downstream)},
          {"policy", row.policy},
          {"k_target", 0},
          {"success_count", row.success},
          {"fail_count", row.fail},
          {"skip_count", row.skip},
          {"running_count", row.running.value_or(0)},
          {"cancel_siblings_pending_flag", row.flag},
          {"cancel_siblings_pending_members", row.members}});
}

Json edge_group(pg::Connection& connection, const Uuid& downstream) {
  return row(connection, "SELECT * FROM ff_edge_group WHERE downstream_eid = $1", pg::Params::of(downstream));
}

std::string counts(pg::Connection& connection, const Uuid& downstream) {
  return connection
      .execute(
          "SELECT concat_ws('/', success_count, fail_count, skip_count, running_count)"
          " FROM ff_edge_group WHERE downstream_eid = $1",
          pg::Params::of(downstream))
      .one()
      .get<std::string>(0);
}

void insert_edge(pg::Connection& connection, PartitionKey partition, const Uuid& flow, const Uuid& upstream,
                 const Uuid& downstream, const Json& policy) {
  connection.execute(
      "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)"
      " VALUES ($1, $2, gen_random_uuid(), $3, $4, $5::jsonb)",
      pg::Params::of(partition, flow, upstream, downstream, policy.dump()));
}

void insert_pending(pg::Connection& connection, PartitionKey partition, const Uuid& flow,
                    const Uuid& downstream, std::int64_t enqueued_at_ms) {
  connection.execute("INSERT INTO ff_pending_cancel_groups VALUES ($1, $2, $3, $4)",
                     pg::Params::of(partition, flow, downstream, enqueued_at_ms));
}

std::int64_t insert_completion(pg::Connection& connection, const CompletionRow& row) {
  const auto committed_at_ms = now_ms(connection) - row.committed_ago_ms;
  return connection
      .execute(
          "INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace,"
          " instance_tag, occurred_at_ms, committed_at_ms, dispatched_at_ms)"
          " VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8) RETURNING event_id",
          pg::Params::of(row.partition, row.execution, row.flow, row.outcome, row.name_space,
                         row.instance_tag, committed_at_ms, row.dispatched_at_ms))
      .one()
      .get<std::int64_t>(0);
}

Json dispatched_at(pg::Connection& connection, std::int64_t event) {
  return row(connection, "SELECT dispatched_at_ms FROM ff_completion_event WHERE event_id = $1",
             pg::Params::of(event))["dispatched_at_ms"];
}

FanIn insert_fan_in(pg::Connection& connection, int upstreams, GroupRow group, CoreRow downstream) {
  FanIn fan_in;
  for (int i = 0; i < upstreams; ++i) {
    fan_in.upstreams.push_back(insert_core(connection, {.partition = fan_in.partition, .flow = fan_in.flow}));
    insert_edge(connection, fan_in.partition, fan_in.flow, fan_in.upstreams.back(), fan_in.downstream);
  }
  downstream.partition = fan_in.partition;
  downstream.execution = fan_in.downstream;
  downstream.flow = fan_in.flow;
  insert_core(connection, downstream);
  group.flow = fan_in.flow;
  group.downstream = fan_in.downstream;
  if (!group.running) group.running = upstreams - group.success - group.fail - group.skip;
  insert_group(connection, group);
  return fan_in;
}

std::int64_t end_upstream(pg::Connection& connection, const FanIn& fan_in, std::size_t number,
                          const std::string& outcome) {
  const Uuid& upstream = fan_in.upstreams.at(number);
  connection.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', ownership_state = 'unowned',"
      " attempt_state = 'attempt_terminal', public_state = $2, terminal_at_ms = 5 WHERE execution_id = $1",
      pg::Params::of(upstream, outcome == "success" ? std::string("completed") : outcome));
  return insert_completion(
      connection,
      {.partition = fan_in.partition, .execution = upstream, .flow = fan_in.flow, .outcome = outcome});
}

std::vector<std::string> FlowPlan::ends() const {
  std::vector<std::string> ends;
  for (const Execution& execution : executions) {
    const auto completed = std::ranges::count_if(
        execution.waits_for, [&](std::size_t upstream) { return ends[upstream] == "completed"; });
    const bool runs =
        execution.kind == Kind::none || is_satisfied(execution, static_cast<std::size_t>(completed));
    ends.push_back(!runs ? "skipped" : execution.succeeds ? "completed" : "failed");
  }
  return ends;
}

FlowPlan make_plan(std::mt19937& generator, int levels, int per_level) {
  FlowPlan plan;
  std::vector<std::size_t> ordinary_before;
  std::vector<std::size_t> racers_before;
  for (int level = 0; level < levels; ++level) {
    std::vector<std::size_t> ordinary;
    std::vector<std::size_t> racers;
    for (int i = 0; i < per_level; ++i) {
      FlowPlan::Execution execution{.level = level, .succeeds = below(generator, 4) != 0};
      if (racers_before.size() >= 3) {
        execution.kind = i % 2 == 0 ? FlowPlan::Kind::any_of : FlowPlan::Kind::quorum;
        execution.k = i % 2 == 0 ? 1 : 2;
        execution.cancels_rest = true;
        execution.waits_for.assign(racers_before.end() - 3, racers_before.end());
        racers_before.resize(racers_before.size() - 3);
        plan.executions[execution.waits_for.back()].slow = true;
      } else if (level > 0) {
        plan_fan_in(generator, execution, ordinary_before);
      }
      execution.racer = level + 1 < levels && !execution.cancels_rest && i >= per_level * 7 / 10;
      (execution.racer ? racers : ordinary).push_back(plan.executions.size());
      plan.executions.push_back(std::move(execution));
    }
    while (racers.size() % 3 != 0) {
      plan.executions[racers.back()].racer = false;
      ordinary.push_back(racers.back());
      racers.pop_back();
    }
    ordinary_before = std::move(ordinary);
    racers_before = std::move(racers);
  }
  return plan;
}

void insert_plan(pg::Connection& connection, const FlowPlan& plan, PartitionKey partition, const Uuid& flow) {
  using Kind = FlowPlan::Kind;
  for (const auto& execution : plan.executions) {
    insert_core(connection, {.partition = partition,
                             .execution = execution.id,
                             .flow = flow,
                             .state = execution.kind == Kind::none ? runnable() : blocked(),
                             .raw_fields = origin("cascade", "i-1")});
    if (execution.kind == Kind::none) continue;
    Json policy = {{"kind", word(execution.kind)}};
    if (execution.kind == Kind::quorum) policy["k"] = execution.k;
    if (!execution.cancels_rest) policy["on_satisfied"] = "let_run";
    insert_group(connection, {.partition = partition,
                              .flow = flow,
                              .downstream = execution.id,
                              .policy = policy,
                              .running = static_cast<int>(execution.waits_for.size())});
    for (const std::size_t upstream : execution.waits_for)
      insert_edge(connection, partition, flow, plan.executions[upstream].id, execution.id);
  }
}

}  // namespace ff::test
