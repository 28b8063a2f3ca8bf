// delayed_promoter: an execution whose delay is over can be claimed again.
//
// Rows     ff_exec_core, `runnable` and `not_eligible_until_time`. A delay by a worker ends at deadline_at_ms. Two
//          others leave that column alone, where it stays the deadline of the whole execution: a retry with backoff
//          ends at raw_fields.delay_until, an operator's resume with a delay at once, for no moment is stored. They
//          are told by blocking_reason, but only while public_state is `delayed`: the reason is never cleared.
//          No index finds those by time, so a companion looks through the runnable executions of each lane.
// Changes  the core row: eligible_now, waiting; deadline_at_ms to null after a worker's delay, blocking_reason to null
//          after the others; the attempt_index at which the next claim looks. No event: no lease and no ending is
//          involved.
// Others   Workers claim only what is eligible_now, so they meet the row afterwards. execution_deadline
//          leaves delayed rows alone, for which deadline_at_ms may mean something else.
// Repeat   Afterwards the row is not delayed any more, so it is not found again.

#include "reconcile/phrases.hpp"
#include "reconcile/registry.hpp"

namespace ff::reconcile {
namespace {

using phrases::core_matches;

const std::string kIsDelayed =
    "c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'not_eligible_until_time' AND " +
    core_matches("c");

const std::string kIsRetryOrResume =
    "(c.public_state = 'delayed' AND coalesce(c.blocking_reason, '') IN"
    " ('waiting_for_retry_backoff', 'waiting_for_resume_delay'))";

// A retry whose moment is lost is due like a resume: at once, and that is since it was made. Eighteen digits always
// fit a bigint.
const std::string kRetryAt =
    "CASE WHEN c.blocking_reason = 'waiting_for_retry_backoff'"
    " AND c.raw_fields->>'delay_until' ~ '^[0-9]{1,18}$'"
    " THEN (c.raw_fields->>'delay_until')::bigint ELSE c.created_at_ms END";

const std::string kScan = R"sql(
  SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
    FROM ff_exec_core c
   WHERE c.partition_key = ANY($1) AND c.deadline_at_ms IS NOT NULL
     AND NOT )sql" + kIsRetryOrResume +
                          " AND " + kIsDelayed;

const std::string kSlowScan = R"sql(
  SELECT c.partition_key, c.execution_id, )sql" +
                              kRetryAt + R"sql( AS due_at_ms
    FROM )sql" + phrases::runnable_by_lane() +
                              R"sql( c
   WHERE c.eligibility_state = 'not_eligible_until_time' AND )sql" +
                              core_matches("c") + " AND " + kIsRetryOrResume;

// Both pairs write the same; `due_at` says which delay it is, and when it ends.
std::string act(const std::string& is_ours, const std::string& due_at) {
  return R"sql(
waited AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, )sql" +
         due_at + " AS due_at_ms, " + phrases::next_attempt("c") + R"sql( AS next_attempt
    FROM clock, key
    JOIN ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
    )sql" +
         phrases::as_seen("c") + R"sql(
   WHERE c.partition_key = ANY($1) AND )sql" +
         due_at + " + 0 <= clock.due_ms AND " + is_ours + " AND " + kIsDelayed + R"sql(
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
promoted AS (
  UPDATE ff_exec_core c
     SET eligibility_state = 'eligible_now', public_state = 'waiting',
         deadline_at_ms = CASE WHEN )sql" +
         kIsRetryOrResume + R"sql( THEN c.deadline_at_ms END,
         blocking_reason = CASE WHEN NOT )sql" +
         kIsRetryOrResume + R"sql( THEN c.blocking_reason END,
         attempt_index = w.next_attempt,
         raw_fields = )sql" +
         phrases::object("c.raw_fields") + " || " + phrases::attempt_count("w.next_attempt") + R"sql(
    FROM waited w
   WHERE c.partition_key = ANY($1) AND c.partition_key = w.partition_key AND c.execution_id = w.execution_id
),
moved AS (SELECT partition_key, execution_id, due_at_ms, 'promoted' AS outcome FROM waited))sql";
}

}  // namespace

Reconciler delayed_promoter() {
  using namespace std::chrono_literals;
  Reconciler promoter{.name = "delayed_promoter",
                      .summary = "Makes an execution whose delay is over claimable again.",
                      .outcomes = {"promoted"},
                      .key = {{"execution_id", "uuid"}},
                      .execution_column = "execution_id",
                      .scan = kScan,
                      .act = act("NOT " + kIsRetryOrResume, "c.deadline_at_ms"),
                      .privileges = {{"ff_exec_core", "SELECT, UPDATE"}, {"ff_attempt", "SELECT"}},
                      .interval = 750ms,
                      .holdoff = [](const Settings&) { return Milliseconds{0}; }};
  Reconciler retries = promoter;
  retries.scan = kSlowScan;
  retries.act = act(kIsRetryOrResume, "(" + kRetryAt + ")");
  retries.interval = 5s;
  promoter.companions = {retries};
  return promoter;
}

}  // namespace ff::reconcile
