#include "demo/simulation/census.hpp"

#include "demo/simulation/short_lived.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition keys, $2 the name of lane and namespace.

// FlowFabric's own public_state does not follow whatever its workers do, so that the other words decide.
constexpr std::string_view kExecutions = R"sql(
  SELECT CASE WHEN c.public_state IN ('completed', 'failed', 'expired', 'cancelled', 'skipped') THEN c.public_state
              WHEN c.lifecycle_phase IN ('terminal', 'cancelled')
                THEN CASE WHEN EXISTS (SELECT FROM ff_attempt a
                                        WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id
                                          AND a.outcome = 'success')
                          THEN 'completed' ELSE 'failed' END
              WHEN c.lifecycle_phase = 'active' THEN 'running'
              WHEN c.lifecycle_phase = 'suspended' THEN 'suspended'
              WHEN c.eligibility_state = 'not_eligible_until_time' THEN 'delayed'
              WHEN c.public_state = 'resumable' THEN 'resumable'
              ELSE 'waiting' END AS state, count(*)
    FROM ff_exec_core c
   WHERE c.partition_key = ANY($1) AND c.lane_id = $2
   GROUP BY state)sql";

constexpr std::string_view kLeases = R"sql(
  SELECT count(*), count(*) FILTER (WHERE a.lease_expires_at_ms < extract(epoch FROM clock_timestamp()) * 1000)
    FROM ff_attempt a
    JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
   WHERE a.partition_key = ANY($1) AND a.lease_expires_at_ms IS NOT NULL
     AND c.partition_key = ANY($1) AND c.lane_id = $2)sql";

// $3 an event_id
constexpr std::string_view kTakenSince = R"sql(
  SELECT e.event_id, e.execution_id,
         coalesce(c.raw_fields->>'last_failure_message' = 'execution_deadline', false)
    FROM ff_lease_event e
    LEFT JOIN ff_exec_core c ON c.partition_key = e.partition_key AND c.execution_id = e.execution_id::uuid
                            AND c.partition_key = ANY($1)
   WHERE e.event_id > $3 AND e.partition_key = ANY($1) AND e.namespace = $2 AND e.event_type = 'expired'
   ORDER BY e.event_id)sql";

// $3 with budgets, $4 the lane of the short-lived
constexpr std::string_view kOpen = R"sql(
  WITH core AS MATERIALIZED (
    SELECT partition_key, execution_id, flow_id, lifecycle_phase, eligibility_state, blocking_reason
      FROM ff_exec_core
     WHERE partition_key = ANY($1) AND lane_id = $2)
  SELECT (SELECT count(*) FROM ff_attempt a JOIN core USING (partition_key, execution_id)
           WHERE a.partition_key = ANY($1) AND a.lease_expires_at_ms IS NOT NULL),
         (SELECT count(*) FROM core WHERE eligibility_state = 'not_eligible_until_time'),
         (SELECT count(*) FROM ff_suspension_current s JOIN core USING (partition_key, execution_id)
           WHERE s.partition_key = ANY($1)
             AND (s.timeout_at_ms IS NOT NULL OR core.lifecycle_phase = 'suspended')),
         (SELECT count(*) FROM ff_waitpoint_pending w JOIN core USING (partition_key, execution_id)
           WHERE w.partition_key = ANY($1)),
         (SELECT count(*) FROM ff_completion_event e JOIN core USING (partition_key, execution_id)
           WHERE e.partition_key = ANY($1) AND e.dispatched_at_ms IS NULL)
         + (SELECT count(*) FROM core
             WHERE lifecycle_phase = 'terminal'
               AND NOT EXISTS (SELECT FROM ff_completion_event e
                                WHERE e.partition_key = ANY($1) AND e.partition_key = core.partition_key
                                  AND e.execution_id = core.execution_id AND e.outcome <> 'resumable')),
         (SELECT count(*) FROM ff_edge_group g
            JOIN core ON core.partition_key = g.partition_key AND core.execution_id = g.downstream_eid
           WHERE g.partition_key = ANY($1) AND g.running_count = 0
             AND core.eligibility_state = 'blocked_by_dependencies'
             AND core.blocking_reason = 'waiting_for_children'),
         (SELECT count(*) FROM ff_pending_cancel_groups p
            JOIN core ON core.partition_key = p.partition_key AND core.execution_id = p.downstream_eid
           WHERE p.partition_key = ANY($1)),
         (SELECT count(*) FROM ff_budget_policy WHERE $3 AND next_reset_at_ms IS NOT NULL),
         (SELECT count(*) FROM ff_worker_registry WHERE namespace = $2),
         (SELECT count(*) FROM ff_quota_policy WHERE $3 AND active_concurrency > 0),
         (SELECT count(*) FROM ff_exec_core WHERE partition_key = ANY($1) AND lane_id = $4),
         (SELECT count(*) FROM ff_cancel_backlog_member
           WHERE partition_key = ANY($1) AND flow_id IN (SELECT flow_id FROM core)))sql";

}  // namespace

pg::Params of(const Realm& realm) {
  return pg::Params::of(realm.partitions, realm.name);
}

std::int64_t Census::total() const {
  std::int64_t sum = 0;
  for (const auto& [state, number] : executions) sum += number;
  return sum;
}

Census take_census(pg::Connection& connection, const Realm& realm) {
  Census census;
  for (const pg::Row row : connection.execute(kExecutions, of(realm)))
    census.executions.emplace(row.get<std::string>(0), row.get<std::int64_t>(1));
  const pg::Result leases = connection.execute(kLeases, of(realm));
  census.leases = leases.one().get<std::int64_t>(0);
  census.lapsed = leases.one().get<std::int64_t>(1);
  return census;
}

std::vector<TakenLease> taken_leases(pg::Connection& connection, const Realm& realm, std::int64_t after) {
  std::vector<TakenLease> taken;
  for (const pg::Row row : connection.execute(kTakenSince, of(realm).add(after)))
    taken.push_back({row.get<std::int64_t>(0), row.get<std::string>(1), row.get<bool>(2)});
  return taken;
}

OpenWork open_work(pg::Connection& connection, const Realm& realm, bool with_budgets) {
  const pg::Result found =
      connection.execute(kOpen, of(realm).add(with_budgets).add(lane_of_short_lived(realm.name)));
  const auto number = [&](int column) { return found.one().get<std::int64_t>(column); };
  return {number(0), number(1), number(2), number(3), number(4),  number(5),
          number(6), number(7), number(8), number(9), number(10), number(11)};
}

}  // namespace ff::simulation
