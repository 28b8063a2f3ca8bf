// suspension_timeout: a suspension that has waited too long ends as its timeout_behavior says.
//
// Rows     ff_suspension_current with timeout_at_ms passed. Beside them, whatever their time-out, those of executions
//          that have ended and still have a waitpoint open, for a cancel leaves both, and a late signal would make
//          the execution runnable again. A companion walks through ff_waitpoint_pending to find them; another one
//          takes those that the newest lease events name, a second after a cancel that writes one. Waitpoints without
//          a suspension row are stray_waitpoint's.
// Changes  Only of an execution that is suspended: auto_resume_with_timeout_signal appends a signal to
//          member_map.__timeout__ and leaves the execution resumable, as a signal that satisfies the suspension
//          would; any other behaviour ends it: core terminal, suspension and waitpoints deleted, one completion event.
//          Where the execution has ended already, suspension and waitpoints go. Where it was resumed before, only
//          the time-out goes: a resumed worker still reads its signals in member_map. So does a worker that may finish
//          what its flow's cancel calls cancelled, while its lease holds.
// Others   Workers and signals resume the same execution, signals append to the same member_map, other reconcilers
//          end it: whoever has locked any of its rows makes it wait for the next tick, waitpoints included, which a
//          signal locks first.
// Repeat   Afterwards the suspension is gone or has no time-out, so it is not found again.

#include "reconcile/family/ending.hpp"
#include "reconcile/family/let_finish.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/family/shortcut.hpp"
#include "reconcile/hold.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT s.partition_key, s.execution_id, s.timeout_at_ms AS due_at_ms{whose:c, NULL}
    FROM {schema}.ff_suspension_current s
    LEFT JOIN {core_of:s} c ON true
   WHERE {in_partitions:s} AND s.timeout_at_ms IS NOT NULL
     AND {filter:c})sql";

// The core row may be missing, and the missing side of an outer join cannot be locked: one after the other.
constexpr std::string_view kAct = R"sql(
suspension AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id, s.timeout_at_ms AS due_at_ms, s.timeout_behavior, clock.now_ms
    FROM clock, key
    JOIN {schema}.ff_suspension_current s ON {same_execution:s, key}
   WHERE {in_partitions:s} AND s.timeout_at_ms + 0 <= clock.due_ms
     FOR UPDATE OF s SKIP LOCKED
),
with_core AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.flow_id, c.raw_fields, c.cancelled_by,
         s.due_at_ms, s.now_ms, {next_attempt:c} AS next_attempt, {current_attempt:c} AS current_attempt,
         CASE WHEN {has_ended:c} AND {is_still_at_work:c} THEN 'resumed_before'
              WHEN {has_ended:c} THEN 'orphan_cleared'
              WHEN c.lifecycle_phase <> 'suspended' THEN 'resumed_before'
              WHEN s.timeout_behavior = 'auto_resume_with_timeout_signal' THEN 'auto_resumed'
              WHEN s.timeout_behavior = 'expire' THEN 'expired'
              WHEN s.timeout_behavior = 'escalate' THEN 'escalated'
              WHEN s.timeout_behavior = 'cancel' THEN 'cancelled'
              ELSE 'failed' END AS outcome
    FROM suspension s
    JOIN {schema}.ff_exec_core c ON {same_execution:c, s}
    {as_seen:c}
   WHERE {in_partitions:c}
     AND {filter:c} AND {in_sight:ff_attempt} AND ({has_not_ended:c} OR {backlog_in_sight})
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
doomed AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.current_attempt AS attempt_index, c.flow_id, c.now_ms, {event_origin:c},
         CASE WHEN c.outcome = 'cancelled' THEN 'cancelled' ELSE 'expired' END AS public_state,
         'attempt_terminal' AS attempt_state, NULL::text AS attempt_outcome,
         'expired' AS lease_event,
         'suspension_timeout_' || CASE c.outcome WHEN 'cancelled' THEN 'cancel' WHEN 'expired' THEN 'expire'
                                                 WHEN 'escalated' THEN 'escalate' ELSE 'fail' END AS cancellation_reason,
         c.cancelled_by, '{"last_failure_message": "suspension_timeout"}'::jsonb AS raw_patch,
         c.due_at_ms, c.outcome
    FROM with_core c
   WHERE c.outcome NOT IN ('auto_resumed', 'resumed_before', 'orphan_cleared')
),
{hold_doomed},
living AS MATERIALIZED (
  SELECT partition_key, execution_id, due_at_ms, now_ms, next_attempt, outcome, {event_origin:c}
    FROM with_core c
   WHERE outcome IN ('auto_resumed', 'resumed_before', 'orphan_cleared')
   UNION ALL
  SELECT s.partition_key, s.execution_id, s.due_at_ms, s.now_ms, NULL, 'orphan_cleared', NULL, NULL
    FROM suspension s
   WHERE {no_filter} AND {has_no_core:s}
),
open_waitpoint AS MATERIALIZED (
  SELECT w.partition_key, w.execution_id, w.waitpoint_id
    FROM living l
    JOIN {schema}.ff_waitpoint_pending w ON {same_execution:w, l}
   WHERE {in_partitions:w} AND l.outcome <> 'resumed_before'
     FOR UPDATE OF w SKIP LOCKED
),
held_open AS MATERIALIZED (
  SELECT w.partition_key, w.execution_id, w.waitpoint_id
    FROM living l
    JOIN {schema}.ff_waitpoint_pending w ON {same_execution:w, l}
   WHERE {in_partitions:w} AND l.outcome <> 'resumed_before'
  EXCEPT
  SELECT partition_key, execution_id, waitpoint_id FROM open_waitpoint
),
kept AS MATERIALIZED (
  SELECT l.*
    FROM living l
   WHERE (l.partition_key, l.execution_id) NOT IN (SELECT partition_key, execution_id FROM held_open)
     AND (l.outcome = 'resumed_before' OR {in_sight:ff_waitpoint_pending})
),
ending AS MATERIALIZED (SELECT * FROM endable),
{end_executions},
timeless AS (
  UPDATE {schema}.ff_suspension_current s
     SET timeout_at_ms = NULL,
         member_map = CASE WHEN l.outcome = 'resumed_before' THEN s.member_map ELSE
           {object:s.member_map} || jsonb_build_object('__timeout__',
           CASE WHEN jsonb_typeof(s.member_map->'__timeout__') = 'array' THEN s.member_map->'__timeout__' ELSE '[]' END
           || jsonb_build_array({signal})) END
    FROM kept l
   WHERE l.outcome IN ('auto_resumed', 'resumed_before')
     AND {in_partitions:s} AND {same_execution:s, l}
),
resumable AS (
  UPDATE {schema}.ff_exec_core c
     SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', public_state = 'resumable',
         attempt_index = l.next_attempt,
         raw_fields = {object:c.raw_fields} || {attempt_count:l.next_attempt}
    FROM kept l
   WHERE l.outcome = 'auto_resumed'
     AND {in_partitions:c} AND {same_execution:c, l}
),
-- Without the flow: FlowFabric's dispatch would count whatever ends in it, and is no success, as a failure.
resumable_event AS (
  {completion_events_of:NULL::uuid, 'resumable', kept WHERE outcome = 'auto_resumed'}
),
orphan_cleared AS (
  DELETE FROM {schema}.ff_suspension_current s
   USING kept l
   WHERE l.outcome = 'orphan_cleared'
     AND {in_partitions:s} AND {same_execution:s, l}
),
closed AS (
  DELETE FROM {schema}.ff_waitpoint_pending w
   USING kept l
   WHERE l.outcome <> 'resumed_before'
     AND {in_partitions:w} AND {same_execution:w, l}
),
moved AS (
  SELECT partition_key, execution_id, due_at_ms, outcome FROM kept
   UNION ALL
  SELECT partition_key, execution_id, due_at_ms, outcome FROM ending
))sql";

constexpr std::string_view kOrphanScan = R"sql(
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, coalesce(c.terminal_at_ms, w.created_at_ms) AS due_at_ms
    FROM {schema}.ff_waitpoint_pending w
    JOIN {core_of:w} c ON true
   WHERE {in_partitions:w} AND {in_slice:w} AND {has_ended:c} AND {filter:c} AND {has_suspension:c}
     AND NOT {is_still_at_work:c})sql";

// Of ended executions that lost a lease in the last seconds. What these miss, because so many came at once or because the
// transaction that wrote them lasted so long, the walk finds.
constexpr std::string_view kAnnouncedScan = R"sql(
  SELECT a.partition_key, w.waitpoint_id, w.execution_id, coalesce(c.terminal_at_ms, w.created_at_ms) AS due_at_ms
    FROM {lately_released} a
   -- Looked up by the execution, one by one.
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}.ff_waitpoint_pending w
                        WHERE {in_partitions:w} AND {same_execution:w, a}
                       OFFSET 0) w
    JOIN {core_of:w} c ON true
   WHERE {has_ended:c} AND {filter:c} AND {has_suspension:c}
     AND NOT {is_still_at_work:c})sql";

// Each waitpoint by itself: the first one takes the suspension along.
constexpr std::string_view kOrphanAct = R"sql(
waitpoint AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.created_at_ms, clock.due_ms
    FROM clock, key
    JOIN {schema}.ff_waitpoint_pending w ON w.partition_key = key.partition_key AND w.waitpoint_id = key.waitpoint_id
   WHERE {in_partitions:w}
     FOR UPDATE OF w SKIP LOCKED
),
orphan AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, coalesce(c.terminal_at_ms, w.created_at_ms) AS due_at_ms
    FROM waitpoint w
    JOIN {schema}.ff_exec_core c ON {same_execution:c, w}
    {as_seen:c}
   WHERE {in_partitions:c} AND coalesce(c.terminal_at_ms, w.created_at_ms) <= w.due_ms AND {has_ended:c}
     AND NOT {is_still_at_work:c} AND {filter:c} AND {in_sight:ff_attempt} AND {backlog_in_sight}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
suspension AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id
    FROM orphan o
    JOIN {schema}.ff_suspension_current s ON {same_execution:s, o}
   WHERE {in_partitions:s}
     FOR UPDATE OF s SKIP LOCKED
),
-- Held by others, or gone: then its waitpoints are stray_waitpoint's.
not_mine AS MATERIALIZED (
  SELECT partition_key, execution_id FROM orphan
  EXCEPT
  SELECT partition_key, execution_id FROM suspension
),
clear AS MATERIALIZED (
  SELECT o.*
    FROM orphan o
   WHERE (o.partition_key, o.execution_id) NOT IN (SELECT partition_key, execution_id FROM not_mine)
),
suspension_cleared AS (
  DELETE FROM {schema}.ff_suspension_current s
   USING clear o
   WHERE {in_partitions:s} AND {same_execution:s, o}
),
waitpoint_cleared AS (
  DELETE FROM {schema}.ff_waitpoint_pending w
   USING clear o
   WHERE {in_partitions:w} AND w.partition_key = o.partition_key AND w.waitpoint_id = o.waitpoint_id
),
moved AS (SELECT partition_key, waitpoint_id, execution_id, due_at_ms, 'orphan_cleared' AS outcome FROM clear))sql";

constexpr Outcome kOrphanCleared{"orphan_cleared", Effect::deleted,
                                 "the execution had ended, or was gone, and had left it open"};

}  // namespace

Reconciler suspension_timeout() {
  using namespace std::chrono_literals;
  Reconciler timeouts{
      .name = "suspension_timeout",
      .summary =
          "Resumes or ends an execution that was suspended for too long, as its timeout_behavior says.",
      .outcomes = {{"auto_resumed", Effect::given_back},
                   {"failed", Effect::ended, "its suspension timed out, and timeout_behavior is to fail"},
                   {"expired", Effect::ended, "its suspension timed out, and timeout_behavior is expire"},
                   {"escalated", Effect::ended, "its suspension timed out, and timeout_behavior is escalate"},
                   {"cancelled", Effect::ended, "its suspension timed out, and timeout_behavior is cancel"},
                   "resumed_before",
                   kOrphanCleared},
      .key = {{"execution_id", "uuid"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      // In the form in which FlowFabric reads signals back: it passes over one whose signal_id is no uuid.
      .fragments = {{"signal",
                     R"sql(jsonb_build_object(
             'signal_id', gen_random_uuid(), 'signal_name', 'timeout', 'signal_category', 'timeout',
             'source_type', 'suspension_timeout', 'source_identity', '', 'correlation_id', '',
             'accepted_at', l.now_ms, 'payload_hex', NULL))sql"},
                    // Asked of the core, and so only once that is known to have ended.
                    {"has_suspension(core)",
                     R"sql((SELECT true
                  FROM {schema}.ff_suspension_current i
                 WHERE {in_partitions:i} AND {same_execution:i, {core}}
                 LIMIT 1) IS NOT NULL)sql"}},
      .privileges = ending::privileges(let_finish::privileges({{"ff_lease_event", "SELECT"}})),
      .leads = {{"ff_suspension_current", "ff_suspension_current_timeout_idx"},
                {"ff_lease_event", "ff_lease_event_partition_key_idx"}},
      .interval = 2s,
      .settings = {kHoldAbove}};
  Reconciler orphans = timeouts;
  orphans.outcomes = {kOrphanCleared};
  orphans.key = {{"waitpoint_id", "uuid"}};
  orphans.walk = {{.table = "ff_waitpoint_pending", .key = "waitpoint_id"}};
  orphans.scan = kOrphanScan;
  orphans.act = kOrphanAct;
  orphans.interval = 5s;
  orphans.rows_meet = true;
  timeouts.companions = {shortcut_of(orphans, kAnnouncedScan, 1s), orphans};
  return timeouts;
}

}  // namespace ff::reconcile
