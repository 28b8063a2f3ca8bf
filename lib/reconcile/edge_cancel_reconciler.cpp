// edge_cancel_reconciler: tidies up pending cancel groups that have nothing left to cancel.
//
// Rows     ff_pending_cancel_groups, as edge_cancel_dispatcher, whose work it never does.
// Changes  no edge group, or its flag is down: the pending row is deleted (sremmed_stale). Flag up and
//          every listed member ended or gone: flag and list are cleared, the pending row is deleted
//          (completed_drain); a list entry that is no uuid is ignored (malformed). Otherwise nothing (no_op).
// Others   The dispatcher, dependency and other replicas: what they hold is left alone.
// Repeat   The pending row is gone afterwards.

#include "reconcile/cancel_groups.hpp"
#include "reconcile/phrases.hpp"
#include "reconcile/registry.hpp"

namespace ff::reconcile {
namespace {

const std::string kAct = cancel_groups::hold_groups() + R"sql(
judged AS MATERIALIZED (
  SELECT g.partition_key, g.flow_id, g.downstream_eid, g.due_at_ms, g.members,
         CASE WHEN NOT g.flag THEN 'sremmed_stale'
              WHEN EXISTS (SELECT FROM unnest(g.members) AS m(text)
                             JOIN ff_exec_core c ON c.execution_id = )sql" +
                         phrases::uuid("m.text") + R"sql(
                            WHERE c.partition_key = ANY($1) AND c.partition_key = g.partition_key
                              AND c.lifecycle_phase NOT IN ('terminal', 'cancelled')) THEN 'no_op'
              ELSE 'completed_drain' END AS outcome
    FROM edge_group g
   UNION ALL
  SELECT partition_key, flow_id, downstream_eid, due_at_ms, NULL,
         CASE WHEN is_there THEN 'no_op' ELSE 'sremmed_stale' END
    FROM without_group
),
cleared AS (
  UPDATE ff_edge_group g
     SET cancel_siblings_pending_flag = false, cancel_siblings_pending_members = '{}'
    FROM judged j
   WHERE j.outcome = 'completed_drain' AND g.partition_key = ANY($1) AND g.partition_key = j.partition_key
     AND g.flow_id = j.flow_id AND g.downstream_eid = j.downstream_eid
),
done AS (
  DELETE FROM ff_pending_cancel_groups p
   USING judged j
   WHERE j.outcome <> 'no_op' AND p.partition_key = ANY($1) AND p.partition_key = j.partition_key
     AND p.flow_id = j.flow_id AND p.downstream_eid = j.downstream_eid
),
moved AS (
  SELECT partition_key, flow_id, downstream_eid, due_at_ms, outcome FROM judged
   UNION ALL
  SELECT j.partition_key, j.flow_id, j.downstream_eid, j.due_at_ms, 'malformed'
    FROM judged j, unnest(j.members) AS m(text)
   WHERE j.outcome = 'completed_drain' AND )sql" +
                         phrases::uuid("m.text") + R"sql( IS NULL
))sql";

}  // namespace

Reconciler edge_cancel_reconciler() {
  using namespace std::chrono_literals;
  return {.name = "edge_cancel_reconciler",
          .summary = "Removes pending sibling cancellations that have nothing left to cancel.",
          .outcomes = {"sremmed_stale", "completed_drain", "no_op", "malformed"},
          .left_alone = {"no_op", "malformed"},
          .key = {{"flow_id", "uuid"}, {"downstream_eid", "uuid"}},
          .execution_column = "downstream_eid",
          .scan = cancel_groups::scan(),
          .act = kAct,
          .privileges = cancel_groups::privileges(),
          .interval = 10s,
          .batch_size = 50,
          .holdoff = [](const Settings&) { return Milliseconds{0}; },
          .announced = cancel_groups::announced};
}

}  // namespace ff::reconcile
