// delayed_promoter: an execution whose delay is over can be claimed again.
//
// Rows     ff_exec_core, `runnable` and `not_eligible_until_time`, with deadline_at_ms (here: the end of
//          the delay) reached.
// Changes  the core row: eligible_now, no deadline, waiting. No event: no lease and no ending is involved.
// Others   Workers claim only what is eligible_now, so they meet the row afterwards. execution_deadline
//          leaves delayed rows alone, for which the same column means something else.
// Repeat   Afterwards the row is not delayed any more, so it is not found again.

#include "reconcile/phrases.hpp"
#include "reconcile/registry.hpp"

namespace ff::reconcile {
namespace {

using phrases::core_matches;

const std::string kIsDelayed =
    "c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'not_eligible_until_time' AND " +
    core_matches("c");

const std::string kScan = R"sql(
  SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
    FROM ff_exec_core c
   WHERE c.partition_key = ANY($1) AND c.deadline_at_ms IS NOT NULL
     AND )sql" + kIsDelayed;

const std::string kAct = R"sql(
waited AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
    FROM clock, key
    JOIN ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
   WHERE c.partition_key = ANY($1) AND c.deadline_at_ms + 0 <= clock.due_ms
     AND )sql" + kIsDelayed +
                         R"sql(
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
promoted AS (
  UPDATE ff_exec_core c
     SET eligibility_state = 'eligible_now', deadline_at_ms = NULL, public_state = 'waiting'
    FROM waited w
   WHERE c.partition_key = ANY($1) AND c.partition_key = w.partition_key AND c.execution_id = w.execution_id
),
moved AS (SELECT partition_key, execution_id, due_at_ms, 'promoted' AS outcome FROM waited))sql";

}  // namespace

Reconciler delayed_promoter() {
  using namespace std::chrono_literals;
  return {.name = "delayed_promoter",
          .summary = "Makes an execution whose delay is over claimable again.",
          .outcomes = {"promoted"},
          .key = {{"execution_id", "uuid"}},
          .execution_column = "execution_id",
          .scan = kScan,
          .act = kAct,
          .interval = 750ms,
          .holdoff = [](const Settings&) { return Milliseconds{0}; }};
}

}  // namespace ff::reconcile
