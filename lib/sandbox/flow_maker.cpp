#include "sandbox/flow_maker.hpp"

#include "pg/transaction.hpp"

namespace ff::sandbox {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 1800ms;
constexpr Milliseconds kQuick = 300ms;
constexpr Milliseconds kSlow = 3500ms;
constexpr std::size_t kLeftoverEvery = 2;
constexpr const char* kAllOf = R"({"kind": "all_of"})";

const std::string kNowMs = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

// In every statement: $1 partition key, $2 flow.

const std::string kFlow = R"sql(
  INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms)
  VALUES ($1, $2, 'running', )sql" +
                          kNowMs + ")";

// $3 executions, $4 lane and namespace, $5 they wait for others
const std::string kExecutions = R"sql(
  INSERT INTO ff_exec_core
      (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
       public_state, attempt_state, priority, created_at_ms, raw_fields)
  SELECT $1, id, $2, $4, CASE WHEN $5 THEN 'blocked' ELSE 'runnable' END, 'unowned',
         CASE WHEN $5 THEN 'blocked_by_dependencies' ELSE 'eligible_now' END, 'waiting', 'pending',
         1, )sql" + kNowMs + R"sql(, jsonb_build_object('namespace', $4)
    FROM unnest($3) AS id)sql";

// $3 upstreams, $4 downstream, $5 policy
constexpr std::string_view kEdges = R"sql(
  INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT $1, $2, gen_random_uuid(), id, $4, $5::jsonb FROM unnest($3) AS id)sql";

// $3 downstream, $4 policy, $5 how many have to succeed, $6 how many there are
constexpr std::string_view kGroup = R"sql(
  INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, k_target, running_count)
  VALUES ($1, $2, $3, $4::jsonb, $5, $6))sql";

// $3 downstream
const std::string kLeftover = R"sql(
  INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
  VALUES ($1, $2, $3, )sql" + kNowMs +
                              ")";

Plan slow_work() {
  return {.kind = Plan::Kind::complete, .length = kSlow};
}

Plan slow_answer() {
  return {.kind = Plan::Kind::suspend,
          .suspension = {
              .timeout_in = kSlow, .timeout_behavior = "expire", .waitpoints = {{"answer", kSlow / 2}}}};
}

}  // namespace

const std::vector<FlowMaker::Shape>& FlowMaker::shapes() {
  static const std::vector<Shape> all = {
      {.policy = R"({"kind": "any_of"})", .needed = 1, .slow = slow_work()},
      {.policy = kAllOf},
      {.policy = R"({"kind": "quorum", "k": 2, "on_satisfied": "cancel_remaining"})",
       .needed = 2,
       .slow = slow_answer()},
      {.policy = R"({"kind": "quorum", "k": 2, "on_satisfied": "let_run"})",
       .needed = 2,
       .slow = slow_work()},
  };
  return all;
}

void FlowMaker::live() {
  for (std::size_t turn = 0; !workload_.finishing_; ++turn) {
    make(shapes()[turn % shapes().size()], turn % kLeftoverEvery == 0);
    if (!workload_.pause(kBetween)) return;
  }
}

void FlowMaker::make(const Shape& shape, bool with_leftover) {
  workload_.plans_.note([&] {
    const std::vector<ExecutionId> made = insert(shape, with_leftover);
    workload_.ledger_.created(made, std::nullopt);
    std::map<Uuid, Plan> plans;
    if (!shape.slow) return plans;
    for (const std::size_t quick : {0U, 1U})
      plans[made[quick].uuid] = {.kind = Plan::Kind::complete, .length = kQuick};
    plans[made[2].uuid] = *shape.slow;
    return plans;
  });
  workload_.ledger_.flow(with_leftover);
}

// In one transaction: an upstream must not end before its edges are there. The upstreams of the first fan-in
// come first, the slow one as their third.
std::vector<ExecutionId> FlowMaker::insert(const Shape& shape, bool with_leftover) {
  const Partitions& partitions = workload_.options_.partitions;
  std::uniform_int_distribution<std::size_t> die(0, partitions.size() - 1);
  const Flow flow{partitions[die(generator_)], new_uuid_()};
  const std::vector<Uuid> group = {new_uuid_(), new_uuid_(), new_uuid_()};
  const Uuid beside = new_uuid_();
  const Uuid joined = new_uuid_();
  const Uuid last = new_uuid_();

  pg::Transaction transaction(connection_);
  transaction.execute(kFlow, pg::Params::of(flow.partition, flow.id));
  add_executions(transaction, flow, {group[0], group[1], group[2], beside}, false);
  add_executions(transaction, flow, {joined, last}, true);
  add_fan_in(transaction, flow, group, joined, shape);
  add_fan_in(transaction, flow, {joined, beside}, last, {.policy = kAllOf, .needed = 2});
  // What a dispatcher leaves behind that dies between two transactions of its own.
  if (with_leftover) transaction.execute(kLeftover, pg::Params::of(flow.partition, flow.id, last));
  transaction.commit();

  std::vector<ExecutionId> made;
  for (const Uuid& id : {group[0], group[1], group[2], beside, joined, last})
    made.push_back({flow.partition, id});
  return made;
}

void FlowMaker::add_executions(pg::Transaction& transaction, const Flow& flow, const std::vector<Uuid>& ids,
                               bool blocked) {
  transaction.execute(kExecutions,
                      pg::Params::of(flow.partition, flow.id, ids, workload_.options_.name, blocked));
}

void FlowMaker::add_fan_in(pg::Transaction& transaction, const Flow& flow, const std::vector<Uuid>& upstreams,
                           const Uuid& downstream, const Shape& shape) {
  transaction.execute(kEdges, pg::Params::of(flow.partition, flow.id, upstreams, downstream, shape.policy));
  transaction.execute(kGroup, pg::Params::of(flow.partition, flow.id, downstream, shape.policy, shape.needed,
                                             static_cast<std::int32_t>(upstreams.size())));
}

}  // namespace ff::sandbox
