#include "demo/simulation/books.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition keys, $2 the name of lane and namespace.

constexpr std::string_view kPastDeadline = R"sql(
  SELECT partition_key::integer, execution_id::text FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2 AND lifecycle_phase = 'active'
     AND deadline_at_ms < extract(epoch FROM clock_timestamp()) * 1000)sql";

constexpr std::string_view kReasons = R"sql(
  SELECT execution_id::text, cancellation_reason FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2 AND cancellation_reason IS NOT NULL)sql";

constexpr std::string_view kDispatched = R"sql(
  SELECT count(*)
    FROM ff_completion_event e
    JOIN ff_exec_core c ON c.partition_key = e.partition_key AND c.execution_id = e.execution_id
   WHERE e.partition_key = ANY($1) AND c.partition_key = ANY($1) AND c.lane_id = $2
     AND e.dispatched_at_ms IS NOT NULL)sql";

// Every fan-in: what it came to, and what is wrong about it. One that can never run may have ended before that was
// known, where it works beside its children.
constexpr std::string_view kFanIns = R"sql(
  WITH upstream AS MATERIALIZED (
    SELECT d.partition_key, d.flow_id, d.downstream_eid, u.cancellation_reason, e.outcome, e.occurred_at_ms
      FROM ff_edge d
      JOIN ff_exec_core u ON u.partition_key = d.partition_key AND u.execution_id = d.upstream_eid
      LEFT JOIN ff_completion_event e ON e.partition_key = d.partition_key AND e.execution_id = d.upstream_eid
                                     AND e.partition_key = ANY($1) AND e.outcome <> 'resumable'
     WHERE d.partition_key = ANY($1) AND u.partition_key = ANY($1) AND u.lane_id = $2),
  tally AS (
    SELECT partition_key, flow_id, downstream_eid, count(*) AS members,
           count(*) FILTER (WHERE outcome = 'success') AS success,
           count(*) FILTER (WHERE outcome = 'skipped') AS skip,
           count(*) FILTER (WHERE outcome NOT IN ('success', 'skipped')) AS fail,
           count(*) FILTER (WHERE cancellation_reason = 'sibling_quorum_satisfied') AS cancelled,
           max(occurred_at_ms) FILTER (WHERE outcome <> 'success') AS failed_at_ms
      FROM upstream GROUP BY partition_key, flow_id, downstream_eid),
  fan_in AS MATERIALIZED (
    SELECT g.*, t.members, t.success, t.skip, t.fail, t.cancelled, t.failed_at_ms,
           CASE g.policy->>'kind' WHEN 'any_of' THEN 1 WHEN 'quorum' THEN (g.policy->>'k')::integer
                ELSE t.members END AS needed
      FROM tally t JOIN ff_edge_group g USING (partition_key, flow_id, downstream_eid)
     WHERE g.partition_key = ANY($1))
  SELECT g.downstream_eid::text, g.cancelled,
         CASE WHEN g.success >= g.needed THEN 'satisfied'
              WHEN g.members - g.fail - g.skip < g.needed THEN 'impossible' ELSE 'undecided' END AS sense,
         CASE WHEN (g.success_count, g.fail_count, g.skip_count, g.running_count)
                   IS DISTINCT FROM (g.success, g.fail, g.skip, g.members - g.success - g.fail - g.skip)
                THEN 'its counts are not those of its upstreams'
              WHEN g.success >= g.needed
                THEN CASE WHEN c.eligibility_state = 'blocked_by_dependencies' THEN 'satisfied, but it still waits' END
              WHEN g.members - g.fail - g.skip < g.needed
                THEN CASE WHEN c.public_state <> 'skipped'
                               AND coalesce(c.terminal_at_ms, g.failed_at_ms) >= g.failed_at_ms
                          THEN 'can never run, but it is ' || c.lifecycle_phase || '/' || c.public_state END
              WHEN c.eligibility_state <> 'blocked_by_dependencies' AND c.started_at_ms IS NULL
                   AND c.attempt_state <> 'pending_first_attempt'
                THEN 'undecided, but it is ' || c.public_state
              WHEN g.cancel_siblings_pending_flag OR g.cancel_siblings_pending_members <> '{}'
                THEN 'siblings are still to be cancelled' END
    FROM fan_in g
    JOIN ff_exec_core c ON c.partition_key = g.partition_key AND c.execution_id = g.downstream_eid
   WHERE c.partition_key = ANY($1)
   ORDER BY 1)sql";

constexpr std::string_view kBudgets = R"sql(
  SELECT count(*), coalesce((SELECT sum(current_value)::bigint FROM ff_budget_usage), 0),
         (SELECT count(*) FROM ff_budget_usage_by_exec)
    FROM ff_budget_policy)sql";

constexpr std::string_view kAdmissions = "SELECT count(*) FROM ff_quota_admitted";

// $1 namespace
constexpr std::string_view kSwept = R"sql(
  SELECT count(*) FROM ff_worker_registry_event WHERE namespace = $1 AND event_kind = 'ttl_swept')sql";

std::string counted(std::int64_t number, const std::string& what) {
  return std::to_string(number) + " " + what;
}

void expect_none(Verdict& verdict, std::int64_t number, const std::string& what) {
  if (number != 0) contradict(verdict, counted(number, what));
}

/// Everything that the parts below share.
struct Check {
  pg::Connection& connection;
  const Realm& realm;
  const Ledger& ledger;
  const WorkCounts counts = ledger.counts();
  const bool with_budgets;
  const OpenWork open = open_work(connection, realm, with_budgets);
  Books& books;

  pg::Params of_realm() const { return pg::Params::of(realm.partitions, realm.name); }
};

void delays(Check& check) {
  Verdict verdict{.question = "every delay has ended", .numbers = counted(check.counts.delayed, "delays")};
  expect_none(verdict, check.open.delays, "executions are delayed still");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back(
      {.reconciler = "delayed_promoter", .number = check.counts.delayed, .what = "delays"});
}

// A claim by an operator leaves the scheduler's grant behind; and a typed one leaves the index ahead of its attempt, of
// whoever puts aside what it has claimed so. Whoever gives that back may come first.
void leftovers_of_typed_claims(Check& check) {
  const WorkCounts& counts = check.counts;
  check.books.tallies.push_back({.reconciler = "grant_expiry",
                                 .outcomes = {"expired"},
                                 .compare = Tally::Compare::at_most,
                                 .number = counts.claimed,
                                 .what = "claims that may leave a grant"});
  check.books.tallies.push_back({.reconciler = "index_repair",
                                 .compare = Tally::Compare::at_most,
                                 .number = counts.delayed + counts.suspended + counts.waited,
                                 .what = "attempts put aside"});
}

void deadlines(Check& check) {
  Verdict verdict{.question = "nothing runs past its deadline",
                  .numbers = counted(check.counts.hung, "hung")};
  for (const pg::Row row : check.connection.execute(kPastDeadline, check.of_realm()))
    contradict(verdict, row.get<std::string>(1) + " is still running");
  check.books.verdicts.push_back(std::move(verdict));
}

// The cancellation_reason by which a time-out with this behaviour ends an execution; empty: it does not.
std::string reason_of(const std::optional<std::string>& behavior) {
  if (behavior == "auto_resume_with_timeout_signal") return "";
  const bool is_known = behavior == "cancel" || behavior == "expire" || behavior == "escalate";
  return "suspension_timeout_" + (is_known ? *behavior : "fail");
}

void suspensions(Check& check) {
  Verdict verdict{.question = "every suspension ended as it had to"};
  std::map<std::string, std::string> found;
  for (const pg::Row row : check.connection.execute(kReasons, check.of_realm()))
    found[row.get<std::string>(0)] = row.get<std::string>(1);
  std::map<std::string, std::int64_t> ends;
  for (const auto& [uuid, its] : check.ledger.suspensions()) {
    const std::string expected = its.answered ? "" : reason_of(its.timeout_behavior);
    const std::string reason = found[to_string(uuid)];
    if (reason == "sibling_quorum_satisfied") {
      ++ends["cancelled"];
      continue;
    }
    ++ends[its.answered ? "answered" : expected.empty() ? "resumed" : "ended"];
    if (reason != expected)
      contradict(verdict, to_string(uuid) + " ended as '" + reason + "' instead of '" + expected + "'");
  }
  expect_none(verdict, check.open.suspensions, "executions are suspended still");
  const WorkCounts& counts = check.counts;
  verdict.numbers = counted(counts.suspended, "suspensions: ") + counted(ends["answered"], "answered, ") +
                    counted(ends["resumed"], "resumed, ") + counted(ends["ended"], "ended, ") +
                    counted(ends["cancelled"], "cancelled");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "suspension_timeout",
                                 .outcomes = {"auto_resumed", "failed", "expired", "escalated", "cancelled"},
                                 .number = ends["resumed"] + ends["ended"],
                                 .what = "suspensions"});
  // The suspension of whoever was answered stays, with its time-out: whatever has become of it by then. Its end takes
  // the suspension along where it is not its worker who ends it.
  check.books.tallies.push_back({.reconciler = "suspension_timeout",
                                 .outcomes = {"resumed_before", "orphan_cleared"},
                                 .compare = Tally::Compare::at_most,
                                 .number = ends["answered"],
                                 .what = "time-outs of answered ones"});
}

void waitpoints(Check& check) {
  Verdict verdict{.question = "no waitpoint outlived its time",
                  .numbers = counted(check.counts.waitpoints, "never used")};
  expect_none(verdict, check.open.waitpoints, "waitpoints are left");
  check.books.verdicts.push_back(std::move(verdict));
  // Those that go with their execution are not counted by anyone.
  check.books.tallies.push_back({.reconciler = "pending_waitpoint_expiry",
                                 .compare = Tally::Compare::at_most,
                                 .number = check.counts.waitpoints,
                                 .what = "waitpoints"});
  check.books.tallies.push_back({.reconciler = "stray_waitpoint",
                                 .compare = Tally::Compare::at_most,
                                 .number = check.counts.strays,
                                 .what = "waitpoints of the resumed"});
}

void endings_passed_on(Check& check) {
  const auto dispatched = check.connection.execute(kDispatched, check.of_realm()).one().get<std::int64_t>(0);
  Verdict verdict{.question = "every ending was passed on", .numbers = counted(dispatched, "endings")};
  expect_none(verdict, check.open.endings, "completion events were not dispatched");
  expect_none(verdict, check.open.parents, "wait for children that have ended");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back(
      {.reconciler = "dependency",
       .outcomes = {"advanced"},
       .number = dispatched + check.counts.short_lived,  // whose events have gone with them
       .what = "endings"});
  // Most are woken by the end of their last child.
  check.books.tallies.push_back({.reconciler = "dependency",
                                 .outcomes = {"woken"},
                                 .compare = Tally::Compare::at_most,
                                 .number = check.counts.waited,
                                 .what = "parents who came too late"});
}

void flows(Check& check) {
  Verdict verdict{.question = "flows agree with what has ended"};
  std::map<std::string, std::int64_t> sense;
  std::int64_t cancelled = 0;
  std::int64_t groups_with_cancelled = 0;
  for (const pg::Row row : check.connection.execute(kFanIns, check.of_realm())) {
    ++sense[row.get<std::string>(2)];
    cancelled += row.get<std::int64_t>(1);
    groups_with_cancelled += row.get<std::int64_t>(1) > 0 ? 1 : 0;
    if (const auto wrong = row.get<std::optional<std::string>>(3))
      contradict(verdict, row.get<std::string>(0) + ": " + *wrong);
  }
  verdict.numbers = counted(check.counts.flows, "flows; joins: ") +
                    counted(sense["satisfied"], "satisfied, ") +
                    counted(sense["impossible"], "impossible, ") + counted(sense["undecided"], "undecided");
  check.books.verdicts.push_back(std::move(verdict));

  check.books.tallies.push_back({.reconciler = "completion_repair",
                                 .outcomes = {"repaired"},
                                 .number = check.counts.untold,
                                 .what = "cancels that nobody was told of"});
  // Nothing misleads a fan-in here: what is counted anew would have been right.
  check.books.tallies.push_back(
      {.reconciler = "group_recount", .number = 0, .what = "fan-ins counted wrong"});

  Verdict pending{
      .question = "no sibling waits to be cancelled",
      .numbers = counted(cancelled, "cancelled, ") + counted(check.counts.leftovers, "leftovers removed")};
  expect_none(pending, check.open.sibling_cancellations, "are pending");
  check.books.verdicts.push_back(std::move(pending));
  // Where all siblings ended in the meantime, nothing in the database tells.
  check.books.tallies.push_back({.reconciler = "edge_cancel_dispatcher",
                                 .outcomes = {"dispatched"},
                                 .compare = Tally::Compare::at_least,
                                 .number = groups_with_cancelled,
                                 .what = "joins"});
  check.books.tallies.push_back({.reconciler = "edge_cancel_reconciler",
                                 .outcomes = {"sremmed_stale"},
                                 .number = check.counts.leftovers,
                                 .what = "leftovers"});
}

void cancels(Check& check) {
  Verdict verdict{.question = "no cancel of a flow is half done",
                  .numbers = counted(check.counts.doomed, "members cancelled")};
  expect_none(verdict, check.open.doomed, "are not cancelled for good");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "cancel_backlog",
                                 .outcomes = {"member_cancelled"},
                                 .number = check.counts.doomed,
                                 .what = "members"});
}

void budgets(Check& check) {
  const pg::Result found = check.connection.execute(kBudgets);
  const auto number = found.one().get<std::int64_t>(0);
  Verdict verdict{.question = "every budget was reset when due", .numbers = counted(number, "budgets")};
  expect_none(verdict, check.open.budgets, "budgets still wait for their reset");
  expect_none(verdict, found.one().get<std::int64_t>(1), "used up after the last reset");
  expect_none(verdict, found.one().get<std::int64_t>(2), "entries of executions outlived their period");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "budget_reset",
                                 .compare = Tally::Compare::at_least,
                                 .number = number,
                                 .what = "budgets"});
}

void quotas(Check& check) {
  Verdict verdict{.question = "no quota counts who is gone",
                  .numbers = counted(check.counts.admitted, "admissions")};
  expect_none(verdict, check.open.quotas, "quotas count somebody still");
  expect_none(verdict, check.connection.execute(kAdmissions).one().get<std::int64_t>(0),
              "admissions outlived their window");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "quota_concurrency",
                                 .compare = Tally::Compare::at_least,
                                 .number = check.counts.admitted > 0 ? 1 : 0,
                                 .what = "quotas"});
}

void workers(Check& check) {
  const auto swept =
      check.connection.execute(kSwept, pg::Params::of(check.realm.name)).one().get<std::int64_t>(0);
  Verdict verdict{.question = "no silent worker is on the register",
                  .numbers = counted(check.counts.registered, "entries, ") + counted(swept, "removed")};
  expect_none(verdict, check.open.workers, "are on it still");
  if (swept != check.counts.registered) contradict(verdict, "an entry is missing, or was removed twice");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "worker_registry_ttl", .number = swept, .what = "removals"});
}

void short_lived(Check& check) {
  Verdict verdict{.question = "nothing is kept beyond its age",
                  .numbers = counted(check.counts.short_lived, "short-lived executions")};
  expect_none(verdict, check.open.short_lived, "are there still");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "execution_retention",
                                 .outcomes = {"executions_deleted"},
                                 .number = check.counts.short_lived,
                                 .what = "short-lived executions"});
}

void past(Check& check) {
  const Past& was = check.counts.past;
  const Past left = left_of_past(check.connection, check.realm);
  Verdict verdict{.question = "nothing is left of the past",
                  .numbers = counted(was.events, "events, ") + counted(was.admissions, "admissions")};
  expect_none(verdict, left.events, "events are there still");
  expect_none(verdict, left.admissions, "admissions are there still");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "outbox_retention", .number = was.events, .what = "events"});
  check.books.tallies.push_back(
      {.reconciler = "quota_window", .number = was.admissions, .what = "admissions"});
}

}  // namespace

void check_due(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database,
               Books& books) {
  Check check{.connection = connection,
              .realm = realm,
              .ledger = ledger,
              .with_budgets = whole_database,
              .books = books};
  delays(check);
  leftovers_of_typed_claims(check);
  deadlines(check);
  suspensions(check);
  waitpoints(check);
  endings_passed_on(check);
  flows(check);
  if (check.counts.doomed > 0) cancels(check);
  if (whole_database) {
    budgets(check);
    quotas(check);
  }
  workers(check);
  if (check.counts.short_lived > 0) short_lived(check);
  if (check.counts.past.events > 0) past(check);
}

}  // namespace ff::simulation
