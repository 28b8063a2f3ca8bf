// edge_cancel_dispatcher: when enough upstreams of a downstream have succeeded, the siblings that are still
// at work are cancelled.
//
// Rows     ff_pending_cancel_groups, oldest first; the filter is matched on the downstream execution.
// Changes  by the edge group of the row: gone, then the pending row is deleted (orphaned); flag raised,
//          then every listed sibling that has not ended is cancelled, with its lease, suspension and
//          waitpoints, one completion event each, flag and list are cleared and the pending row is deleted
//          (dispatched). A flag that is down is edge_cancel_reconciler's business (skipped_for_reconciler).
//          A list entry that is no uuid is ignored (malformed).
// Others   Workers complete the siblings, dependency raises the flag, other replicas dispatch the same
//          group. A group is taken as a whole or not at all: when any of its rows or siblings is held, it
//          waits for the next tick (skipped_locked).
// Repeat   The pending row is gone afterwards, and an ended sibling is no sibling any more.
//
// Behaviour follows FlowFabric's edge_cancel_dispatcher; the differences are listed in the README.

#include "reconcile/family/cancel_groups.hpp"
#include "reconcile/family/ending.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kAct = R"sql(
{hold_groups},
member AS MATERIALIZED (
  SELECT g.partition_key, g.flow_id, g.downstream_eid, {uuid:m.text} AS execution_id
    FROM edge_group g, unnest(g.members) AS m(text)
   WHERE g.flag
),
doomed AS MATERIALIZED (
  SELECT {doomed:c},
         'cancelled' AS public_state, 'cancelled' AS attempt_state, 'cancelled' AS attempt_outcome,
         'revoked' AS lease_event,
         coalesce(c.cancellation_reason, 'sibling_quorum_satisfied') AS cancellation_reason,
         coalesce(c.cancelled_by, 'engine') AS cancelled_by,
         jsonb_build_object('last_mutation_at', clock.now_ms::text) AS raw_patch
    FROM clock, (SELECT DISTINCT partition_key, execution_id FROM member) sibling
    JOIN {schema}.ff_exec_core c ON {same_execution:c, sibling}
    {as_seen:c}
   WHERE {in_partitions:c}
     AND {has_not_ended:c}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
{hold_doomed},
held_up AS MATERIALIZED (
  SELECT DISTINCT m.partition_key, m.flow_id, m.downstream_eid
    FROM member m
    JOIN {schema}.ff_exec_core c ON {same_execution:c, m}
   WHERE {in_partitions:c} AND {has_not_ended:c}
     AND (m.partition_key, m.execution_id) NOT IN (SELECT partition_key, execution_id FROM endable)
),
judged AS MATERIALIZED (
  SELECT g.partition_key, g.flow_id, g.downstream_eid, g.due_at_ms, g.members,
         CASE WHEN (g.partition_key, g.flow_id, g.downstream_eid) IN (
                     SELECT partition_key, flow_id, downstream_eid FROM held_up) THEN 'skipped_locked'
              WHEN NOT g.flag THEN 'skipped_for_reconciler'
              ELSE 'dispatched' END AS outcome
    FROM edge_group g
   UNION ALL
  {judged_without_group:skipped_locked, orphaned}
),
ending AS MATERIALIZED (
  SELECT e.*
    FROM endable e
   WHERE (e.partition_key, e.execution_id) NOT IN (
           SELECT partition_key, execution_id FROM endable
           EXCEPT
           SELECT partition_key, execution_id
             FROM member
            WHERE (partition_key, flow_id, downstream_eid) NOT IN (
                    SELECT partition_key, flow_id, downstream_eid FROM held_up))
),
{end_executions},
{settle_groups:dispatched, orphaned})sql";

}  // namespace

Reconciler edge_cancel_dispatcher() {
  using namespace std::chrono_literals;
  return {.name = "edge_cancel_dispatcher",
          .summary = "Cancels the siblings that are not needed any more once a fan-in is satisfied.",
          .no_rows = "no upstream of its is to be cancelled",
          .outcomes = {{"dispatched", Effect::deleted, "the siblings that were listed are cancelled"},
                       {"orphaned", Effect::deleted, "the fan-in is gone"},
                       {"skipped_locked", Effect::left_alone},
                       {"skipped_for_reconciler", Effect::left_alone},
                       {"malformed", Effect::left_alone}},
          .ends_others = "it was not needed any more: the fan-in that it works for was satisfied",
          .key = {{"flow_id", "uuid"}, {"downstream_eid", "uuid"}},
          .execution_column = "downstream_eid",
          .scan = cancel_groups::kPendingScan,
          .act = kAct,
          .fragments = cancel_groups::fragments(),
          .privileges = ending::privileges(cancel_groups::privileges()),
          .leads = {{"ff_pending_cancel_groups", "ff_pending_cancel_groups_enqueued_idx"}},
          .interval = 1s,
          .batch_size = 50,
          .rows_meet = true,
          .holdoff = cancel_groups::holdoff,
          .announced = cancel_groups::announced};
}

}  // namespace ff::reconcile
