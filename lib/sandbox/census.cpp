#include "sandbox/census.hpp"

#include "pg/transaction.hpp"
#include "sandbox/audit.hpp"

namespace ff::sandbox {
namespace {

constexpr std::size_t kEvidence = 5;

// In every statement: $1 partition keys, $2 the name of lane and namespace.

constexpr std::string_view kExecutions = R"sql(
  SELECT public_state, count(*) FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2
   GROUP BY public_state)sql";

constexpr std::string_view kLeases = R"sql(
  SELECT count(*), count(*) FILTER (WHERE a.lease_expires_at_ms < extract(epoch FROM clock_timestamp()) * 1000)
    FROM ff_attempt a
    JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
   WHERE a.partition_key = ANY($1) AND a.lease_expires_at_ms IS NOT NULL
     AND c.partition_key = ANY($1) AND c.lane_id = $2)sql";

// $3 an event_id
constexpr std::string_view kTakenSince = R"sql(
  SELECT event_id, execution_id FROM ff_lease_event
   WHERE event_id > $3 AND partition_key = ANY($1) AND namespace = $2 AND event_type = 'expired'
   ORDER BY event_id)sql";

// At rest an execution waits or has ended.
constexpr std::string_view kNotAtRest = R"sql(
  SELECT partition_key::integer, execution_id::text,
         concat_ws('/', lifecycle_phase, ownership_state, eligibility_state, public_state, attempt_state)
    FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2
     AND NOT (ownership_state = 'unowned'
              AND (lifecycle_phase = 'runnable' AND eligibility_state = 'eligible_now'
                   AND public_state = 'waiting' AND terminal_at_ms IS NULL
                   AND attempt_state IN ('pending', 'pending_retry_attempt', 'attempt_interrupted')
                OR lifecycle_phase = 'terminal' AND eligibility_state = 'not_applicable'
                   AND public_state IN ('completed', 'failed', 'expired') AND terminal_at_ms IS NOT NULL
                   AND attempt_state = 'attempt_terminal'))
   ORDER BY 1, 2)sql";

constexpr std::string_view kTakenOf = R"sql(
  SELECT execution_id, count(*) FROM ff_lease_event
   WHERE partition_key = ANY($1) AND namespace = $2 AND event_type = 'expired'
   GROUP BY execution_id)sql";

constexpr std::string_view kWrongCompletions = R"sql(
  SELECT c.partition_key::integer, c.execution_id::text, c.public_state, count(e.event_id)
    FROM ff_exec_core c
    LEFT JOIN ff_completion_event e ON e.partition_key = c.partition_key AND e.execution_id = c.execution_id
                                   AND e.partition_key = ANY($1)
   WHERE c.partition_key = ANY($1) AND c.lane_id = $2
   GROUP BY c.partition_key, c.execution_id, c.public_state, c.lifecycle_phase
  HAVING count(e.event_id) <> CASE WHEN c.lifecycle_phase = 'terminal' THEN 1 ELSE 0 END
   ORDER BY 1, 2)sql";

constexpr std::string_view kCompletions = R"sql(
  SELECT outcome, count(*) FROM ff_completion_event
   WHERE partition_key = ANY($1) AND namespace = $2
   GROUP BY outcome)sql";

pg::Params of(const Realm& realm) {
  return pg::Params::of(realm.partitions, realm.name);
}

void contradict(Verdict& verdict, std::string line) {
  verdict.balanced = false;
  if (verdict.evidence.size() < kEvidence) verdict.evidence.push_back(std::move(line));
}

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
  verdict.numbers = std::to_string(total) + " executions, waiting or ended";
  for (const pg::Row row : connection.execute(kNotAtRest, of(realm)))
    contradict(verdict, named(row) + " is " + row.get<std::string>(2));
  if (!whole_database) return verdict;
  verdict.numbers += ", " + std::to_string(audit_rules().size()) + " rules of the audit";
  for (std::string& line : audit(connection)) contradict(verdict, std::move(line));
  return verdict;
}

Verdict lapses(pg::Connection& connection, const Realm& realm, const Ledger& ledger, Books& books) {
  Verdict verdict{.question = "every crash was noticed, exactly once"};
  auto expected = ledger.lapses();
  for (const pg::Row row : connection.execute(kTakenOf, of(realm))) {
    const std::string execution = row.get<std::string>(0);
    const auto taken = row.get<std::int64_t>(1);
    books.leases_taken += taken;
    const Uuid uuid = parse_uuid(execution).value();
    const auto found = expected.find(uuid);
    const std::int64_t lapsed = found == expected.end() ? 0 : found->second;
    if (taken != lapsed)
      contradict(verdict, execution + ": " + std::to_string(lapsed) + " leases lapsed, " +
                              std::to_string(taken) + " were taken back");
    if (found != expected.end()) expected.erase(found);
  }
  for (const auto& [uuid, lapsed] : expected)
    contradict(verdict,
               to_string(uuid) + ": " + std::to_string(lapsed) + " leases lapsed, none was taken back");
  const WorkCounts counts = ledger.counts();
  verdict.numbers = std::to_string(counts.crashed) + " crashes" +
                    (counts.lost > 0 ? " and " + std::to_string(counts.lost) + " too slow" : "") + ", " +
                    std::to_string(books.leases_taken) + " leases taken back";
  return verdict;
}

Verdict completions(pg::Connection& connection, const Realm& realm) {
  Verdict verdict{.question = "each ended execution has exactly one completion event"};
  for (const pg::Row row : connection.execute(kWrongCompletions, of(realm)))
    contradict(verdict, named(row) + " is " + row.get<std::string>(2) + " and has " +
                            std::to_string(row.get<std::int64_t>(3)) + " completion events");
  const Census census = take_census(connection, realm);
  verdict.numbers = std::to_string(census.total() - census.of("waiting")) + " ended executions";
  return verdict;
}

Verdict endings(pg::Connection& connection, const Realm& realm, const Ledger& ledger, Books& books) {
  Verdict verdict{.question = "no work was lost or done twice"};
  std::map<std::string, std::int64_t> events;
  for (const pg::Row row : connection.execute(kCompletions, of(realm)))
    events[row.get<std::string>(0)] = row.get<std::int64_t>(1);
  books.expired = events["expired"];
  const WorkCounts counts = ledger.counts();
  expect(verdict, "created", counts.created, take_census(connection, realm).total());
  expect(verdict, "completed", counts.completed, events["success"]);
  expect(verdict, "failed", counts.failed, events["failed"]);
  return verdict;
}

Verdict ghosts(const Ledger& ledger) {
  Verdict verdict{.question = "a worker that comes back too late is refused"};
  const WorkCounts counts = ledger.counts();
  verdict.numbers = std::to_string(counts.ghosts_refused + counts.ghosts_accepted) + " came back, " +
                    std::to_string(counts.ghosts_refused) + " refused";
  if (counts.ghosts_accepted > 0)
    contradict(verdict, std::to_string(counts.ghosts_accepted) + " went on with a claim taken from them");
  return verdict;
}

}  // namespace

std::int64_t Census::total() const {
  std::int64_t sum = 0;
  for (const auto& [state, number] : executions) sum += number;
  return sum;
}

Census take_census(pg::Connection& connection, const Realm& realm) {
  Census census;
  for (const pg::Row row : connection.execute(kExecutions, of(realm)))
    census.executions.emplace(row.get<std::string>(0), row.get<std::int64_t>(1));
  const pg::Result leases = connection.execute(kLeases, of(realm));
  census.leases = leases.one().get<std::int64_t>(0);
  census.lapsed = leases.one().get<std::int64_t>(1);
  return census;
}

std::vector<TakenLease> taken_leases(pg::Connection& connection, const Realm& realm, std::int64_t after) {
  std::vector<TakenLease> taken;
  for (const pg::Row row : connection.execute(kTakenSince, of(realm).add(after)))
    taken.push_back({row.get<std::int64_t>(0), row.get<std::string>(1)});
  return taken;
}

Books check_books(pg::Connection& connection, const Realm& realm, const Ledger& ledger, bool whole_database) {
  Books books;
  books.verdicts.push_back(states(connection, realm, whole_database));
  books.verdicts.push_back(lapses(connection, realm, ledger, books));
  books.verdicts.push_back(completions(connection, realm));
  books.verdicts.push_back(endings(connection, realm, ledger, books));
  books.verdicts.push_back(ghosts(ledger));
  return books;
}

}  // namespace ff::sandbox
