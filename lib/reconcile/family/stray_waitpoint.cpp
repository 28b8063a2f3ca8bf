// stray_waitpoint: a waitpoint that no suspension uses any more goes.
//
// Rows     ff_waitpoint_pending, `active`, that belongs to no present suspension: its execution has no suspension row,
//          ended or not; or has not ended and is not suspended; or was suspended at another moment than the waitpoint
//          was activated (FlowFabric writes both from one reading). An operator's resume leaves it so, and a signal on
//          it would satisfy a later suspension of the same key. What an ended execution left beside its suspension row
//          is suspension_timeout's. No index leads there: the table is walked.
// Changes  the waitpoint is deleted. Nothing else, no event.
// Others   Signals lock the waitpoint, then the suspension, then the core; a worker that suspends anew writes all three:
//          what is held waits for the next tick, and so does an execution whose core was written since this statement
//          began. A worker that suspends again on this very waitpoint and comes later makes it anew.
// Repeat   The waitpoint is gone afterwards.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, {not_later:{since}} AS due_at_ms
    FROM {schema}.ff_waitpoint_pending w
    JOIN {core_of:w} c ON true
    -- By the core, and so only for what the filter asks for.
    LEFT JOIN {suspension_of:c} s ON true
   WHERE {in_partitions:w} AND {in_slice:w} AND {is_stray} AND {filter:c})sql";

// The suspension row may be missing, and the missing side of an outer join cannot be locked: one after the other.
constexpr std::string_view kAct = R"sql(
waitpoint AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.state, w.activated_at_ms, {since} AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_waitpoint_pending w ON w.partition_key = key.partition_key AND w.waitpoint_id = key.waitpoint_id
   WHERE {in_partitions:w} AND w.state = 'active'
     FOR UPDATE OF w SKIP LOCKED
),
suspension AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id
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
stray AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.due_at_ms
    FROM waitpoint w
    JOIN {schema}.ff_exec_core c ON {same_execution:c, w}
    {as_seen:c}
    LEFT JOIN {suspension_of:w} s ON true
   WHERE {in_partitions:c} AND {is_stray} AND {filter:c}
     AND (w.partition_key, w.execution_id) NOT IN (SELECT partition_key, execution_id FROM held)
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
cleared AS (
  DELETE FROM {schema}.ff_waitpoint_pending w
   USING stray o
   WHERE {in_partitions:w} AND w.partition_key = o.partition_key AND w.waitpoint_id = o.waitpoint_id
),
moved AS (SELECT partition_key, waitpoint_id, execution_id, due_at_ms, 'resumed_cleared' AS outcome FROM stray))sql";

std::vector<Fragment> own_fragments() {
  return {
      {"since", "coalesce(w.activated_at_ms, w.created_at_ms)"},
      {"suspension_of(row)",
       R"sql(LATERAL (SELECT *
                     FROM {schema}.ff_suspension_current i
                    WHERE {in_partitions:i} AND {same_execution:i, {row}}
                   OFFSET 0))sql"},
      // Of a waitpoint that does not say when it was activated nothing tells which suspension it was made for.
      {"is_stray",
       R"sql(w.state = 'active'
     AND (s.execution_id IS NULL
          OR {has_not_ended:c} AND (c.lifecycle_phase <> 'suspended' OR s.suspended_at_ms <> w.activated_at_ms)))sql"}};
}

}  // namespace

Reconciler stray_waitpoint() {
  using namespace std::chrono_literals;
  return {
      .name = "stray_waitpoint",
      .summary = "Deletes a waitpoint that an operator's resume or an end has left behind.",
      .outcomes = {{"resumed_cleared", Effect::deleted, "its execution had gone on without the waitpoint"}},
      .key = {{"waitpoint_id", "uuid"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = own_fragments(),
      .privileges = {{"ff_waitpoint_pending", "SELECT, UPDATE, DELETE"},
                     {"ff_suspension_current", "SELECT, UPDATE"},
                     {"ff_exec_core", "SELECT, UPDATE"}},
      .interval = 5s,
      // Several waitpoints of one execution lock the same core.
      .rows_meet = true,
      .walk = {{.table = "ff_waitpoint_pending", .key = "waitpoint_id", .rows = 5000}},
      .holdoff = [](const Settings&) { return Milliseconds{0}; }};
}

}  // namespace ff::reconcile
