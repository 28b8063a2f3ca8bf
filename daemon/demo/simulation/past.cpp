#include "demo/simulation/past.hpp"

#include "demo/simulation/registration.hpp"
#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

constexpr const char* kFormerWorker = "w0.1";
constexpr int kHeartbeats = 16;
// All of it is due when the daemon first looks: it looks at some of these events once a minute only.
constexpr Milliseconds kOverdue{1000};

// In every statement: $1 partition keys, $2 namespace, which is also the name of the quota.

// Of each partition one execution that is no more: it was admitted, somebody worked on it, got an answer and ended it. $3 how
// many ms ago, $4 the worker, $5 its partition of the register, $6 its heartbeats. The quota counts nobody, and its guards
// are gone: only the window is left.
const std::string kMake = R"sql(
  WITH clock AS MATERIALIZED (SELECT )sql" +
                          kNowMs + R"sql( - $3 AS then_ms),
  execution AS MATERIALIZED (
    SELECT key, gen_random_uuid()::text AS id, then_ms AS at_ms FROM clock, unnest($1) AS key),
  lease AS (
    INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace)
    SELECT id, event_type, at_ms, key, $2
      FROM execution, unnest('{acquired,revoked}'::text[]) WITH ORDINALITY AS step(event_type, turn)
     ORDER BY id, turn
    RETURNING event_id),
  signal AS (
    INSERT INTO ff_signal_event (execution_id, signal_id, source_identity, delivered_at_ms, partition_key, namespace)
    SELECT id, gen_random_uuid()::text, 'client', at_ms, key, $2 FROM execution
    RETURNING event_id),
  operator AS (
    INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key, namespace)
    SELECT id, 'priority_changed', at_ms, key, $2 FROM execution
    RETURNING event_id),
  heartbeat AS (
    INSERT INTO ff_worker_registry_event
        (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
    SELECT $5, $2, $4, then_ms - turn, 'heartbeat' FROM clock, generate_series(1, $6) AS turn
    RETURNING event_at_ms),
  quota AS (
    INSERT INTO ff_quota_policy
        (partition_key, quota_policy_id, requests_per_window_seconds, max_requests_per_window,
         active_concurrency_cap, created_at_ms, updated_at_ms)
    SELECT $1[1], $2, 1, 0, 0, then_ms, then_ms FROM clock),
  admission AS (
    INSERT INTO ff_quota_window (partition_key, quota_policy_id, admitted_at_ms, execution_id)
    SELECT $1[1], $2, at_ms, id FROM execution
    RETURNING execution_id)
  SELECT (SELECT count(*) FROM lease) + (SELECT count(*) FROM signal) + (SELECT count(*) FROM operator)
           + (SELECT count(*) FROM heartbeat),
         (SELECT count(*) FROM admission))sql";

// Each by the key or index that leads to it: there may be many other events by then.
constexpr std::string_view kLeft = R"sql(
  SELECT (SELECT count(*) FROM ff_lease_event WHERE partition_key = ANY($1) AND namespace = $2)
           + (SELECT count(*) FROM ff_signal_event WHERE partition_key = ANY($1) AND namespace = $2)
           + (SELECT count(*) FROM ff_operator_event WHERE partition_key = ANY($1) AND namespace = $2)
           + (SELECT count(*) FROM ff_worker_registry_event WHERE partition_key = $3 AND namespace = $2),
         (SELECT count(*) FROM ff_quota_window WHERE partition_key = ANY($1) AND quota_policy_id = $2))sql";

pg::Params params_of(const Realm& realm) {
  return pg::Params::of(realm.partitions, realm.name + "-past");
}

Past read(const pg::Result& result) {
  return {result.one().get<std::int64_t>(0), result.one().get<std::int64_t>(1)};
}

}  // namespace

Past make_past(pg::Connection& connection, const Realm& realm) {
  return read(connection.execute(kMake, params_of(realm)
                                            .add(in_ms(kEventsKeptFor + kOverdue))
                                            .add(kFormerWorker)
                                            .add(partition_of(kFormerWorker))
                                            .add(kHeartbeats)));
}

Past left_of_past(pg::Connection& connection, const Realm& realm) {
  return read(connection.execute(kLeft, params_of(realm).add(partition_of(kFormerWorker))));
}

}  // namespace ff::simulation
