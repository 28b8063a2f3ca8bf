#include "demo/simulation/flow.hpp"

#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition key, $2 flow.

// $3 namespace
const std::string kFlow = R"sql(
  INSERT INTO ff_flow_core (partition_key, flow_id, graph_revision, public_flow_state, created_at_ms, raw_fields)
  SELECT $1, $2, 0, 'open', now_ms,
         jsonb_build_object('flow_kind', 'simulated', 'namespace', $3, 'node_count', 0, 'edge_count', 0,
                            'last_mutation_at_ms', now_ms)
    FROM (SELECT )sql" + kNowMs +
                          " AS now_ms) AS clock";

// $3 the count that grows, $4 by how much
const std::string kGrow = R"sql(
  UPDATE ff_flow_core
     SET graph_revision = graph_revision + $4,
         raw_fields = raw_fields || jsonb_build_object($3, (raw_fields->>$3)::integer + $4,
                                                       'last_mutation_at_ms', )sql" +
                          kNowMs + R"sql()
   WHERE partition_key = $1 AND flow_id = $2)sql";

// $3 downstream, $4 policy
constexpr std::string_view kGroup = R"sql(
  INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy) VALUES ($1, $2, $3, $4::jsonb))sql";

// $3 downstream, $4 upstreams
const std::string kEdges = R"sql(
  INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
  SELECT $1, $2, gen_random_uuid(), id, $3,
         jsonb_build_object('dependency_kind', 'success_only', 'satisfaction_condition', 'all_required',
                            'data_passing_ref', '', 'edge_state', 'applied', 'created_by', 'engine',
                            'created_at_ms', now_ms, 'staged_at_ms', now_ms, 'applied_at_ms', now_ms)
    FROM unnest($4) AS id, (SELECT )sql" +
                           kNowMs + " AS now_ms) AS clock";

// $3 downstream, $4 how many edges more
constexpr std::string_view kCount = R"sql(
  UPDATE ff_edge_group SET running_count = running_count + $4
   WHERE partition_key = $1 AND flow_id = $2 AND downstream_eid = $3)sql";

pg::Params params_of(const FlowRow& flow) {
  return pg::Params::of(flow.partition, flow.id);
}

}  // namespace

void create_flow(pg::Transaction& transaction, const FlowRow& flow) {
  transaction.execute(kFlow, params_of(flow).add(flow.name_space));
}

void add_members(pg::Transaction& transaction, const FlowRow& flow, int number) {
  transaction.execute(kGrow, params_of(flow).add("node_count").add(number));
}

void add_fan_in(pg::Transaction& transaction, const FlowRow& flow, const std::vector<ExecutionId>& upstreams,
                const ExecutionId& downstream, const std::string& policy) {
  std::vector<Uuid> ids;
  ids.reserve(upstreams.size());
  for (const ExecutionId& upstream : upstreams) ids.push_back(upstream.uuid);
  const auto number = static_cast<std::int32_t>(ids.size());
  transaction.execute(kGroup, params_of(flow).add(downstream.uuid).add(policy));
  transaction.execute(kEdges, params_of(flow).add(downstream.uuid).add(ids));
  transaction.execute(kCount, params_of(flow).add(downstream.uuid).add(number));
  transaction.execute(kGrow, params_of(flow).add("edge_count").add(number));
}

}  // namespace ff::simulation
