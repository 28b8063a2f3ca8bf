// dispatch_outbox_retention: a cancel that was to be dispatched to a sibling long ago is forgotten.
//
// Rows     ff_cancel_dispatch_outbox that were enqueued a week ago.
// Changes  the row is deleted.
// Others   Whoever dispatches deletes the row itself: what is held waits for the next tick.
// Repeat   The row is gone afterwards.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT o.partition_key, o.flow_id, o.downstream_eid, o.target_exec_id, o.enqueued_at_ms AS due_at_ms
    FROM {schema}.ff_cancel_dispatch_outbox o
   WHERE {in_partitions:o})sql";

constexpr std::string_view kAct = R"sql(
old AS MATERIALIZED (
  SELECT o.partition_key, o.flow_id, o.downstream_eid, o.target_exec_id, o.enqueued_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_cancel_dispatch_outbox o
      ON o.partition_key = key.partition_key AND o.flow_id = key.flow_id AND o.downstream_eid = key.downstream_eid
     AND o.target_exec_id = key.target_exec_id
   WHERE {in_partitions:o} AND o.enqueued_at_ms + 0 <= clock.due_ms
     FOR UPDATE OF o SKIP LOCKED
),
deleted AS (
  DELETE FROM {schema}.ff_cancel_dispatch_outbox o
   USING old
   WHERE {in_partitions:o} AND o.partition_key = old.partition_key AND o.flow_id = old.flow_id
     AND o.downstream_eid = old.downstream_eid AND o.target_exec_id = old.target_exec_id
),
moved AS (
  SELECT partition_key, flow_id, downstream_eid, target_exec_id, due_at_ms, 'forgotten' AS outcome FROM old
))sql";

}  // namespace

Reconciler dispatch_outbox_retention() {
  using namespace std::chrono_literals;
  return {.name = "dispatch_outbox_retention",
          .summary = "Forgets a cancel that was to be dispatched long ago.",
          .outcomes = {{"forgotten", Effect::deleted, "nobody dispatched the cancel for a week"}},
          .key = {{"flow_id", "uuid"}, {"downstream_eid", "uuid"}, {"target_exec_id", "uuid"}},
          .scan = kScan,
          .act = kAct,
          .privileges = {{"ff_cancel_dispatch_outbox", "SELECT, UPDATE, DELETE"}},
          .interval = 1min,
          .filterable = false,
          .holdoff = [](const Settings&) -> Milliseconds { return 24h * 7; }};
}

}  // namespace ff::reconcile
