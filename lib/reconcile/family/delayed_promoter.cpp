// delayed_promoter: an execution whose delay is over can be claimed again.
//
// Rows     ff_exec_core, `runnable` and `not_eligible_until_time`. A delay by a worker ends at deadline_at_ms. Two
//          others leave that column alone, where it stays the deadline of the whole execution: a retry with backoff
//          ends at raw_fields.delay_until, an operator's resume with a delay at once, for no moment is stored.
//          No index finds those by time, so a companion reads the runnable executions of each lane, the more seldom the
//          longer that takes. Another one meanwhile takes the retries that the newest lease events name.
// Changes  the core row: eligible_now, waiting; deadline_at_ms to null after a worker's delay, blocking_reason to null
//          after the others; the attempt_index at which the next claim looks. No event: no lease and no ending is
//          involved.
// Others   Workers claim only what is eligible_now, so they meet the row afterwards. execution_deadline
//          leaves delayed rows alone, for which deadline_at_ms may mean something else.
// Repeat   Afterwards the row is not delayed any more, so it is not found again.

#include "reconcile/family/registry.hpp"
#include "reconcile/family/shortcut.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms{whose:c, NULL}
    FROM {schema}.ff_exec_core c
   WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL
     AND NOT {is_retry_or_resume:c} AND {is_delayed})sql";

constexpr std::string_view kSlowScan = R"sql(
  SELECT c.partition_key, c.execution_id, {retry_at} AS due_at_ms{whose:c, NULL}
    FROM {runnable_by_lane} c
   WHERE c.eligibility_state = 'not_eligible_until_time' AND {filter:c} AND {is_retry_or_resume:c})sql";

constexpr std::string_view kAnnouncedScan = R"sql(
  SELECT a.partition_key, c.execution_id, {retry_at} AS due_at_ms{whose:c, NULL}
    FROM {lately_released} a
    JOIN {core_of:a} c ON true
   WHERE {is_delayed} AND {is_retry_or_resume:c})sql";

// All pairs write the same; is_ours and due_at say which delay it is, and when it ends.
constexpr std::string_view kAct = R"sql(
waited AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, {due_at} AS due_at_ms, {next_attempt:c} AS next_attempt
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    {as_seen:c}
   WHERE {in_partitions:c} AND {due_at} + 0 <= clock.due_ms AND {is_ours} AND {is_delayed}
     AND {in_sight:ff_attempt}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
promoted AS (
  UPDATE {schema}.ff_exec_core c
     SET eligibility_state = 'eligible_now', public_state = 'waiting',
         deadline_at_ms = CASE WHEN {is_retry_or_resume:c} THEN c.deadline_at_ms END,
         blocking_reason = CASE WHEN NOT {is_retry_or_resume:c} THEN c.blocking_reason END,
         attempt_index = w.next_attempt,
         raw_fields = {object:c.raw_fields} || {attempt_count:w.next_attempt}
    FROM waited w
   WHERE {in_partitions:c} AND {same_execution:c, w}
),
moved AS (SELECT partition_key, execution_id, due_at_ms, 'promoted' AS outcome FROM waited))sql";

std::vector<Fragment> fragments(const char* is_ours, const char* due_at) {
  return {
      {"is_ours", is_ours},
      {"due_at", due_at},
      {"is_delayed",
       R"sql(c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'not_eligible_until_time'
     AND {filter:c})sql"},
      // A retry whose moment is lost is due like a resume: at once, and that is since it was made.
      {"retry_at",
       R"sql(coalesce(CASE WHEN c.blocking_reason = 'waiting_for_retry_backoff' THEN {moment:c.raw_fields->>'delay_until'} END,
                   {not_later:c.created_at_ms}))sql"}};
}

}  // namespace

Reconciler delayed_promoter() {
  using namespace std::chrono_literals;
  Reconciler promoter{.name = "delayed_promoter",
                      .summary = "Makes an execution whose delay is over claimable again.",
                      .outcomes = {{"promoted", Effect::given_back}},
                      .key = {{"execution_id", "uuid"}},
                      .execution_column = "execution_id",
                      .scan = kScan,
                      .act = kAct,
                      .fragments = fragments("NOT {is_retry_or_resume:c}", "c.deadline_at_ms"),
                      .privileges = {{"ff_exec_core", "SELECT, UPDATE"},
                                     {"ff_attempt", "SELECT"},
                                     {"ff_lease_event", "SELECT"}},
                      .leads = {{"ff_exec_core", "ff_exec_core_deadline_idx"}},
                      .interval = 750ms,
                      .holdoff = [](const Settings&) { return Milliseconds{0}; }};
  Reconciler retries = promoter;
  retries.scan = kSlowScan;
  retries.fragments = fragments("{is_retry_or_resume:c}", "({retry_at})");
  retries.interval = 5s;
  retries.searches = true;
  promoter.companions = {shortcut_of(retries, kAnnouncedScan, 2s), retries};
  return promoter;
}

}  // namespace ff::reconcile
