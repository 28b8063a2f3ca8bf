// No look for candidates reads a whole table, however much there is in it.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;

namespace {

/// 100,000 executions over 16 partitions with an attempt each, a twentieth of them lapsed; a tenth as many
/// rows in the tables around them.
void fill(pg::Connection& db) {
  db.execute_script(R"sql(
    CREATE TEMP TABLE seed AS
      SELECT i, (i % 16)::smallint AS partition_key, gen_random_uuid() AS execution_id,
             floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
               + CASE WHEN i % 20 = 0 THEN -60000 ELSE 600000 END + i AS due_ms
        FROM generate_series(1, 100000) i;
    INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, ownership_state,
                              eligibility_state, public_state, attempt_state, created_at_ms, deadline_at_ms)
      SELECT partition_key, execution_id, execution_id, 'default',
             CASE i % 4 WHEN 0 THEN 'active' WHEN 1 THEN 'runnable' WHEN 2 THEN 'suspended' ELSE 'terminal' END,
             'unowned', CASE i % 4 WHEN 1 THEN 'not_eligible_until_time' ELSE 'not_applicable' END, 'running',
             'running_attempt', 0, due_ms
        FROM seed;
    INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, lease_epoch, lease_expires_at_ms)
      SELECT partition_key, execution_id, 0, 1, due_ms FROM seed;
    DELETE FROM seed WHERE i % 10 <> 0;
    INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, condition,
                                       timeout_at_ms)
      SELECT partition_key, execution_id, execution_id, 0, '{}', due_ms FROM seed;
    INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms,
                                      expires_at_ms)
      SELECT partition_key, execution_id, execution_id, 'k', 't', 0, due_ms FROM seed;
    INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy)
      SELECT partition_key, execution_id, execution_id, '{}' FROM seed;
    INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
      SELECT partition_key, execution_id, execution_id, due_ms FROM seed;
    INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms,
                                  next_reset_at_ms)
      SELECT partition_key, execution_id::text, '{}', 0, 0, due_ms FROM seed;
    INSERT INTO ff_budget_usage (partition_key, budget_id, dimensions_key, updated_at_ms)
      SELECT partition_key, execution_id::text, 'd', 0 FROM seed;
    INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)
      SELECT partition_key, execution_id, execution_id, execution_id, execution_id, '{}' FROM seed;
    INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms, dispatched_at_ms)
      SELECT partition_key, execution_id, 'success', due_ms, CASE i % 20 WHEN 0 THEN due_ms END FROM seed;
    INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)
      SELECT execution_id::text, 'expired', due_ms, partition_key FROM seed;
    INSERT INTO ff_quota_policy (partition_key, quota_policy_id, requests_per_window_seconds,
                                 max_requests_per_window, active_concurrency_cap, active_concurrency, created_at_ms,
                                 updated_at_ms)
      SELECT partition_key, execution_id::text, 60, 0, 5, 1 + i % 20 / 10, 0, 0 FROM seed;
    INSERT INTO ff_quota_admitted (partition_key, quota_policy_id, execution_id, admitted_at_ms, expires_at_ms)
      SELECT partition_key, execution_id::text, execution_id::text, 0, due_ms - 30000 FROM seed;
    INSERT INTO ff_quota_window (partition_key, quota_policy_id, admitted_at_ms, execution_id)
      SELECT partition_key, execution_id::text, due_ms - CASE i % 20 WHEN 0 THEN 90000000 ELSE 0 END, execution_id::text
        FROM seed;
    INSERT INTO ff_worker_registry (partition_key, namespace, worker_instance_id, worker_id, lanes,
                                    capabilities_csv, last_heartbeat_ms, liveness_ttl_ms, registered_at_ms)
      SELECT partition_key, 'a', execution_id::text, 'w', '{}', '', due_ms, 1, 0 FROM seed;
  )sql");
  db.execute_script("ANALYZE");
}

}  // namespace

TEST_CASE("no scan reads a large table as a whole") {
  const Database database;
  auto db = database.connect();
  fill(db);
  // The test would see it: this is a statement that cannot but read everything.
  CHECK(whole_tables(db, plan_of(db, "SELECT * FROM ff_attempt WHERE worker_id IS DISTINCT FROM $1",
                                 pg::Params::of("x"), pg::Plan::custom))
            .size() == Database::kFanOut);

  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const reconcile::Statements statements(reconciler);
    const auto read_whole = [&](const reconcile::Statement& statement, const Partitions& group,
                                const pg::Params& params) {
      return whole_tables(db, plan_of(db, statement.over(group), params, pg::Plan::generic));
    };
    for (const Partitions& group : {Partitions{{3}}, sixteen_partitions()}) {
      auto one = page_params(reconciler, {{3}}, Milliseconds{0}, 1000);
      CHECK(read_whole(statements.page, group, one) == std::vector<std::string>{});
      for (std::size_t i = 0; i < reconciler.key.size(); ++i) one.add(std::optional<std::string>{});
      CHECK(read_whole(statements.rest, group, one) == std::vector<std::string>{});
      const auto all = page_params(reconciler, group, std::chrono::hours{24}, 2);
      CHECK(read_whole(statements.page, group, all) == std::vector<std::string>{});
    }
  }
}

TEST_CASE("no look at one execution reads a large table as a whole") {
  const Database database;
  auto db = database.connect();
  fill(db);
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    const reconcile::Statement of_execution = reconcile::Statements(reconciler).of_execution;
    if (of_execution.empty()) continue;
    CAPTURE(reconciler.name);
    const auto params = leading_params(reconciler, {{3}}).add(new_uuid());
    CHECK(whole_tables(db, plan_of(db, of_execution.over({{3}}), params, pg::Plan::generic)) ==
          std::vector<std::string>{});
  }
}
