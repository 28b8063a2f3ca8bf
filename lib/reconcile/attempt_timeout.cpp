// attempt_timeout: an active execution whose current lease has lapsed is retried, or ended when no retry is
// left.
//
// Rows     ff_attempt with a lease older than `grace` whose execution is `active`, unless it is promised to somebody
//          (a reclaim grant that has not expired). A lapsed lease on an older attempt than the current one is only
//          cleared, whatever the phase: the newer attempt may be healthy.
// Changes  the attempt (interrupted, no lease, epoch + 1), the core (runnable for the next attempt, or terminal and
//          expired), one lease event, and one completion event where the execution ended.
// Others   Workers renew, complete or fail the same attempt: they lock it first, and what they hold is
//          skipped here; once they are done the lease is no longer lapsed. Workers that claim write the core, which
//          has to be as this statement has seen it. lease_expiry takes the same rows until an attempt has been
//          reclaimed `max_reclaims` times (division: see `parameters`). A worker that wakes up late finds another
//          epoch.
// Repeat   The lease is null afterwards, so the row is not found again.
//
// Behaviour follows FlowFabric's attempt_timeout reconciler; the differences are listed in the README.

#include "lease/outbox.hpp"
#include "reconcile/phrases.hpp"
#include "reconcile/registry.hpp"

namespace ff::reconcile {
namespace {

using phrases::core_matches;
using phrases::event_origin;
using phrases::object;
using phrases::whole_number;

// $5: how often lease_expiry reclaims an attempt before this reconciler takes it; null: at once.
const std::string kIsOurs = "($5 IS NULL OR " + whole_number("a.raw_fields->'lease_reclaims'") + " >= $5)";

// An active execution's, or one that an older attempt has left behind.
const std::string kIsLeft =
    "(c.lifecycle_phase = 'active' OR a.attempt_index <> " + phrases::current_attempt("c") + ")";

const std::string kConditions = kIsLeft + " AND " + kIsOurs + " AND " + core_matches("c");

const std::string kScan = R"sql(
  SELECT a.partition_key, a.execution_id, a.attempt_index, a.lease_expires_at_ms AS due_at_ms
    FROM ff_attempt a
    JOIN )sql" + phrases::core_of("a") +
                          R"sql( c ON true
   WHERE a.partition_key = ANY($1)
     AND a.lease_expires_at_ms IS NOT NULL
     AND )sql" + kConditions;

const std::string kAct =
    R"sql(
lapsed AS MATERIALIZED (
  SELECT a.partition_key, a.execution_id, a.attempt_index, a.lease_expires_at_ms AS due_at_ms,
         c.flow_id, clock.now_ms, )sql" +
    event_origin("c") + R"sql(,
         CASE WHEN a.attempt_index <> )sql" +
    phrases::current_attempt("c") + R"sql( THEN 'stale_cleared'
              WHEN a.attempt_index < )sql" +
    whole_number("c.policy->'retry_policy'->'max_retries'") + R"sql( THEN 'retried'
              ELSE 'expired' END AS outcome
    FROM clock, key
    JOIN ff_attempt a ON a.partition_key = key.partition_key AND a.execution_id = key.execution_id
                     AND a.attempt_index = key.attempt_index
    JOIN ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
    )sql" +
    phrases::as_seen("c") + R"sql(
   WHERE a.partition_key = ANY($1) AND c.partition_key = ANY($1)
     AND a.lease_expires_at_ms + 0 <= clock.due_ms
     AND )sql" +
    kConditions + " AND NOT " + phrases::promised("a") + R"sql(
     FOR NO KEY UPDATE OF a, c SKIP LOCKED
),
attempt AS (
  UPDATE ff_attempt a
     SET outcome = CASE WHEN l.outcome = 'stale_cleared' THEN coalesce(a.outcome, 'interrupted') ELSE 'interrupted' END,
         lease_expires_at_ms = NULL,
         lease_epoch = a.lease_epoch + 1,
         terminal_at_ms = CASE WHEN l.outcome = 'stale_cleared' THEN a.terminal_at_ms ELSE l.now_ms END
    FROM lapsed l
   WHERE a.partition_key = ANY($1) AND a.partition_key = l.partition_key
     AND a.execution_id = l.execution_id AND a.attempt_index = l.attempt_index
),
core AS (
  UPDATE ff_exec_core c
     SET lifecycle_phase = n.lifecycle_phase, ownership_state = 'unowned', eligibility_state = n.eligibility_state,
         attempt_state = n.attempt_state, public_state = n.public_state,
         attempt_index = CASE WHEN n.outcome = 'retried' THEN l.attempt_index + 1 ELSE c.attempt_index END,
         terminal_at_ms = CASE WHEN n.outcome = 'expired' THEN l.now_ms ELSE c.terminal_at_ms END,
         raw_fields = )sql" +
    object("c.raw_fields") + R"sql( || '{"last_failure_message": "attempt_timeout"}'
           || CASE WHEN n.outcome = 'retried' THEN )sql" +
    phrases::attempt_count("l.attempt_index + 1") + R"sql( ELSE '{}' END
    FROM lapsed l
    JOIN (VALUES ('retried', 'runnable', 'eligible_now', 'pending_retry_attempt', 'waiting'),
                 ('expired', 'terminal', 'not_applicable', 'attempt_terminal', 'expired'))
         AS n(outcome, lifecycle_phase, eligibility_state, attempt_state, public_state) USING (outcome)
   WHERE c.partition_key = ANY($1) AND c.partition_key = l.partition_key AND c.execution_id = l.execution_id
),
completion_event AS ()sql" +
    phrases::append_completion_events("expired", "lapsed WHERE outcome = 'expired'") + R"sql(),
lease_event AS ()sql" +
    lease::append_events(lease::EventType::expired, "lapsed WHERE outcome <> 'stale_cleared'") + R"sql(),
moved AS (SELECT partition_key, execution_id, attempt_index, due_at_ms, outcome FROM lapsed))sql";

}  // namespace

Reconciler attempt_timeout() {
  using namespace std::chrono_literals;
  return {
      .name = "attempt_timeout",
      .summary =
          "Retries an active execution whose lease has lapsed, or ends it as expired when no retry is left.",
      .outcomes = {"retried", "expired", "stale_cleared"},
      .key = {{"execution_id", "uuid"}, {"attempt_index", "integer"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .forbidden = phrases::promised("key"),
      .privileges = {{"ff_attempt", "SELECT, UPDATE"},
                     {"ff_exec_core", "SELECT, UPDATE"},
                     {"ff_claim_grant", "SELECT"},
                     {"ff_lease_event", "INSERT"},
                     {"ff_completion_event", "INSERT"}},
      .interval = 2s,
      .takes_leases = true,
      .settings = {{.name = "grace",
                    .kind = SettingDecl::Kind::duration,
                    .fallback = 0,
                    .least = 0,
                    .most = Milliseconds{24h}.count(),
                    .summary = "how long after it lapsed a lease is still left alone"}},
      .holdoff = [](const Settings& own) { return Milliseconds{*own.at("grace")} + 1ms; },
      // A lease is given and renewed with an event; an execution becomes active with one.
      .announced = [](const Settings&) { return std::optional(Announcement{kLeaseChannel}); },
      .parameters =
          [](const Settings&, const Family& family) {
            const Settings* lease_expiry = family.find("lease_expiry");
            return pg::Params::of(lease_expiry == nullptr ? std::nullopt : lease_expiry->at("max_reclaims"));
          }};
}

}  // namespace ff::reconcile
