// execution_deadline: an execution that has run past its deadline ends.
//
// Rows     ff_exec_core, `active`, with deadline_at_ms passed; with include_waiting also those that are
//          submitted, runnable, blocked or suspended. Never delayed ones: for them the column is the end of
//          the delay (delayed_promoter). Nor one that was replayed after its deadline: that was of its former run.
// Changes  the core (terminal, expired), its current attempt (interrupted, no lease, epoch + 1; without a lease it
//          keeps outcome and end where it has them), its suspension and waitpoints (deleted), one completion event,
//          and one lease event where there was a lease.
// Others   Workers complete, fail, delay or suspend the same execution, and other reconcilers end it:
//          whoever has locked any of its rows, or written the core since this statement began, makes it wait for
//          the next tick. A worker that comes back finds another epoch.
// Repeat   The core is terminal afterwards, so the row is not found again.

#include "reconcile/family/ending.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/hold.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
    FROM {schema}.ff_exec_core c
   WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL
     AND {is_late} AND {filter:c})sql";

constexpr std::string_view kAct = R"sql(
doomed AS MATERIALIZED (
  SELECT {doomed:c},
         'expired' AS public_state, 'attempt_terminal' AS attempt_state, 'interrupted' AS attempt_outcome,
         'expired' AS lease_event, c.cancellation_reason, c.cancelled_by,
         '{"last_failure_message": "execution_deadline"}'::jsonb AS raw_patch,
         c.deadline_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    {as_seen:c}
   WHERE {in_partitions:c} AND c.deadline_at_ms + 0 <= clock.due_ms
     AND {is_late} AND {filter:c}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
{hold_doomed},
ending AS MATERIALIZED (SELECT * FROM endable),
{end_executions},
moved AS (SELECT partition_key, execution_id, due_at_ms, 'expired' AS outcome FROM ending))sql";

std::vector<Fragment> own_fragments() {
  return {{"is_late",
           R"sql((c.lifecycle_phase = 'active'
          OR ({include_waiting}
              AND (c.lifecycle_phase IN ('submitted', 'blocked', 'suspended')
                   OR c.lifecycle_phase = 'runnable' AND c.eligibility_state <> 'not_eligible_until_time')))
     AND {is_of_former_run} IS NOT TRUE)sql"},
          // "Its deadline passed before it was replayed."
          {"is_of_former_run", "c.deadline_at_ms < {replayed_at:c}"}};
}

}  // namespace

Reconciler execution_deadline() {
  using namespace std::chrono_literals;
  return {.name = "execution_deadline",
          .summary = "Ends an execution that has run past its deadline.",
          .outcomes = {{"expired", Effect::ended, "its deadline passed"}},
          .key = {{"execution_id", "uuid"}},
          .execution_column = "execution_id",
          .scan = kScan,
          .act = kAct,
          .fragments = own_fragments(),
          .privileges = ending::privileges({{"ff_operator_event", "SELECT"}}),
          .leads = {{"ff_exec_core", "ff_exec_core_deadline_idx"}},
          .interval = 5s,
          .settings = {{.name = "include_waiting",
                        .kind = SettingDecl::Kind::flag,
                        .fallback = 0,
                        .least = 0,
                        .most = 1,
                        .summary = "also end what is not running: submitted, runnable, blocked or suspended"},
                       kHoldAbove},
          // Whoever claims an execution, and so makes it active, says so.
          .announced =
              [](const Settings& own) {
                return *own.at("include_waiting") != 0 ? std::nullopt
                                                       : std::optional(Announcement{kLeaseChannel});
              },
          .own_parameters = {"include_waiting"},
          .parameters = [](const Settings& own,
                           const Family&) { return pg::Params::of(*own.at("include_waiting") != 0); }};
}

}  // namespace ff::reconcile
