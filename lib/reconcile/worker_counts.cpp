// What became of the rows of a batch.
#include <algorithm>
#include <map>
#include <set>

#include "reconcile/worker.hpp"

namespace ff::reconcile {
namespace {

Effect effect_of(const Outcome* outcome) {
  return outcome != nullptr ? outcome->effect : Effect::moved;
}

}  // namespace

void Worker::count_moved(const std::vector<pg::Row>& rows, Candidates moved, Milliseconds took) {
  const int outcome_at = static_cast<int>(job_.reconciler.key.size()) + 2;
  const std::int64_t before = report_.processed;
  std::size_t next = 0;
  for (const pg::Row row : rows) {
    const RowKey& key = moved[next].key;
    const UnixMillis due_at = moved[next++].due_at;
    const auto outcome = row.get<std::string>(outcome_at);
    ++report_.outcomes[outcome];
    if (!job_.options.dry_run) job_.quarantine.release(key);
    const Outcome* const declared = outcome_of(job_.reconciler, outcome);
    if (!job_.options.dry_run && declared != nullptr && declared->goes_on) report_.more = true;
    if (effect_of(declared) == Effect::left_alone) continue;
    ++report_.processed;
    if (effect_of(declared) == Effect::given_back) ++report_.given_back;
    // A time before 1970 is no time; a difference from it might not even fit.
    const auto acted_at = unix_millis(row.get<std::int64_t>(outcome_at + 1));
    report_.lateness.add(acted_at - job_.late_since(std::max(due_at, UnixMillis{}), key) + took);
    if (job_.options.list_moves) report_.moves.push_back({key, outcome, due_at, &job_.reconciler});
  }
  if (job_.options.progress) job_.options.progress->processed += report_.processed - before;
}

// Whose leases went, for the breaker: also those of whom it ends.
void Worker::note_taken(const std::vector<pg::Row>& rows, Candidates moved, Candidates batch) const {
  if (job_.storm() == nullptr || !job_.reconciler.takes_leases || !job_.whose()) return;
  const int outcome_at = static_cast<int>(job_.reconciler.key.size()) + 2;
  const UnixMillis counts_after = job_.storm()->counts_after();
  std::map<RowKey, std::string_view> holders;
  for (const Candidate& row : batch) holders.emplace(row.key, row.holder);
  LeasesOf taken;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Effect effect = effect_of(outcome_of(job_.reconciler, rows[i].get<std::string>(outcome_at)));
    if ((effect == Effect::given_back || effect == Effect::ended) && moved[i].due_at > counts_after)
      ++taken[std::string(holders[moved[i].key])];
  }
  job_.storm()->taken(taken);
}

// What `act` left alone was either held by somebody, and then it is due still, or it had been moved in the
// meantime. The batch is committed already: an error here is reported, but does not fail it.
void Worker::count_left(Candidates batch, Candidates moved) {
  std::set<RowKey> keys;
  for (const Candidate& row : moved) keys.insert(row.key);
  std::vector<Candidate> left;
  std::ranges::copy_if(batch, std::back_inserter(left),
                       [&](const Candidate& row) { return !keys.contains(row.key); });
  try {
    count_each_left(left);
  } catch (const pg::Error& error) {
    if (error.connection_lost()) throw;
    if (!report_.failure) report_.failure = error;
  }
}

void Worker::count_each_left(Candidates left) {
  if (left.empty()) return;
  pg::Transaction transaction(*connection_, {.plan = pg::Plan::generic});
  const std::vector<pg::Result> results = ask_of(transaction, job_.statements.still_due, left);
  transaction.rollback();
  const std::size_t columns = job_.reconciler.key.size();
  const bool may_wait = !queues_ && !job_.statements.wait.empty();
  std::set<RowKey> locked;
  for (const pg::Result& rows : results)
    for (const pg::Row row : rows) {
      RowKey key = read_key(row, columns);
      if (!job_.options.dry_run && !may_wait) {
        const auto execution = row.get<std::optional<Uuid>>(static_cast<int>(columns) + 1);
        job_.held_rows.found(key,
                             execution ? std::optional(ExecutionId{key.partition, *execution}) : std::nullopt,
                             job_.clock.now());
      }
      locked.insert(std::move(key));
    }
  for (const Candidate& row : left) {
    const bool is_locked = locked.contains(row.key);
    if (is_locked && may_wait) held_.push_back(row);
    ++report_.skipped[is_locked ? Skip::locked : Skip::no_longer_due];
    if (!is_locked && !job_.options.dry_run) job_.quarantine.release(row.key);
  }
}

}  // namespace ff::reconcile
