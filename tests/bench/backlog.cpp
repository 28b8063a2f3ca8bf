#include "bench/backlog.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kAdd = R"sql(
WITH fresh AS MATERIALIZED (
  SELECT (i % $2)::smallint AS partition_key, gen_random_uuid() AS execution_id, i FROM generate_series(1, $1) AS i
),
core AS (
  INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                            public_state, attempt_state, created_at_ms, policy, raw_fields)
  SELECT partition_key, execution_id, 'default', 'active', 'leased', 'not_applicable', 'running', 'running_attempt', 1,
         CASE WHEN i % 2 = 0 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END,
         '{"namespace": "bench", "tags": {"cairn.instance_id": "i-1"}}'
    FROM fresh
)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms, started_at_ms)
SELECT partition_key, execution_id, 0, 'w-1', 1, 1000 + i, 1 FROM fresh)sql";

constexpr std::string_view kLapsed = "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL";

}  // namespace

void add_lapsed_leases(pg::Connection& connection, int count, int partitions) {
  const auto deadline = Clock::system().now() + 10min;
  connection.execute(kAdd, pg::Params::of(count, partitions), deadline);
  connection.execute_script("VACUUM (ANALYZE) ff_exec_core", deadline);
  connection.execute_script("VACUUM (ANALYZE) ff_attempt", deadline);
  connection.execute_script("CHECKPOINT", deadline);
}

std::int64_t lapsed_leases(pg::Connection& connection) {
  return connection.execute(kLapsed).one().get<std::int64_t>(0);
}

}  // namespace ff::bench
