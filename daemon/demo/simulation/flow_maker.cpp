#include "demo/simulation/flow_maker.hpp"

#include "demo/simulation/steps.hpp"
#include "pg/transaction.hpp"

namespace ff::simulation {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 1800ms;
constexpr Milliseconds kQuick = 300ms;
constexpr Milliseconds kSlow = 3500ms;
constexpr Milliseconds kBeforeItsChildren = 50ms;
constexpr Milliseconds kAfterItsChildren = 2500ms;
constexpr std::size_t kLeftoverEvery = 2;
constexpr std::size_t kFamilyEvery = 3;
constexpr std::size_t kCancelledEvery = 3;

// $1 partition key, $2 flow, $3 downstream
const std::string kLeftover = R"sql(
  INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
  VALUES ($1, $2, $3, )sql" + kNowMs +
                              ")";

// As a cancel by its worker leaves it: without an event. $1 partition key, $2 execution
const std::string kCancel = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
         public_state = 'cancelled', attempt_state = 'cancelled', cancelled_by = 'worker', terminal_at_ms = )sql" +
                            kNowMs + R"sql(
   WHERE partition_key = $1 AND execution_id = $2)sql";

// As an operator's resume leaves it, with the suspension row gone. $1 partition key, $2 execution
const std::string kStray = R"sql(
  INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms,
                                    waitpoint_key, state, activated_at_ms)
  SELECT $1, gen_random_uuid(), $2, 'kid', 'kid:', now_ms, 'approval', 'active', now_ms
    FROM (SELECT )sql" + kNowMs +
                           " AS now_ms) AS clock";

// As FlowFabric's server leaves it that dies before it comes to the members: they are called cancelled, and nothing else
// has happened. $1 partition key, $2 flow
const std::string kCancelHeader = R"sql(
  WITH clock AS MATERIALIZED (SELECT )sql" +
                                  kNowMs + R"sql( AS now_ms),
  member AS (
    UPDATE ff_exec_core
       SET lifecycle_phase = 'cancelled', eligibility_state = 'cancelled', public_state = 'cancelled',
           terminal_at_ms = (SELECT now_ms FROM clock), cancellation_reason = 'operator_requested',
           cancelled_by = 'cancel_flow_header'
     WHERE partition_key = $1 AND flow_id = $2 AND lifecycle_phase NOT IN ('terminal', 'cancelled')
    RETURNING execution_id),
  listed AS (
    INSERT INTO ff_cancel_backlog_member (partition_key, flow_id, execution_id)
    SELECT $1, $2, concat('{fp:', $1::text, '}:', execution_id) FROM member),
  backlog AS (
    INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, reason, cancellation_policy)
    SELECT $1, $2, now_ms, 'operator_requested', 'cancel_all' FROM clock)
  UPDATE ff_flow_core
     SET public_flow_state = 'cancelled', terminal_at_ms = now_ms,
         raw_fields = raw_fields || '{"cancellation_policy": "cancel_all"}'
    FROM clock
   WHERE partition_key = $1 AND flow_id = $2)sql";

Plan completion_after(Milliseconds length) {
  return {.kind = Plan::Kind::complete, .length = length};
}

Plan slow_answer() {
  return {
      .kind = Plan::Kind::suspend,
      .suspension = {.timeout_in = kSlow, .timeout_behavior = "expire", .waitpoints = {{.key = "answer"}}}};
}

}  // namespace

const std::vector<FlowMaker::Shape>& FlowMaker::shapes() {
  static const std::vector<Shape> all = {
      {.policy = R"({"kind": "any_of", "on_satisfied": "cancel_remaining"})",
       .slow = completion_after(kSlow)},
      {.policy = kAllOf},
      {.policy = R"({"kind": "quorum", "k": 2, "on_satisfied": "cancel_remaining"})", .slow = slow_answer()},
      {.policy = R"({"kind": "quorum", "k": 2, "on_satisfied": "let_run"})", .slow = completion_after(kSlow)},
  };
  return all;
}

void FlowMaker::live() {
  for (std::size_t turn = 0; !workload_.finishing_; ++turn) {
    const bool with_leftover = turn % kLeftoverEvery == 0;
    workload_.plans_.note([&] { return make_fan_ins(shapes()[turn % shapes().size()], with_leftover); });
    workload_.ledger_.flow(with_leftover);
    if (turn % kFamilyEvery == 0) {
      const bool late = turn / kFamilyEvery % 2 == 0;
      workload_.plans_.note([&] { return make_family(late ? kAfterItsChildren : kBeforeItsChildren); });
      workload_.ledger_.flow(false);
    }
    if (turn % kCancelledEvery == 1) {
      workload_.plans_.note([&] { return make_cancelled(); });
      workload_.ledger_.cancelled_member();
    }
    if (workload_.options_.cancelled_flows && turn % kCancelledEvery == 2) make_cancelled_header();
    if (!workload_.pause(kBetween)) return;
  }
}

// The upstreams of the first fan-in come first, the slow one as their third.
FlowMaker::Plans FlowMaker::make_fan_ins(const Shape& shape, bool with_leftover) {
  const FlowRow flow = new_flow();
  pg::Transaction transaction(connection_);
  create_flow(transaction, flow);
  const auto ready = add(transaction, flow, 4, false);
  const auto waiting = add(transaction, flow, 2, true);
  const ExecutionId& beside = ready[3];
  const ExecutionId& joined = waiting[0];
  const ExecutionId& last = waiting[1];
  add_fan_in(transaction, flow, {ready[0], ready[1], ready[2]}, joined, shape.policy);
  add_fan_in(transaction, flow, {joined, beside}, last, kAllOf);
  // What a dispatcher leaves behind that dies between two transactions of its own.
  if (with_leftover) transaction.execute(kLeftover, pg::Params::of(flow.partition, flow.id, last.uuid));
  transaction.commit();

  if (!shape.slow) return {};
  return {{ready[0].uuid, completion_after(kQuick)},
          {ready[1].uuid, completion_after(kQuick)},
          {ready[2].uuid, *shape.slow}};
}

FlowMaker::Plans FlowMaker::make_family(Milliseconds until_it_waits) {
  const FlowRow flow = new_flow();
  pg::Transaction transaction(connection_);
  create_flow(transaction, flow);
  const auto members = add(transaction, flow, 3, false);
  const ExecutionId& parent = members[0];
  add_fan_in(transaction, flow, {members[1], members[2]}, parent, kAllOf);
  transaction.commit();
  return {{parent.uuid, {.kind = Plan::Kind::wait_for_children, .length = until_it_waits}},
          {members[1].uuid, completion_after(kQuick)},
          {members[2].uuid, completion_after(kQuick)}};
}

FlowMaker::Plans FlowMaker::make_cancelled() {
  const FlowRow flow = new_flow();
  pg::Transaction transaction(connection_);
  create_flow(transaction, flow);
  const auto ready = add(transaction, flow, 2, false);
  const auto waiting = add(transaction, flow, 1, true);
  add_fan_in(transaction, flow, {ready[0]}, waiting[0], kAllOf);
  transaction.execute(kCancel, pg::Params::of(flow.partition, ready[0].uuid));
  transaction.execute(kStray, pg::Params::of(flow.partition, ready[1].uuid));
  transaction.commit();
  return {};
}

void FlowMaker::make_cancelled_header() {
  constexpr int kMembers = 3;
  const FlowRow flow = new_flow();
  pg::Transaction transaction(connection_);
  create_flow(transaction, flow);
  add(transaction, flow, kMembers, false);
  transaction.execute(kCancelHeader, pg::Params::of(flow.partition, flow.id));
  transaction.commit();
  workload_.ledger_.cancelled_header(kMembers);
}

FlowRow FlowMaker::new_flow() {
  const Partitions& partitions = workload_.options_.partitions;
  std::uniform_int_distribution<std::size_t> die(0, partitions.size() - 1);
  return {partitions[die(generator_)], new_uuid_(), workload_.options_.name};
}

std::vector<ExecutionId> FlowMaker::add(pg::Transaction& transaction, const FlowRow& flow, int number,
                                        bool blocked) {
  NewExecution like;
  like.flow = flow.id;
  like.lane = flow.name_space;
  like.name_space = flow.name_space;
  like.priority = 1;
  like.blocked = blocked;
  auto made = create(transaction, like, {flow.partition}, number);
  add_members(transaction, flow, number);
  workload_.ledger_.created(made, std::nullopt);
  return made;
}

}  // namespace ff::simulation
