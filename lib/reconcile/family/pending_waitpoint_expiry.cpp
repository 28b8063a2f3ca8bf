// pending_waitpoint_expiry: a waitpoint that nobody committed in time is closed.
//
// Rows     ff_waitpoint_pending, `pending`, with expires_at_ms passed. One that a suspension uses is `active` and keeps
//          the expiry that it was made with, which then means nothing.
// Changes  the waitpoint is deleted. Nothing else: in a suspension's member_map stand the signals that were delivered,
//          by waitpoint_key, which a later waitpoint may have as well. No event.
// Others   Workers use the same waitpoint for a suspension, and signals are delivered to it: what is held waits for
//          the next tick, and what is in use by then is left alone.
// Repeat   The waitpoint is gone afterwards.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.expires_at_ms AS due_at_ms
    FROM {schema}.ff_waitpoint_pending w
    LEFT JOIN {core_of:w} c ON true
   WHERE {in_partitions:w} AND w.expires_at_ms IS NOT NULL
     AND w.state = 'pending' AND {filter:c})sql";

constexpr std::string_view kAct = R"sql(
waitpoint AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.expires_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_waitpoint_pending w ON w.partition_key = key.partition_key AND w.waitpoint_id = key.waitpoint_id
    LEFT JOIN {core_of:w} c ON true
   WHERE {in_partitions:w} AND w.expires_at_ms + 0 <= clock.due_ms
     AND w.state = 'pending' AND {filter:c}
     FOR UPDATE OF w SKIP LOCKED
),
closed AS (
  DELETE FROM {schema}.ff_waitpoint_pending w
   USING waitpoint e
   WHERE {in_partitions:w} AND w.partition_key = e.partition_key AND w.waitpoint_id = e.waitpoint_id
),
moved AS (SELECT partition_key, waitpoint_id, execution_id, due_at_ms, 'closed' AS outcome FROM waitpoint))sql";

}  // namespace

Reconciler pending_waitpoint_expiry() {
  using namespace std::chrono_literals;
  return {.name = "pending_waitpoint_expiry",
          .summary = "Closes a waitpoint that nobody committed in time.",
          .no_rows = "no pending waitpoint of its expires",
          .outcomes = {{"closed", Effect::deleted, "no suspension used the waitpoint in time"}},
          .key = {{"waitpoint_id", "uuid"}},
          .execution_column = "execution_id",
          .scan = kScan,
          .act = kAct,
          .privileges = {{"ff_waitpoint_pending", "SELECT, UPDATE, DELETE"}, {"ff_exec_core", "SELECT"}},
          .leads = {{"ff_waitpoint_pending", "ff_waitpoint_pending_expires_idx"}},
          .interval = 5s};
}

}  // namespace ff::reconcile
