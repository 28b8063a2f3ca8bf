#include "demo/simulation/executions.hpp"

#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

// $1 partitions, $2 flow_id, $3 lane, $4 max_retries, $5 priority, $6 deadline in ms from now, $7 namespace,
// $8 tag cairn.instance_id, $9 how many, $10 they depend on others, $11 for how many ms they are kept. `pending_first_attempt` is the word that all of FlowFabric's claims take.
const std::string kCreate = R"sql(
  WITH clock AS MATERIALIZED (SELECT )sql" +
                            kNowMs + R"sql( AS now_ms)
  INSERT INTO ff_exec_core
      (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
       public_state, attempt_state, priority, created_at_ms, deadline_at_ms, payload, policy, raw_fields)
  SELECT ($1::smallint[])[1 + i % cardinality($1)], gen_random_uuid(), $2, $3,
         CASE WHEN $10 THEN 'blocked' ELSE 'runnable' END, 'unowned',
         CASE WHEN $10 THEN 'blocked_by_dependencies' ELSE 'eligible_now' END, 'waiting', 'pending_first_attempt', $5, now_ms, now_ms + $6, '',
         CASE WHEN $11::bigint IS NOT NULL
              THEN jsonb_build_object('stream_policy', jsonb_build_object('retention_ttl_ms', $11))
              WHEN $4 IS NOT NULL
              THEN jsonb_build_object(
                     'priority', 0, 'budget_ids', '[]'::jsonb, 'max_reclaim_count', 100, 'max_replay_count', 10,
                     'max_signals_per_execution', 10000,
                     'retry_policy', jsonb_build_object(
                       'max_retries', $4, 'retryable_categories', '[]'::jsonb,
                       'backoff', '{"type": "exponential", "initial_delay_ms": 1000, "max_delay_ms": 60000,
                                    "multiplier": 2.0, "jitter": false}'::jsonb)) END,
         jsonb_strip_nulls(jsonb_build_object(
           'namespace', $7, 'execution_kind', 'simulated', 'creator_identity', 'simulation',
           'last_mutation_at', now_ms::text, 'total_attempt_count', '0',
           'tags', jsonb_build_object('cairn.instance_id', $8)))
    FROM clock, generate_series(0, $9 - 1) AS i
  RETURNING partition_key, execution_id)sql";

// $1 lane
const std::string kLane = R"sql(
  INSERT INTO ff_lane_registry (lane_id, registered_at_ms, registered_by)
  VALUES ($1, )sql" + kNowMs +
                          R"sql(, 'create_execution')
  ON CONFLICT (lane_id) DO NOTHING)sql";

}  // namespace

ExecutionId create(pg::Connection& connection, const NewExecution& execution) {
  return create(connection, execution, {execution.partition}, 1).front();
}

std::vector<ExecutionId> create(pg::Connection& connection, const NewExecution& like,
                                const Partitions& partitions, int count) {
  pg::Transaction transaction(connection);
  std::vector<ExecutionId> made = create(transaction, like, partitions, count);
  transaction.commit();
  return made;
}

std::vector<ExecutionId> create(pg::Transaction& transaction, const NewExecution& like,
                                const Partitions& partitions, int count) {
  const pg::Result made = transaction.execute(
      kCreate, pg::Params::of(partitions, like.flow, like.lane, like.max_retries, like.priority,
                              in_ms(like.deadline_in), like.name_space, like.instance_tag, count,
                              like.blocked, in_ms(like.kept_for)));
  transaction.execute(kLane, pg::Params::of(like.lane));
  std::vector<ExecutionId> ids;
  ids.reserve(static_cast<std::size_t>(made.size()));
  for (const pg::Row row : made) ids.push_back({row.get<PartitionKey>(0), row.get<Uuid>(1)});
  return ids;
}

}  // namespace ff::simulation
