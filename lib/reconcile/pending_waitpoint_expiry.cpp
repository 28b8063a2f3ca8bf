// pending_waitpoint_expiry: a waitpoint that nobody committed in time is closed.
//
// Rows     ff_waitpoint_pending with expires_at_ms passed.
// Changes  the waitpoint is deleted; where its execution is suspended, member_map says that it was never
//          committed, under its key or, where that is empty, its uuid. Several waitpoints of one execution
//          all leave their mark. No event.
// Others   Workers commit the same waitpoint, suspension_timeout writes the same member_map: what is held
//          waits for the next tick.
// Repeat   The waitpoint is gone afterwards.

#include "reconcile/phrases.hpp"
#include "reconcile/registry.hpp"

namespace ff::reconcile {
namespace {

using phrases::core_matches;
using phrases::object;

const std::string kScan = R"sql(
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.expires_at_ms AS due_at_ms
    FROM ff_waitpoint_pending w
    LEFT JOIN )sql" + phrases::core_of("w") +
                          R"sql( c ON true
   WHERE w.partition_key = ANY($1) AND w.expires_at_ms IS NOT NULL
     AND )sql" + core_matches("c");

const std::string kAct = R"sql(
waitpoint AS MATERIALIZED (
  SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.expires_at_ms, clock.now_ms,
         CASE WHEN w.waitpoint_key = '' THEN w.waitpoint_id::text ELSE w.waitpoint_key END AS member
    FROM clock, key
    JOIN ff_waitpoint_pending w ON w.partition_key = key.partition_key AND w.waitpoint_id = key.waitpoint_id
    LEFT JOIN )sql" + phrases::core_of("w") +
                         R"sql( c ON true
   WHERE w.partition_key = ANY($1) AND w.expires_at_ms + 0 <= clock.due_ms
     AND )sql" + core_matches("c") +
                         R"sql(
     FOR UPDATE OF w SKIP LOCKED
),
with_suspension AS MATERIALIZED (
  SELECT w.*
    FROM waitpoint w
    JOIN ff_suspension_current s ON s.partition_key = w.partition_key AND s.execution_id = w.execution_id
   WHERE s.partition_key = ANY($1)
     FOR NO KEY UPDATE OF s SKIP LOCKED
),
expired AS MATERIALIZED (
  SELECT * FROM with_suspension
   UNION ALL
  SELECT w.*
    FROM waitpoint w
   WHERE NOT EXISTS (SELECT FROM ff_suspension_current s
                      WHERE s.partition_key = ANY($1) AND s.partition_key = w.partition_key
                        AND s.execution_id = w.execution_id)
),
marked AS (
  UPDATE ff_suspension_current s
     SET member_map = )sql" +
                         object("s.member_map") + R"sql( || m.marks
    FROM (SELECT partition_key, execution_id,
                 jsonb_object_agg(member, jsonb_build_object('status', 'never_committed', 'closed_at_ms', now_ms,
                                                             'source', 'pending_wp_expiry')) AS marks
            FROM expired
           GROUP BY partition_key, execution_id) m
   WHERE s.partition_key = ANY($1) AND s.partition_key = m.partition_key AND s.execution_id = m.execution_id
),
closed AS (
  DELETE FROM ff_waitpoint_pending w
   USING expired e
   WHERE w.partition_key = ANY($1) AND w.partition_key = e.partition_key AND w.waitpoint_id = e.waitpoint_id
),
moved AS (SELECT partition_key, waitpoint_id, expires_at_ms AS due_at_ms, 'closed' AS outcome FROM expired))sql";

}  // namespace

Reconciler pending_waitpoint_expiry() {
  using namespace std::chrono_literals;
  return {.name = "pending_waitpoint_expiry",
          .summary = "Closes a waitpoint that nobody committed in time.",
          .outcomes = {"closed"},
          .key = {{"waitpoint_id", "uuid"}},
          .execution_column = "execution_id",
          .scan = kScan,
          .act = kAct,
          .interval = 5s,
          .rows_meet = true};
}

}  // namespace ff::reconcile
