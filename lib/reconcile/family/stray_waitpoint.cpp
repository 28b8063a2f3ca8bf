// stray_waitpoint: a waitpoint that no suspension uses any more goes, and one that has lost its key gets it back.
//
// Rows     ff_waitpoint_pending, `active`, that belongs to no present suspension: its execution has no suspension row,
//          ended or not; or has not ended and is not suspended; or was suspended at another moment than the waitpoint
//          was activated (FlowFabric writes both from one reading). An operator's resume leaves it so, and a signal on
//          it would satisfy a later suspension of the same key. What an ended execution left beside its suspension row
//          is suspension_timeout's.
//          Those of the present suspension without a key: FlowFabric suspends on a waitpoint whose row is gone, as it
//          has expired, or a signal has just deleted it, and writes it anew with the key ''. The condition names
//          another one, so that no signal on it counts. Which one, the condition tells where just one of its keys has
//          no waitpoint.
//          No index leads there: the table is walked. Those of who has just suspended are found within a second, by the
//          lease event that this writes.
// Changes  A waitpoint of no suspension is deleted. One that has lost its key gets it, with the names of the signals
//          that are waited for there, and the signals that it was sent meanwhile are moved from member_map[''] to
//          that key: they were accepted for it, and from then on FlowFabric counts them. It does so when the next signal
//          comes: nobody is resumed here, as that would be to decide the condition a second time. No event.
// Others   Signals lock the waitpoint, then the suspension, then the core; a worker that suspends anew writes all three:
//          what is held waits for the next tick, and so does an execution whose core was written since this statement
//          began. A worker that suspends again on a waitpoint that was deleted here and comes later makes it anew.
// Repeat   The waitpoint is gone afterwards, or has a key.

#include "reconcile/family/registry.hpp"
#include "reconcile/family/resume_condition.hpp"
#include "reconcile/family/shortcut.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, {not_later:{since}} AS due_at_ms
    FROM {schema}.ff_waitpoint_pending w
    JOIN {core_of:w} c ON true
    -- By the core, and so only for what the filter asks for.
    LEFT JOIN {suspension_of:c} s ON true
   WHERE {in_partitions:w} AND {in_slice:w} AND w.state = 'active' AND ({is_stray} OR {has_lost_its_key}) AND {filter:c})sql";

// Of who gave up a lease in the last seconds, as suspending does.
constexpr std::string_view kAnnouncedScan = R"sql(
  SELECT a.partition_key, w.waitpoint_id, w.execution_id, {not_later:{since}} AS due_at_ms
    FROM {lately_released} a
   -- Looked up by the execution, one by one.
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}.ff_waitpoint_pending i
                        WHERE {in_partitions:i} AND {same_execution:i, a} AND i.state = 'active'
                       OFFSET 0) w
    JOIN {core_of:w} c ON true
    LEFT JOIN {suspension_of:c} s ON true
   WHERE ({is_stray} OR {has_lost_its_key}) AND {filter:c})sql";

// The suspension row may be missing, and the missing side of an outer join cannot be locked: one after the other.
constexpr std::string_view kAct = R"sql(
waitpoint AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.waitpoint_key, w.activated_at_ms, {since} AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_waitpoint_pending w ON w.partition_key = key.partition_key AND w.waitpoint_id = key.waitpoint_id
   WHERE {in_partitions:w} AND w.state = 'active'
     FOR UPDATE OF w SKIP LOCKED
),
suspension AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id, jsonb_typeof(s.member_map->'') = 'array' AS has_signals
    FROM waitpoint w
    JOIN {schema}.ff_suspension_current s ON {same_execution:s, w}
   WHERE {in_partitions:s}
     FOR UPDATE OF s SKIP LOCKED
),
held AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id
    FROM waitpoint w
    JOIN {schema}.ff_suspension_current s ON {same_execution:s, w}
   WHERE {in_partitions:s}
  EXCEPT
  SELECT partition_key, execution_id FROM suspension
),
settled AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.due_at_ms, s.condition,
         CASE WHEN {has_lost_its_key} THEN {lost_key:w, s} END AS lost_key
    FROM waitpoint w
    JOIN {schema}.ff_exec_core c ON {same_execution:c, w}
    {as_seen:c}
    LEFT JOIN {suspension_of:w} s ON true
   WHERE {in_partitions:c} AND ({is_stray} OR {has_lost_its_key}) AND {filter:c}
     AND (w.partition_key, w.execution_id) NOT IN (SELECT partition_key, execution_id FROM held)
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
cleared AS (
  DELETE FROM {schema}.ff_waitpoint_pending w
   USING settled o
   WHERE o.lost_key IS NULL
     AND {in_partitions:w} AND w.partition_key = o.partition_key AND w.waitpoint_id = o.waitpoint_id
),
-- What suspending wrote for the key '' stays: it is what no key has to do with.
rekeyed AS (
  UPDATE {schema}.ff_waitpoint_pending w
     SET waitpoint_key = o.lost_key,
         required_signal_names = w.required_signal_names || {names_at:o.condition, o.lost_key}
    FROM settled o
   WHERE o.lost_key IS NOT NULL
     AND {in_partitions:w} AND w.partition_key = o.partition_key AND w.waitpoint_id = o.waitpoint_id
),
signals_moved AS (
  UPDATE {schema}.ff_suspension_current s
     SET member_map = CASE WHEN coalesce(jsonb_typeof(s.member_map->o.lost_key), 'array') = 'array'
                           THEN (s.member_map - ''::text) || jsonb_build_object(
                             o.lost_key, coalesce(s.member_map->o.lost_key, '[]') || (s.member_map->''))
                           ELSE s.member_map END
    FROM settled o
   WHERE o.lost_key IS NOT NULL
     -- As it is under the lock. Where there are none, nothing is written: a signal on another of its waitpoints would fail to
     -- be serialized.
     AND ((s.partition_key, s.execution_id)
            IN (SELECT partition_key, execution_id FROM suspension WHERE has_signals)) IS TRUE
     AND {in_partitions:s} AND {same_execution:s, o}
),
moved AS (
  SELECT partition_key, waitpoint_id, execution_id, due_at_ms,
         CASE WHEN lost_key IS NULL THEN 'resumed_cleared' ELSE 'rekeyed' END AS outcome
    FROM settled
))sql";

std::vector<Fragment> own_fragments() {
  return with(
      resume_condition::phrases(),
      {{"since", "coalesce(w.activated_at_ms, w.created_at_ms)"},
       {"suspension_of(row)",
        R"sql(LATERAL (SELECT *
                     FROM {schema}.ff_suspension_current i
                    WHERE {in_partitions:i} AND {same_execution:i, {row}}
                   OFFSET 0))sql"},
       // Both of an active waitpoint. Of one that does not say when it was activated nothing tells which suspension it
       // was made for.
       {"is_stray",
        R"sql((s.execution_id IS NULL AND {in_sight:ff_suspension_current}
          OR {has_not_ended:c} AND (c.lifecycle_phase <> 'suspended' OR s.suspended_at_ms <> w.activated_at_ms)))sql"},
       {"has_lost_its_key",
        R"sql((w.waitpoint_key = '' AND c.lifecycle_phase = 'suspended' AND s.suspended_at_ms = w.activated_at_ms
          AND {lost_key:w, s} IS NOT NULL))sql"}});
}

}  // namespace

Reconciler stray_waitpoint() {
  using namespace std::chrono_literals;
  Reconciler strays{
      .name = "stray_waitpoint",
      .summary =
          "Deletes a waitpoint that an operator's resume or an end has left behind; gives one its lost key "
          "back.",
      .no_rows = "no waitpoint of a former suspension is open, and none has lost its key",
      .outcomes = {{"resumed_cleared", Effect::deleted, "its execution had gone on without the waitpoint"},
                   "rekeyed"},
      .key = {{"waitpoint_id", "uuid"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = own_fragments(),
      .privileges = {{"ff_waitpoint_pending", "SELECT, UPDATE, DELETE"},
                     {"ff_suspension_current", "SELECT, UPDATE"},
                     {"ff_exec_core", "SELECT, UPDATE"},
                     {"ff_lease_event", "SELECT"}},
      .interval = 5s,
      // Several waitpoints of one execution lock the same core.
      .rows_meet = true,
      .walk = {{.table = "ff_waitpoint_pending", .key = "waitpoint_id", .rows = 5000}},
      .holdoff = [](const Settings&) { return Milliseconds{0}; }};
  strays.companions = {shortcut_of(strays, kAnnouncedScan, 1s)};
  return strays;
}

}  // namespace ff::reconcile
