// lease_expiry: a lapsed lease is taken back, so that another worker can continue the same attempt.
//
// Rows     ff_attempt with a lease older than `grace`, whatever the phase of its execution, and even when its core
//          row is missing, unless it is promised to somebody (a reclaim grant that has not expired).
// Changes  the attempt (no lease, lease_expired_reclaimable, epoch + 1), the core where it is active and this is its
//          current attempt (runnable again, for the same attempt, and one more in the attempt's raw_fields.lease_reclaims,
//          which begins anew after an operator's replay), one lease event. A lease on an older attempt than the current one is
//          only cleared, without an event. One that an execution kept over its end or suspension leaves the outcome as
//          it is, and the core without an owner.
// Others   Workers renew, complete or fail the same attempt: what they hold is skipped here. Workers that claim
//          write the core, which has to be as this statement has seen it. attempt_timeout takes over once an
//          attempt of an active execution has been reclaimed `max_reclaims` times, so that a crash loop ends (see
//          `parameters`). A worker that wakes up late finds another epoch.
//          With storm control an attempt that was reclaimed in this run is due some seconds after its lapse, and
//          looked for by a companion.
// Repeat   The lease is null afterwards, so the row is not found again.

#include "reconcile/family/lapsed_lease.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT a.partition_key, a.execution_id, a.attempt_index, {due_at:a, c} AS due_at_ms{whose:c, a.worker_instance_id}
    FROM {schema}.ff_attempt a
    LEFT JOIN {core_of:a} c ON true
   WHERE {in_partitions:a}
     AND a.lease_expires_at_ms IS NOT NULL AND {has_its_turn:a, c}
     AND {is_ours} AND {filter:c})sql";

// The core row may be missing, and the missing side of an outer join cannot be locked: attempt and core are
// locked one after the other, and an attempt whose core exists but was not to be had is in neither half of
// `lapsed`. What the first one reads of the core is what the second one locks, because that is `as_seen`.
constexpr std::string_view kAct = R"sql(
attempt AS MATERIALIZED (
  SELECT a.partition_key, a.execution_id, a.attempt_index, {due_at:a, c} AS due_at_ms, a.raw_fields,
         {reclaims_of_run:a, c} AS reclaims, clock.now_ms
    FROM clock, key
    JOIN {schema}.ff_attempt a ON {same_execution:a, key}
                              AND a.attempt_index = key.attempt_index
    LEFT JOIN {core_of:a} c ON true
   WHERE {in_partitions:a} AND {due_at:a, c} + 0 <= clock.due_ms AND {has_its_turn:a, c}
     AND NOT {promised:a}
     FOR NO KEY UPDATE OF a SKIP LOCKED
),
with_core AS MATERIALIZED (
  SELECT a.partition_key, a.execution_id, a.attempt_index, a.due_at_ms, a.now_ms, {event_origin:c},
         a.reclaims, c.raw_fields->'replay_count' AS replay_count, c.raw_fields->'retry_count' AS retry_count,
         CASE WHEN a.attempt_index <> {current_attempt:c} THEN 'stale_cleared'
              WHEN c.lifecycle_phase = 'active' THEN 'reclaimable'
              ELSE 'released' END AS outcome
    FROM attempt a
    JOIN {schema}.ff_exec_core c ON {same_execution:c, a}
    {as_seen:c}
   WHERE {in_partitions:c}
     AND {is_ours} AND {filter:c}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
lapsed AS MATERIALIZED (
  SELECT * FROM with_core
   UNION ALL
  SELECT a.partition_key, a.execution_id, a.attempt_index, a.due_at_ms, a.now_ms, NULL, NULL, a.reclaims, NULL, NULL,
         'released'
    FROM attempt a
   WHERE {no_filter} AND {has_no_core:a}
),
cleared AS (
  UPDATE {schema}.ff_attempt a
     SET outcome = CASE l.outcome WHEN 'reclaimable' THEN 'lease_expired_reclaimable'
                                  WHEN 'released' THEN coalesce(a.outcome, 'lease_expired_reclaimable')
                                  ELSE coalesce(a.outcome, 'interrupted') END,
         lease_expires_at_ms = NULL,
         lease_epoch = a.lease_epoch + 1,
         -- Only what gives the work back: a lease that a late renewal gave to one that is delayed costs it no reclaim.
         raw_fields = CASE WHEN l.outcome <> 'reclaimable' THEN a.raw_fields
                           ELSE {object:a.raw_fields} || jsonb_build_object('lease_reclaims', l.reclaims + 1)
                             || jsonb_strip_nulls(jsonb_build_object('reclaimed_in_replay', l.replay_count,
                                                                     'reclaimed_in_retry', l.retry_count)) END
    FROM lapsed l
   WHERE {in_partitions:a} AND {same_execution:a, l} AND a.attempt_index = l.attempt_index
),
reclaimable AS (
  UPDATE {schema}.ff_exec_core c
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
         -- As interrupted, FlowFabric's claim_execution would refuse it.
         attempt_state = 'pending_retry_attempt', public_state = 'waiting', attempt_index = l.attempt_index,
         raw_fields = {object:c.raw_fields} || jsonb_build_object('lease_expired_at_ms', l.now_ms)
           || {attempt_count:l.attempt_index}
    FROM lapsed l
   WHERE l.outcome = 'reclaimable'
     AND {in_partitions:c} AND {same_execution:c, l}
),
disowned AS (
  UPDATE {schema}.ff_exec_core c
     SET ownership_state = 'unowned'
    FROM lapsed l
   WHERE l.outcome = 'released' AND c.ownership_state = 'leased'
     AND {in_partitions:c} AND {same_execution:c, l}
),
lease_event AS (
  {lease_events:'expired', lapsed WHERE outcome <> 'stale_cleared'}
),
moved AS (SELECT partition_key, execution_id, attempt_index, due_at_ms, outcome FROM lapsed))sql";

}  // namespace

Reconciler lease_expiry() {
  using namespace std::chrono_literals;
  return lapsed_lease::with_delayed(
      {.name = "lease_expiry",
       .summary = "Takes back a lapsed lease, so that another worker can continue the same attempt.",
       .outcomes = {{"reclaimable", Effect::given_back}, "released", "stale_cleared"},
       .key = {{"execution_id", "uuid"}, {"attempt_index", "integer"}},
       .execution_column = "execution_id",
       .scan = kScan,
       .act = kAct,
       // attempt_timeout takes active executions only.
       .fragments = {{"is_ours",
                      R"sql(({most_reclaims} IS NULL OR c.lifecycle_phase IS DISTINCT FROM 'active'
          OR {reclaims_of_run:a, c} < {most_reclaims}))sql"}},
       .privileges = {{"ff_attempt", "SELECT, UPDATE"},
                      {"ff_exec_core", "SELECT, UPDATE"},
                      {"ff_claim_grant", "SELECT"},
                      {"ff_lease_event", "INSERT"}},
       .leads = {{"ff_attempt", "ff_attempt_lease_expiry_idx"}},
       .interval = 1500ms,
       .takes_leases = true,
       .settings = {{.name = "max_reclaims",
                     .kind = SettingDecl::Kind::count,
                     .fallback = 3,
                     .least = 0,
                     .most = 1'000'000,
                     .may_be_unlimited = true,
                     .summary = "how often an attempt is reclaimed before attempt_timeout takes it"},
                    lapsed_lease::grace()},
       // How often an attempt is reclaimed before it is left to attempt_timeout; null: without end. Whether those
       // that were wait for their turn.
       .own_parameters = {"most_reclaims", "delays"},
       .parameters = [](const Settings& own, const Family& family) {
         const bool shared = family.find("attempt_timeout") != nullptr;
         return pg::Params::of(shared ? own.at("max_reclaims") : std::nullopt, family.delays_reclaims);
       }});
}

}  // namespace ff::reconcile
