#include "demo/simulation/books.hpp"

#include "demo/simulation/audit.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition keys, $2 the name of lane and namespace.

// At rest an execution waits or has ended. FlowFabric's workers leave public_state as it was when they put an execution
// back or end it, and a signal leaves the ownership.
constexpr std::string_view kNotAtRest = R"sql(
  SELECT partition_key::integer, execution_id::text,
         concat_ws('/', lifecycle_phase, ownership_state, eligibility_state, public_state, attempt_state)
    FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2
     AND NOT ((ownership_state = 'unowned' OR ownership_state = 'released' AND public_state = 'resumable')
              AND (lifecycle_phase = 'runnable' AND eligibility_state = 'eligible_now'
                   AND public_state IN ('waiting', 'resumable', 'running', 'active') AND terminal_at_ms IS NULL
                   AND attempt_state IN ('pending', 'pending_first_attempt', 'pending_retry_attempt', 'attempt_interrupted')
                OR lifecycle_phase = 'runnable' AND eligibility_state = 'blocked_by_dependencies'
                   AND blocking_reason = 'waiting_for_children' AND attempt_state = 'attempt_interrupted'
                OR lifecycle_phase = 'blocked' AND eligibility_state = 'blocked_by_dependencies'
                   AND public_state = 'waiting' AND terminal_at_ms IS NULL
                   AND attempt_state IN ('pending', 'pending_first_attempt')
                OR lifecycle_phase = 'terminal' AND eligibility_state = 'not_applicable'
                   AND terminal_at_ms IS NOT NULL
                   AND (public_state IN ('completed', 'failed', 'expired', 'cancelled', 'skipped', 'running', 'active')
                        AND attempt_state = 'attempt_terminal'
                     OR public_state = 'cancelled' AND attempt_state = 'cancelled')
                OR lifecycle_phase = 'cancelled' AND eligibility_state = 'not_applicable'
                   AND terminal_at_ms IS NOT NULL
                   AND public_state = 'cancelled' AND attempt_state = 'cancelled'))
   ORDER BY 1, 2)sql";

constexpr std::string_view kReleases = R"sql(
  SELECT e.execution_id, count(*) FILTER (WHERE e.event_type = 'expired'),
         count(*) FILTER (WHERE e.event_type = 'revoked'),
         count(*) FILTER (WHERE e.event_type = 'reclaimed'), c.public_state IN ('cancelled', 'skipped')
    FROM ff_lease_event e
    JOIN ff_exec_core c ON c.partition_key = e.partition_key AND c.execution_id = e.execution_id::uuid
   WHERE e.partition_key = ANY($1) AND c.partition_key = ANY($1) AND e.namespace = $2 AND c.lane_id = $2
   GROUP BY e.execution_id, c.public_state)sql";

// Leases taken by whomever; by lease_expiry, which counts them in the attempt; by execution_deadline.
constexpr std::string_view kTallies = R"sql(
  SELECT (SELECT count(*) FROM ff_lease_event
           WHERE partition_key = ANY($1) AND namespace = $2 AND event_type = 'expired'),
         (SELECT coalesce(sum((a.raw_fields->>'lease_reclaims')::bigint), 0)::bigint
            FROM ff_attempt a JOIN ff_exec_core c USING (partition_key, execution_id)
           WHERE a.partition_key = ANY($1) AND c.partition_key = ANY($1) AND c.lane_id = $2),
         (SELECT count(*) FROM ff_exec_core
           WHERE partition_key = ANY($1) AND lane_id = $2 AND public_state = 'expired'
             AND raw_fields->>'last_failure_message' = 'execution_deadline'))sql";

// Those that lapsed only because somebody ended them.
constexpr std::string_view kEndedEarly = R"sql(
  SELECT DISTINCT a.execution_id
    FROM ff_attempt a
    JOIN ff_exec_core c USING (partition_key, execution_id)
   WHERE a.partition_key = ANY($1) AND c.partition_key = ANY($1) AND c.lane_id = $2
     AND a.raw_fields->'ended_by'->>'by' = 'dead_worker')sql";

constexpr std::string_view kWrongCompletions = R"sql(
  SELECT c.partition_key::integer, c.execution_id::text, c.lifecycle_phase, count(e.event_id)
    FROM ff_exec_core c
    LEFT JOIN ff_completion_event e ON e.partition_key = c.partition_key AND e.execution_id = c.execution_id
                                   AND e.partition_key = ANY($1) AND e.outcome <> 'resumable'
   WHERE c.partition_key = ANY($1) AND c.lane_id = $2
   GROUP BY c.partition_key, c.execution_id, c.lifecycle_phase
  HAVING count(e.event_id) <> CASE WHEN c.lifecycle_phase IN ('terminal', 'cancelled') THEN 1 ELSE 0 END
   ORDER BY 1, 2)sql";

// Many of FlowFabric's carry no namespace.
constexpr std::string_view kCompletions = R"sql(
  SELECT e.outcome, count(*)
    FROM ff_completion_event e
    JOIN ff_exec_core c ON c.partition_key = e.partition_key AND c.execution_id = e.execution_id
   WHERE e.partition_key = ANY($1) AND c.partition_key = ANY($1) AND c.lane_id = $2
   GROUP BY e.outcome)sql";

void expect(Verdict& verdict, const std::string& what, std::int64_t expected, std::int64_t found) {
  verdict.numbers += (verdict.numbers.empty() ? "" : ", ") + std::to_string(found) + " " + what;
  if (expected != found)
    contradict(verdict,
               std::to_string(found) + " " + what + ", but it should be " + std::to_string(expected));
}

std::string named(const pg::Row& row) {
  return to_string(ExecutionId{row.get<PartitionKey>(0), parse_uuid(row.get<std::string>(1)).value()});
}

Verdict states(pg::Connection& connection, const Realm& realm, bool whole_database) {
  Verdict verdict{.question = "every execution is in a legal state"};
  const std::int64_t total = take_census(connection, realm).total();
  verdict.numbers = std::to_string(total) + " executions";
  for (const pg::Row row : connection.execute(kNotAtRest, of(realm)))
    contradict(verdict, named(row) + " is " + row.get<std::string>(2));
  if (!whole_database) return verdict;
  verdict.numbers += ", " + std::to_string(audit_rules().size()) + " rules";
  for (std::string& line : audit(connection)) contradict(verdict, std::move(line));
  return verdict;
}

Verdict lapses(pg::Connection& connection, const Realm& realm, const Ledger& ledger) {
  Verdict verdict{.question = "every crash was noticed, exactly once"};
  auto accounts = ledger.leases();
  std::int64_t expired_in_all = 0;
  std::int64_t revoked_in_all = 0;
  std::int64_t reclaimed_in_all = 0;
  for (const pg::Row row : connection.execute(kReleases, of(realm))) {
    const std::string execution = row.get<std::string>(0);
    const Uuid uuid = parse_uuid(execution).value();
    const Ledger::Leases mine = accounts[uuid];
    accounts.erase(uuid);
    const auto expired = row.get<std::int64_t>(1);
    const std::int64_t revoked = row.get<std::int64_t>(2) - mine.released;
    const auto reclaimed = row.get<std::int64_t>(3);
    expired_in_all += expired;
    revoked_in_all += revoked;
    reclaimed_in_all += reclaimed;
    // Whoever cancels a sibling at work takes its lease, or skips one that cannot succeed any more; nobody else
    // revokes what is not his.
    const bool revocable = revoked == 0 || (revoked == 1 && row.get<bool>(4));
    if (expired + revoked + reclaimed != mine.abandoned || !revocable)
      contradict(verdict, execution + ": " + std::to_string(mine.abandoned) + " leases were left behind, " +
                              std::to_string(expired) + " were taken back, " + std::to_string(revoked) +
                              " revoked and " + std::to_string(reclaimed) + " taken over");
  }
  for (const auto& [uuid, account] : accounts)
    contradict(verdict, to_string(uuid) + ": no lease event tells what its workers did");
  const WorkCounts counts = ledger.counts();
  verdict.numbers = std::to_string(counts.crashed) + " crashes, " + std::to_string(counts.lost) +
                    " ended at work; " + std::to_string(expired_in_all) + " leases taken back, " +
                    std::to_string(revoked_in_all) + " revoked, " + std::to_string(reclaimed_in_all) +
                    " taken over";
  return verdict;
}

// Of whoever crashes the heartbeats stop as well: where the machine is slow, the lease of an ordinary one, too, may hold
// for longer than that is waited for.
void silence(pg::Connection& connection, const Realm& realm, const Ledger& ledger, Books& books) {
  Verdict verdict{.question = "no silent worker kept its lease"};
  std::set<Uuid> ended;
  for (const pg::Row row : connection.execute(kEndedEarly, of(realm))) ended.insert(row.get<Uuid>(0));
  const std::set<Uuid> silent = ledger.silent();
  for (const Uuid& execution : silent)
    if (!ended.contains(execution)) contradict(verdict, to_string(execution) + ": nobody ended the lease");
  verdict.numbers = std::to_string(ledger.counts().silent) + " fell silent with " +
                    std::to_string(silent.size()) + " executions";
  books.verdicts.push_back(std::move(verdict));
  books.tallies.push_back({.reconciler = "dead_worker",
                           .outcomes = {"lease_ended"},
                           .compare = Tally::Compare::at_least,
                           .number = ledger.counts().silent,
                           .what = "leases of the silent"});
}

Verdict completions(pg::Connection& connection, const Realm& realm) {
  Verdict verdict{.question = "each ending has exactly one event"};
  for (const pg::Row row : connection.execute(kWrongCompletions, of(realm)))
    contradict(verdict, named(row) + " is " + row.get<std::string>(2) + " and has " +
                            std::to_string(row.get<std::int64_t>(3)) + " completion events");
  const Census census = take_census(connection, realm);
  verdict.numbers = std::to_string(census.ended()) + " ended executions";
  return verdict;
}

Verdict endings(pg::Connection& connection, const Realm& realm, const Ledger& ledger) {
  Verdict verdict{.question = "no work was lost or done twice"};
  std::map<std::string, std::int64_t> events;
  for (const pg::Row row : connection.execute(kCompletions, of(realm)))
    events[row.get<std::string>(0)] = row.get<std::int64_t>(1);
  const WorkCounts counts = ledger.counts();
  expect(verdict, "created", counts.created, take_census(connection, realm).total());
  expect(verdict, "completed", counts.completed, events["success"]);
  expect(verdict, "failed", counts.failed, events["failed"]);
  return verdict;
}

Verdict ghosts(const Ledger& ledger) {
  Verdict verdict{.question = "whoever comes back too late is refused"};
  const WorkCounts counts = ledger.counts();
  verdict.numbers = std::to_string(counts.ghosts_refused + counts.ghosts_accepted) + " came back, " +
                    std::to_string(counts.ghosts_refused) + " refused";
  if (counts.ghosts_accepted > 0)
    contradict(verdict, std::to_string(counts.ghosts_accepted) + " went on with a claim taken from them");
  return verdict;
}

void tally(pg::Connection& connection, const Realm& realm, const Ledger& ledger, Books& books) {
  const pg::Result found = connection.execute(kTallies, of(realm));
  const auto number = [&](int column) { return found.one().get<std::int64_t>(column); };
  const std::int64_t all = number(0);
  const std::int64_t reclaimed = number(1);
  const std::int64_t overdue = number(2);
  books.tallies.push_back(
      {.reconciler = "lease_expiry", .outcomes = {"reclaimable"}, .number = reclaimed, .what = "reclaims"});
  books.tallies.push_back({.reconciler = "attempt_timeout",
                           .outcomes = {"retried", "expired"},
                           .number = all - reclaimed - overdue,
                           .what = "other lapsed leases"});
  // The lease of whoever was taken over from stays until it has lapsed, and somebody clears it.
  books.tallies.push_back({.reconciler = "lease_expiry",
                           .outcomes = {"stale_cleared"},
                           .others = {"attempt_timeout"},
                           .number = ledger.counts().taken_over,
                           .what = "leases of predecessors"});
  books.tallies.push_back({.reconciler = "execution_deadline", .number = overdue, .what = "deadlines"});
}

}  // namespace

void contradict(Verdict& verdict, std::string line) {
  constexpr std::size_t kEvidence = 5;
  verdict.balanced = false;
  if (verdict.evidence.size() < kEvidence) verdict.evidence.push_back(std::move(line));
}

void check_work(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database,
                Books& books) {
  books.verdicts.push_back(states(connection, realm, whole_database));
  books.verdicts.push_back(lapses(connection, realm, ledger));
  if (ledger.counts().silent > 0) silence(connection, realm, ledger, books);
  books.verdicts.push_back(completions(connection, realm));
  books.verdicts.push_back(endings(connection, realm, ledger));
  books.verdicts.push_back(ghosts(ledger));
  tally(connection, realm, ledger, books);
}

Books check_books(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database) {
  Books books;
  check_work(connection, realm, ledger, whole_database, books);
  check_due(connection, realm, ledger, whole_database, books);
  return books;
}

}  // namespace ff::simulation
