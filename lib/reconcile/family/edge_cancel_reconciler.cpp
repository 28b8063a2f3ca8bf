// edge_cancel_reconciler: tidies up pending cancel groups that have nothing left to cancel.
//
// Rows     ff_pending_cancel_groups, as edge_cancel_dispatcher, whose work it never does.
// Changes  no edge group, or its flag is down: the pending row is deleted (sremmed_stale). Flag up and
//          every listed member ended or gone: flag and list are cleared, the pending row is deleted
//          (completed_drain); a list entry that is no uuid is ignored (malformed). Otherwise nothing (no_op).
// Others   The dispatcher, dependency and other replicas: what they hold is left alone.
// Repeat   The pending row is gone afterwards.

#include "reconcile/family/cancel_groups.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kAct = R"sql(
{hold_groups},
judged AS MATERIALIZED (
  SELECT g.partition_key, g.flow_id, g.downstream_eid, g.due_at_ms, g.members,
         CASE WHEN NOT g.flag THEN 'sremmed_stale'
              WHEN EXISTS (SELECT FROM unnest(g.members) AS m(text)
                             JOIN {schema}.ff_exec_core c ON c.execution_id = {uuid:m.text}
                            WHERE {in_partitions:c} AND c.partition_key = g.partition_key
                              AND {has_not_ended:c}) THEN 'no_op'
              ELSE 'completed_drain' END AS outcome
    FROM edge_group g
   UNION ALL
  {judged_without_group:no_op, sremmed_stale}
),
{settle_groups:completed_drain, sremmed_stale})sql";

}  // namespace

Reconciler edge_cancel_reconciler() {
  using namespace std::chrono_literals;
  return {.name = "edge_cancel_reconciler",
          .summary = "Removes pending sibling cancellations that have nothing left to cancel.",
          .no_rows = "no upstream of its is to be cancelled",
          .outcomes = {{"sremmed_stale", Effect::deleted, "the fan-in is gone or asks for no cancellation"},
                       {"completed_drain", Effect::deleted, "all listed siblings had ended"},
                       {"no_op", Effect::left_alone},
                       {"malformed", Effect::left_alone}},
          .key = {{"flow_id", "uuid"}, {"downstream_eid", "uuid"}},
          .execution_column = "downstream_eid",
          .scan = cancel_groups::kPendingScan,
          .act = kAct,
          .fragments = cancel_groups::fragments(),
          .privileges = cancel_groups::privileges(),
          .leads = {{"ff_pending_cancel_groups", "ff_pending_cancel_groups_enqueued_idx"}},
          .interval = 10s,
          .batch_size = 50,
          .holdoff = cancel_groups::holdoff,
          .announced = cancel_groups::announced};
}

}  // namespace ff::reconcile
