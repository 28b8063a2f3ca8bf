// attempt_timeout: an active execution whose current lease has lapsed is retried, or ended when no retry is
// left.
//
// Rows     ff_attempt with a lease older than `grace` whose execution is `active`, unless it is promised to somebody
//          (a reclaim grant that has not expired). A lapsed lease on an older attempt than the current one is only
//          cleared, whatever the phase: the newer attempt may be healthy.
// Changes  the attempt (interrupted, no lease, epoch + 1), the core (runnable for the next attempt, or terminal and
//          expired), one lease event. Where the execution ended also one completion event, what leases older attempts
//          had, its suspension and waitpoints (deleted): a worker that a signal has resumed keeps the former, and a
//          signal on a waitpoint that it has made since would find that satisfied.
// Others   Workers renew, complete or fail the same attempt: they lock it first, and what they hold is
//          skipped here; once they are done the lease is no longer lapsed. Signals lock waitpoint, suspension and core: an
//          execution that is to end waits until they are done. Workers that claim write the core, which
//          has to be as this statement has seen it. lease_expiry takes the same rows until an attempt has been
//          reclaimed `max_reclaims` times (division: see `parameters`). A worker that wakes up late finds another
//          epoch.
//          With storm control an attempt that was reclaimed in this run is due some seconds after its lapse, and
//          looked for by a companion.
// Repeat   The lease is null afterwards, so the row is not found again.
//
// Behaviour follows FlowFabric's attempt_timeout reconciler; the differences are listed in the README.

#include "reconcile/family/ending.hpp"
#include "reconcile/family/lapsed_lease.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT a.partition_key, a.execution_id, a.attempt_index, {due_at:a, c} AS due_at_ms{whose:c, a.worker_instance_id}
    FROM {schema}.ff_attempt a
    JOIN {core_of:a} c ON true
   WHERE {in_partitions:a}
     AND a.lease_expires_at_ms IS NOT NULL AND {has_its_turn:a, c}
     AND {is_left} AND {is_ours} AND {filter:c})sql";

constexpr std::string_view kAct = R"sql(
lapsed AS MATERIALIZED (
  SELECT a.partition_key, a.execution_id, a.attempt_index, {due_at:a, c} AS due_at_ms,
         c.flow_id, clock.now_ms, {event_origin:c}, c.cancellation_reason, c.cancelled_by,
         CASE WHEN a.attempt_index <> {current_attempt:c} THEN 'stale_cleared'
              WHEN a.attempt_index < {whole_number:c.policy->'retry_policy'->'max_retries'} THEN 'retried'
              ELSE 'expired' END AS outcome
    FROM clock, key
    JOIN {schema}.ff_attempt a ON {same_execution:a, key}
                              AND a.attempt_index = key.attempt_index
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    {as_seen:c}
   WHERE {in_partitions:a} AND {in_partitions:c}
     AND {due_at:a, c} + 0 <= clock.due_ms AND {has_its_turn:a, c}
     AND {is_left} AND {is_ours} AND {filter:c} AND NOT {promised:a}
     FOR NO KEY UPDATE OF a, c SKIP LOCKED
),
doomed AS MATERIALIZED (
  SELECT partition_key, execution_id, attempt_index, flow_id, now_ms, name_space, instance_tag,
         'expired' AS public_state, 'attempt_terminal' AS attempt_state, 'interrupted' AS attempt_outcome,
         'expired' AS lease_event, cancellation_reason, cancelled_by,
         '{"last_failure_message": "attempt_timeout"}'::jsonb AS raw_patch, due_at_ms
    FROM lapsed
   WHERE outcome = 'expired'
),
{hold_doomed},
ending AS MATERIALIZED (SELECT * FROM endable),
{end_executions},
living AS MATERIALIZED (SELECT * FROM lapsed WHERE outcome <> 'expired'),
-- A lease of an older attempt may be an ended execution's as well: both write the same.
attempt AS (
  UPDATE {schema}.ff_attempt a
     SET outcome = CASE WHEN l.outcome = 'stale_cleared' THEN coalesce(a.outcome, 'interrupted') ELSE 'interrupted' END,
         lease_expires_at_ms = NULL,
         lease_epoch = a.lease_epoch + 1,
         terminal_at_ms = CASE WHEN l.outcome = 'stale_cleared' THEN a.terminal_at_ms ELSE l.now_ms END
    FROM living l
   WHERE {in_partitions:a} AND {same_execution:a, l} AND a.attempt_index = l.attempt_index
),
core AS (
  UPDATE {schema}.ff_exec_core c
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
         attempt_state = 'pending_retry_attempt', public_state = 'waiting', attempt_index = l.attempt_index + 1,
         raw_fields = {object:c.raw_fields} || '{"last_failure_message": "attempt_timeout"}'
           || {attempt_count:l.attempt_index + 1}
    FROM living l
   WHERE l.outcome = 'retried'
     AND {in_partitions:c} AND {same_execution:c, l}
),
lease_event AS (
  {lease_events:'expired', living WHERE outcome = 'retried'}
),
moved AS (
  SELECT partition_key, execution_id, attempt_index, due_at_ms, outcome FROM living
   UNION ALL
  SELECT partition_key, execution_id, attempt_index, due_at_ms, 'expired' FROM ending
))sql";

}  // namespace

Reconciler attempt_timeout() {
  using namespace std::chrono_literals;
  return lapsed_lease::with_delayed(
      {.name = "attempt_timeout",
       .summary =
           "Retries an active execution whose lease has lapsed, or ends it as expired when no retry is left.",
       .outcomes = {{"retried", Effect::given_back},
                    {"expired", Effect::ended, "its lease lapsed and no retry was left"},
                    "stale_cleared"},
       .key = {{"execution_id", "uuid"}, {"attempt_index", "integer"}},
       .execution_column = "execution_id",
       .scan = kScan,
       .act = kAct,
       .fragments =
           {// An active execution's, or one that an older attempt has left behind.
            {"is_left", "(c.lifecycle_phase = 'active' OR a.attempt_index <> {current_attempt:c})"},
            {"is_ours", "({reclaims_before} IS NULL OR {reclaims_of_run:a, c} >= {reclaims_before})"}},
       .privileges = ending::privileges({{"ff_claim_grant", "SELECT"}}),
       .leads = {{"ff_attempt", "ff_attempt_lease_expiry_idx"}},
       .interval = 2s,
       .takes_leases = true,
       .settings = {lapsed_lease::grace()},
       // How often lease_expiry reclaims an attempt before this reconciler takes it; null: at once. Whether those that
       // were reclaimed wait for their turn.
       .own_parameters = {"reclaims_before", "delays"},
       .parameters = [](const Settings&, const Family& family) {
         const Settings* lease_expiry = family.find("lease_expiry");
         return pg::Params::of(lease_expiry == nullptr ? std::nullopt : lease_expiry->at("max_reclaims"),
                               family.delays_reclaims);
       }});
}

}  // namespace ff::reconcile
