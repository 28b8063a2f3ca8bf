// dead_worker: the leases of a worker that had registered and fell silent end at once, and not when they would lapse.
//
// Rows     ff_attempt with a lease that has not lapsed, of a worker that is dead, where it is the current attempt of an
//          active execution. Who is dead, RegisterWatch tells: no index leads to a worker's leases, and the register has
//          partitions of its own. Due since the worker's last sign of life and its time to live, or its death as the
//          register's events tell it. The key names the very lease: its end, its epoch and whose it is.
// Changes  the lease ends now, and raw_fields.ended_by says who did it; it counts only while the lease ends at that moment.
//          That is all: lease_expiry and attempt_timeout take the lapsed lease by their own rules, and are woken. No event,
//          the same epoch, the core and the register as they were.
// Others   The worker itself may renew: a renewal that commits first is another lease; one by handle that comes after this,
//          and before the lapsed lease is taken, keeps it. The attribute of an execution is its namespace: one that is not
//          of a namespace that the worker has registered in is left alone, and counted.
// Repeat   The lease has lapsed afterwards, so the row is not found again.

#include "reconcile/family/register_watch.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT a.partition_key, a.execution_id, a.attempt_index, a.lease_epoch, a.lease_expires_at_ms AS lease_end,
         a.worker_instance_id, {dead_since:a} AS due_at_ms
    FROM {schema}.ff_attempt a
    JOIN {core_of:a} c ON true
   WHERE {in_partitions:a} AND {has_not_lapsed:a} AND {dead_since:a} IS NOT NULL AND {is_current:a, c} AND {its_filter:c})sql";

constexpr std::string_view kAct = R"sql(
leased AS MATERIALIZED (
  SELECT a.partition_key, a.execution_id, a.attempt_index, a.lease_epoch, a.lease_expires_at_ms AS lease_end,
         a.worker_instance_id, {dead_since:a} AS due_at_ms, clock.now_ms
    FROM clock, key
    JOIN {schema}.ff_attempt a ON {same_execution:a, key}
                              AND a.attempt_index = key.attempt_index
   WHERE {in_partitions:a} AND a.lease_epoch = key.lease_epoch AND a.lease_expires_at_ms + 0 = key.lease_end
     AND a.worker_instance_id = key.worker_instance_id
     AND a.lease_expires_at_ms + 0 > clock.now_ms AND {dead_since:a} <= clock.due_ms
     AND {in_sight:ff_attempt, ff_worker_registry, ff_worker_registry_event}
     FOR NO KEY UPDATE OF a SKIP LOCKED
),
judged AS MATERIALIZED (
  SELECT l.*, CASE WHEN ((l.worker_instance_id, c.raw_fields->>'namespace')
                           IN (SELECT d.instance, d.name_space FROM unnest({dead}, {dead_in}) AS d(instance, name_space)))
                          IS TRUE
                   THEN 'lease_ended' ELSE 'other_namespace' END AS outcome
    FROM leased l
    JOIN {core_of:l} c ON true
   WHERE {is_current:l, c} AND {its_filter:c}
),
ended AS (
  UPDATE {schema}.ff_attempt a
     SET lease_expires_at_ms = j.now_ms,
         raw_fields = {object:a.raw_fields}
           || jsonb_build_object('ended_by', jsonb_build_object('by', 'dead_worker', 'at', j.now_ms))
    FROM judged j
   WHERE j.outcome = 'lease_ended'
     AND {in_partitions:a} AND {same_execution:a, j}
     AND a.attempt_index = j.attempt_index
),
moved AS (
  SELECT partition_key, execution_id, attempt_index, lease_epoch, lease_end, worker_instance_id, due_at_ms, outcome
    FROM judged))sql";

std::vector<Fragment> own_fragments() {
  return {
      // Null: it lives. Found once for all rows.
      {"dead_since(attempt)",
       R"sql(((SELECT jsonb_object_agg(d.instance, d.since) FROM unnest({dead}, {dead_from}) AS d(instance, since))
            ->> {attempt}.worker_instance_id)::bigint)sql"},
      {"is_current(attempt, core)",
       "{core}.lifecycle_phase = 'active' AND {attempt}.attempt_index = {current_attempt:{core}}"},
      // A worker has no tags.
      {"its_filter(core)", "({namespace} IS NULL OR {core}.raw_fields->>'namespace' = {namespace})"}};
}

}  // namespace

Reconciler dead_worker() {
  using namespace std::chrono_literals;
  return {
      .name = "dead_worker",
      .summary = "Ends the leases of a worker that had registered and fell silent.",
      .no_rows = "no lease of its is held by a worker that is dead",
      .outcomes = {"lease_ended", {"other_namespace", Effect::left_alone}},
      .key = {{"execution_id", "uuid"},
              {"attempt_index", "integer"},
              {"lease_epoch", "bigint"},
              {"lease_end", "bigint"},
              {"worker_instance_id", "text"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = own_fragments(),
      .privileges = {{"ff_attempt", "SELECT, UPDATE"},
                     {"ff_exec_core", "SELECT"},
                     {"ff_worker_registry", "SELECT"},
                     {"ff_worker_registry_event", "SELECT"},
                     {"ff_partition_config", "SELECT"}},
      .on_by_default = false,
      .interval = 1s,
      .takes_leases = true,
      .foreseen = false,
      .wakes = {"lease_expiry", "attempt_timeout"},
      .prelude = []() -> std::unique_ptr<Prelude> { return std::make_unique<RegisterWatch>(); },
      // The instances that are dead, beside them the namespaces that they had registered in, and since when they are.
      .own_parameters = {"dead", "dead_in", "dead_from"},
      .parameters =
          [](const Settings&, const Family&) {
            using Texts = std::optional<std::vector<std::string>>;
            return pg::Params::of(Texts{}, Texts{}, std::optional<std::vector<std::int64_t>>{});
          }};
}

}  // namespace ff::reconcile
