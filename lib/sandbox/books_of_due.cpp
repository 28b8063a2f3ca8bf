#include "sandbox/books.hpp"

namespace ff::sandbox {
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
  SELECT count(*) FROM ff_completion_event
   WHERE partition_key = ANY($1) AND namespace = $2 AND dispatched_at_ms IS NOT NULL)sql";

// Every fan-in: what it came to, and what is wrong about it. The simulation sets k_target for every kind of
// policy: so many upstreams have to succeed.
constexpr std::string_view kFanIns = R"sql(
  WITH upstream AS MATERIALIZED (
    SELECT d.partition_key, d.flow_id, d.downstream_eid, u.cancellation_reason, e.outcome
      FROM ff_edge d
      JOIN ff_exec_core u ON u.partition_key = d.partition_key AND u.execution_id = d.upstream_eid
      LEFT JOIN ff_completion_event e ON e.partition_key = d.partition_key AND e.execution_id = d.upstream_eid
                                     AND e.partition_key = ANY($1)
     WHERE d.partition_key = ANY($1) AND u.partition_key = ANY($1) AND u.lane_id = $2),
  tally AS (
    SELECT partition_key, flow_id, downstream_eid, count(*) AS members,
           count(*) FILTER (WHERE outcome = 'success') AS success,
           count(*) FILTER (WHERE outcome = 'skipped') AS skip,
           count(*) FILTER (WHERE outcome NOT IN ('success', 'skipped')) AS fail,
           count(*) FILTER (WHERE cancellation_reason = 'sibling_quorum_satisfied') AS cancelled
      FROM upstream GROUP BY partition_key, flow_id, downstream_eid)
  SELECT g.downstream_eid::text, t.cancelled,
         CASE WHEN t.success >= g.k_target THEN 'satisfied'
              WHEN t.members - t.fail - t.skip < g.k_target THEN 'impossible' ELSE 'undecided' END AS sense,
         CASE WHEN (g.success_count, g.fail_count, g.skip_count, g.running_count)
                   IS DISTINCT FROM (t.success, t.fail, t.skip, t.members - t.success - t.fail - t.skip)
                THEN 'its counts are not those of its upstreams'
              WHEN t.success >= g.k_target
                THEN CASE WHEN c.lifecycle_phase = 'blocked' THEN 'satisfied, but it still waits' END
              WHEN t.members - t.fail - t.skip < g.k_target
                THEN CASE WHEN c.public_state <> 'skipped' THEN 'can never run, but it is ' || c.public_state END
              WHEN c.lifecycle_phase <> 'blocked' THEN 'undecided, but it is ' || c.public_state
              WHEN g.cancel_siblings_pending_flag OR g.cancel_siblings_pending_members <> '{}'
                THEN 'siblings are still to be cancelled' END
    FROM tally t
    JOIN ff_edge_group g USING (partition_key, flow_id, downstream_eid)
    JOIN ff_exec_core c ON c.partition_key = g.partition_key AND c.execution_id = g.downstream_eid
   WHERE g.partition_key = ANY($1) AND c.partition_key = ANY($1)
   ORDER BY 1)sql";

constexpr std::string_view kBudgets = R"sql(
  SELECT count(*), coalesce((SELECT sum(current_value)::bigint FROM ff_budget_usage), 0) FROM ff_budget_policy)sql";

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
  std::map<std::string, std::string> expected;
  for (const auto& [uuid, behavior] : check.ledger.suspensions())
    expected[to_string(uuid)] = reason_of(behavior);
  std::map<std::string, std::string> found;
  std::int64_t ended = 0;
  std::int64_t siblings = 0;
  for (const pg::Row row : check.connection.execute(kReasons, check.of_realm())) {
    found[row.get<std::string>(0)] = row.get<std::string>(1);
    if (row.get<std::string>(1) != "sibling_quorum_satisfied") ++ended;
  }
  for (const auto& [execution, reason] : expected) {
    const std::string its = found[execution];
    if (its == "sibling_quorum_satisfied")
      ++siblings;
    else if (its != reason)
      contradict(verdict, execution + " ended as '" + its + "' instead of '" + reason + "'");
  }
  expect_none(verdict, check.open.suspensions, "executions are suspended still");
  const WorkCounts& counts = check.counts;
  if (counts.suspended != counts.resumed + ended + siblings) contradict(verdict, "the numbers do not add up");
  verdict.numbers = counted(counts.suspended, "suspensions: ") + counted(counts.resumed, "resumed, ") +
                    counted(ended, "ended, ") + counted(siblings, "cancelled");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back(
      {.reconciler = "suspension_timeout", .number = counts.resumed + ended, .what = "suspensions"});
}

void waitpoints(Check& check) {
  Verdict verdict{.question = "no waitpoint outlived its time",
                  .numbers = counted(check.counts.waitpoints, "waitpoints with an expiry")};
  expect_none(verdict, check.open.waitpoints, "waitpoints are left");
  check.books.verdicts.push_back(std::move(verdict));
  // Those that go with their suspension are not counted by anyone.
  check.books.tallies.push_back({.reconciler = "pending_waitpoint_expiry",
                                 .compare = Tally::Compare::at_most,
                                 .number = check.counts.waitpoints,
                                 .what = "waitpoints"});
}

void endings_passed_on(Check& check) {
  const auto dispatched = check.connection.execute(kDispatched, check.of_realm()).one().get<std::int64_t>(0);
  Verdict verdict{.question = "every ending was passed on", .numbers = counted(dispatched, "endings")};
  expect_none(verdict, check.open.endings, "completion events were not dispatched");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "dependency", .number = dispatched, .what = "endings"});
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

  Verdict pending{
      .question = "no sibling waits to be cancelled",
      .numbers = counted(cancelled, "cancelled, ") + counted(check.counts.leftovers, "leftovers removed")};
  expect_none(pending, check.open.sibling_cancellations, "are pending");
  check.books.verdicts.push_back(std::move(pending));
  // Where all siblings ended in the meantime, nothing in the database tells.
  check.books.tallies.push_back({.reconciler = "edge_cancel_dispatcher",
                                 .outcome = "dispatched",
                                 .compare = Tally::Compare::at_least,
                                 .number = groups_with_cancelled,
                                 .what = "joins"});
  check.books.tallies.push_back({.reconciler = "edge_cancel_reconciler",
                                 .outcome = "sremmed_stale",
                                 .number = check.counts.leftovers,
                                 .what = "leftovers"});
}

void budgets(Check& check) {
  const pg::Result found = check.connection.execute(kBudgets);
  const auto number = found.one().get<std::int64_t>(0);
  Verdict verdict{.question = "every budget was reset when due", .numbers = counted(number, "budgets")};
  expect_none(verdict, check.open.budgets, "budgets still wait for their reset");
  expect_none(verdict, found.one().get<std::int64_t>(1), "used up after the last reset");
  check.books.verdicts.push_back(std::move(verdict));
  check.books.tallies.push_back({.reconciler = "budget_reset",
                                 .compare = Tally::Compare::at_least,
                                 .number = number,
                                 .what = "budgets"});
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

}  // namespace

void check_due(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database,
               Books& books) {
  Check check{.connection = connection,
              .realm = realm,
              .ledger = ledger,
              .with_budgets = whole_database,
              .books = books};
  delays(check);
  deadlines(check);
  suspensions(check);
  waitpoints(check);
  endings_passed_on(check);
  flows(check);
  if (whole_database) budgets(check);
  workers(check);
}

}  // namespace ff::sandbox
