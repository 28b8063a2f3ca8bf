// suspension_timeout: a suspension that has waited too long ends as its timeout_behavior says.
//
// Rows     ff_suspension_current with timeout_at_ms passed.
// Changes  auto_resume_with_timeout_signal: a signal is appended to member_map.__timeout__ and the time-out
//          is taken away; whoever evaluates the suspension resumes the execution. Any other behaviour ends
//          the execution: core terminal, suspension and waitpoints deleted, one completion event. Where the
//          execution has ended already, only the suspension goes.
// Others   Workers and signals resume the same execution, pending_waitpoint_expiry marks the same
//          member_map, other reconcilers end it: whoever has locked any of its rows makes it wait for the
//          next tick.
// Repeat   Afterwards the suspension is gone or has no time-out, so it is not found again.

#include "reconcile/ending.hpp"
#include "reconcile/phrases.hpp"
#include "reconcile/registry.hpp"

namespace ff::reconcile {
namespace {

using phrases::core_matches;
using phrases::event_origin;
using phrases::object;

const std::string kScan = R"sql(
  SELECT s.partition_key, s.execution_id, s.timeout_at_ms AS due_at_ms
    FROM ff_suspension_current s
    LEFT JOIN )sql" + phrases::core_of("s") +
                          R"sql( c ON true
   WHERE s.partition_key = ANY($1) AND s.timeout_at_ms IS NOT NULL
     AND )sql" + core_matches("c");

// The core row may be missing, and the missing side of an outer join cannot be locked: one after the other.
const std::string kAct = R"sql(
suspension AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id, s.timeout_at_ms AS due_at_ms, s.timeout_behavior, clock.now_ms
    FROM clock, key
    JOIN ff_suspension_current s ON s.partition_key = key.partition_key AND s.execution_id = key.execution_id
   WHERE s.partition_key = ANY($1) AND s.timeout_at_ms + 0 <= clock.due_ms
     FOR UPDATE OF s SKIP LOCKED
),
with_core AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.attempt_index, c.flow_id, c.raw_fields, c.cancelled_by,
         s.due_at_ms, s.now_ms,
         CASE WHEN c.lifecycle_phase IN ('terminal', 'cancelled') THEN 'orphan_cleared'
              WHEN s.timeout_behavior = 'auto_resume_with_timeout_signal' THEN 'auto_resumed'
              WHEN s.timeout_behavior = 'expire' THEN 'expired'
              WHEN s.timeout_behavior = 'escalate' THEN 'escalated'
              WHEN s.timeout_behavior = 'cancel' THEN 'cancelled'
              ELSE 'failed' END AS outcome
    FROM suspension s
    JOIN ff_exec_core c ON c.partition_key = s.partition_key AND c.execution_id = s.execution_id
   WHERE c.partition_key = ANY($1)
     AND )sql" + core_matches("c") +
                         R"sql(
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
doomed AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.attempt_index, c.flow_id, c.now_ms, )sql" +
                         event_origin("c") + R"sql(,
         CASE WHEN c.outcome = 'cancelled' THEN 'cancelled' ELSE 'expired' END AS public_state,
         'attempt_terminal' AS attempt_state, NULL::text AS attempt_outcome,
         'expired' AS lease_event, false AS was_leased,
         'suspension_timeout_' || CASE c.outcome WHEN 'cancelled' THEN 'cancel' WHEN 'expired' THEN 'expire'
                                                 WHEN 'escalated' THEN 'escalate' ELSE 'fail' END AS cancellation_reason,
         c.cancelled_by, '{"last_failure_message": "suspension_timeout"}'::jsonb AS raw_patch,
         c.due_at_ms, c.outcome
    FROM with_core c
   WHERE c.outcome NOT IN ('auto_resumed', 'orphan_cleared')
),)sql" + ending::hold_doomed() +
                         R"sql(
kept AS MATERIALIZED (
  SELECT partition_key, execution_id, due_at_ms, now_ms, outcome
    FROM with_core
   WHERE outcome IN ('auto_resumed', 'orphan_cleared')
   UNION ALL
  SELECT s.partition_key, s.execution_id, s.due_at_ms, s.now_ms, 'orphan_cleared'
    FROM suspension s
   WHERE NOT EXISTS (SELECT FROM ff_exec_core e
                      WHERE e.partition_key = ANY($1) AND e.partition_key = s.partition_key
                        AND e.execution_id = s.execution_id)
     AND )sql" + phrases::no_core_matches() +
                         R"sql(
),
ending AS MATERIALIZED (SELECT * FROM endable),)sql" +
                         ending::end_executions() + R"sql(
auto_resumed AS (
  UPDATE ff_suspension_current s
     SET timeout_at_ms = NULL,
         member_map = )sql" +
                         object("s.member_map") + R"sql( || jsonb_build_object('__timeout__',
           CASE WHEN jsonb_typeof(s.member_map->'__timeout__') = 'array' THEN s.member_map->'__timeout__' ELSE '[]' END
           || jsonb_build_array(jsonb_build_object('signal_name', 'timeout', 'payload', NULL,
                                                   'delivered_at_ms', l.now_ms, 'source', 'suspension_timeout')))
    FROM kept l
   WHERE l.outcome = 'auto_resumed'
     AND s.partition_key = ANY($1) AND s.partition_key = l.partition_key AND s.execution_id = l.execution_id
),
orphan_cleared AS (
  DELETE FROM ff_suspension_current s
   USING kept l
   WHERE l.outcome = 'orphan_cleared'
     AND s.partition_key = ANY($1) AND s.partition_key = l.partition_key AND s.execution_id = l.execution_id
),
moved AS (
  SELECT partition_key, execution_id, due_at_ms, outcome FROM kept
   UNION ALL
  SELECT partition_key, execution_id, due_at_ms, outcome FROM ending
))sql";

}  // namespace

Reconciler suspension_timeout() {
  using namespace std::chrono_literals;
  return {.name = "suspension_timeout",
          .summary =
              "Resumes or ends an execution that was suspended for too long, as its timeout_behavior says.",
          .outcomes = {"auto_resumed", "failed", "expired", "escalated", "cancelled", "orphan_cleared"},
          .key = {{"execution_id", "uuid"}},
          .execution_column = "execution_id",
          .scan = kScan,
          .act = kAct,
          .interval = 2s};
}

}  // namespace ff::reconcile
