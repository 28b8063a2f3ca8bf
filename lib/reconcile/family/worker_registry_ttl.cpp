// worker_registry_ttl: a worker that has not been heard of for its time to live is taken off the register.
//
// Rows     ff_worker_registry whose last heartbeat is older than liveness_ttl_ms. The register has 256
//          partitions of its own. The filter's namespace applies; a worker has no tags.
// Changes  the row is deleted, an event row `ttl_swept` is kept; but for an id so long that it just fits the
//          register's index and would not fit that of the events, whose key is longer.
// Others   The worker itself sends a heartbeat: a row that it holds, or has just refreshed, is left alone.
// Repeat   The row is gone afterwards; a worker that comes back registers anew.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT w.partition_key, w.namespace, w.worker_instance_id, {lives_until} AS due_at_ms
    FROM {schema}.ff_worker_registry w
   WHERE {in_partitions:w} AND ({namespace} IS NULL OR w.namespace = {namespace}))sql";

constexpr std::string_view kAct = R"sql(
silent AS MATERIALIZED (
  SELECT w.partition_key, w.namespace, w.worker_instance_id, {lives_until} AS due_at_ms, clock.now_ms
    FROM clock, key
    JOIN {schema}.ff_worker_registry w ON w.partition_key = key.partition_key AND w.namespace = key.namespace
                                      AND w.worker_instance_id = key.worker_instance_id
   WHERE {in_partitions:w} AND ({namespace} IS NULL OR w.namespace = {namespace})
     AND {lives_until} <= clock.due_ms
     -- Where its event has a child to go to.
     AND {in_sight:ff_worker_registry_event}
     FOR UPDATE OF w SKIP LOCKED
),
swept AS (
  DELETE FROM {schema}.ff_worker_registry w
   USING silent s
   WHERE {in_partitions:w} AND w.partition_key = s.partition_key AND w.namespace = s.namespace
     AND w.worker_instance_id = s.worker_instance_id
),
event AS (
  INSERT INTO {schema}.ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
  SELECT partition_key, namespace, worker_instance_id, now_ms, 'ttl_swept' FROM silent
   WHERE octet_length(namespace) + octet_length(worker_instance_id) <= 2600
  ON CONFLICT DO NOTHING
),
moved AS (SELECT partition_key, namespace, worker_instance_id, due_at_ms, 'swept' AS outcome FROM silent))sql";

}  // namespace

Reconciler worker_registry_ttl() {
  using namespace std::chrono_literals;
  return {.name = "worker_registry_ttl",
          .summary = "Takes a worker that has fallen silent off the register.",
          .outcomes = {{"swept", Effect::deleted, "the worker sent no heartbeat for its time to live"}},
          .key = {{"namespace", "text"}, {"worker_instance_id", "text"}},
          .partition_count = "SELECT 256",
          .scan = kScan,
          .act = kAct,
          // A sum that does not fit, in either direction, must not fail the scan of everybody else.
          .fragments = {{"lives_until",
                         R"sql(greatest(0, least(w.last_heartbeat_ms::numeric + w.liveness_ttl_ms,
                                               9223372036854775807))::bigint)sql"}},
          .privileges = {{"ff_worker_registry", "SELECT, UPDATE, DELETE"},
                         {"ff_worker_registry_event", "INSERT"}},
          .interval = 30s};
}

}  // namespace ff::reconcile
