#include "reconcile/worker.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "reconcile/action.hpp"

namespace ff::reconcile {
namespace {

// How often a batch that lost against another transaction (deadlock, serialization, something that forbids a move) is
// tried at once.
constexpr int kTries = 3;

// What a part of a batch may take once the whole has run into statement_timeout: the row at fault is met again in each
// half that holds it. Another row that would take longer is quarantined for a while, and then has all its time.
constexpr Milliseconds kHurry{2000};

// For a lock on a table a second is waited, or half of a short statement_timeout: who is refused one in half of that was
// refused by what a trigger does for a row.
Milliseconds shortest_lock_wait(const pg::Connection& connection) {
  return std::min<Milliseconds>(Milliseconds{500}, connection.statement_timeout() / 4);
}

// For so long a tick goes on to wait for rows that are held in turns; for a place in the queue of one, while nobody changes it; and
// for all that is done about one: each change of it begins another queue.
constexpr Milliseconds kWaitsFor{1000};
constexpr Milliseconds kLongestQueue{3000};
constexpr Milliseconds kLongestTurn{10'000};

// Rows in no more than a so-manyth of a group's partitions have a cheaper plan of their own.
constexpr std::size_t kFewOfAGroup = 4;

std::vector<Candidate> read_moved(const std::vector<pg::Row>& rows, std::size_t columns) {
  std::vector<Candidate> moved;
  moved.reserve(rows.size());
  for (const pg::Row row : rows)
    moved.push_back(
        {read_key(row, columns), unix_millis(row.get<std::int64_t>(static_cast<int>(columns) + 1)), true});
  return moved;
}

}  // namespace

bool Worker::may_write() const {
  return !job_.options.may_write || job_.options.may_write();
}

bool Worker::found_room() const {
  return !job_.options.found_room || job_.options.dry_run || job_.options.found_room();
}

bool Worker::has_to_stop() {
  const bool has = job_.options.stop.stop_requested();
  if (has) report_.more = true;
  return has;
}

bool Worker::out_of_time() {
  const bool is_out = job_.clock.now() >= job_.deadline || job_.options.stop.stop_requested() ||
                      !may_write() || job_.has_to_rest();
  if (is_out) report_.more = true;
  return is_out;
}

bool Worker::may_begin_one() {
  const bool may = !job_.options.stop.stop_requested() && may_write() && !job_.has_to_rest();
  if (asked_in_time_ && may) return true;
  return !out_of_time();
}

Answers Worker::ask(const std::vector<pg::Call>& calls) {
  const auto try_once = [&] {
    pg::Transaction transaction(*connection_, {.plan = pg::Plan::generic});
    const SteadyTime sent = job_.clock.now();
    asked_in_time_ = sent < job_.deadline;
    Answers answers{transaction.read_all(calls), sent, job_.clock.now()};
    note_answer();
    return answers;
  };
  try {
    return try_once();
  } catch (const pg::Error& error) {
    if (!error.connection_lost()) note_answer();
    if (!error.retryable()) throw;
  }
  return try_once();
}

void Worker::move_rows(Candidates batch) {
  // The last first: where a hundred before it fail alike, it tells whether everybody does.
  if (!move_whole(batch) && batch.size() > 1) move_apart(batch.last(1), batch.first(batch.size() - 1));
  hurried_ = false;
}

bool Worker::move_whole(Candidates batch) {
  for (int tries = 1;; ++tries) {
    const SteadyTime tried = Clock::system().now();
    try {
      const bool moved = try_once(batch);
      note_answer();
      if (moved) return true;
      if (tries < kTries) continue;
      if (batch.size() == 1) ++report_.skipped[Skip::locked];
      return false;
    } catch (const pg::Error& error) {
      if (error.connection_lost()) throw;
      note_answer();
      if (error.disk_full() && job_.options.met_full_disk) job_.options.met_full_disk();
      if (error.retryable() && tries < kTries) continue;
      const auto took = std::chrono::duration_cast<Milliseconds>(Clock::system().now() - tried);
      const bool at_once = took < shortest_lock_wait(*connection_);
      if (!error.may_be_one_row() && !(error.table_locked() && at_once)) throw;
      if (batch.size() == 1) blame(batch.front(), error, took);
      hurried_ = hurried_ || error.canceled();
      return false;
    }
  }
}

void Worker::note_answer() const {
  if (job_.options.progress) job_.options.progress->answered = job_.clock.now();
}

// One row spoils the others: halve until it is alone. The others are committed on the way. This goes on past the deadline,
// because the next tick would meet the same rows first; only a stop ends it.
void Worker::bisect(Candidates batch) {
  if (batch.size() == 1) return;
  const std::size_t half = batch.size() / 2;
  move_apart(batch.first(half), batch.last(batch.size() - half));
}

// Where the first part was clean, the row is in the second, which need not be tried as a whole.
void Worker::move_apart(Candidates first, Candidates second) {
  if (has_to_stop()) return;
  const bool clean = move_whole(first);
  if (!clean) bisect(first);
  if (has_to_stop()) return;
  if ((clean && second.size() > 1) || !move_whole(second)) bisect(second);
}

bool Worker::try_once(Candidates batch) {
  pg::Transaction transaction(*connection_, {.plan = pg::Plan::generic,
                                             .at_most = queues_    ? kLongestTurn
                                                        : hurried_ ? kHurry
                                                                   : Milliseconds::max(),
                                             .lock_wait = queues_ ? kLongestQueue : pg::kLongestLockWait});
  if (queues_ && !wait(transaction, batch)) {
    transaction.rollback();
    count_left(batch, {});
    return true;
  }
  const SteadyTime started = job_.clock.now();
  if (job_.statements.lock.empty()) return act_on(transaction, batch, batch, started);
  const std::vector<Candidate> locked = lock(transaction, batch);
  if (!locked.empty()) return act_on(transaction, locked, batch, started);
  transaction.rollback();
  count_left(batch, {});
  return true;
}

// False: it is held still.
bool Worker::wait(pg::Transaction& transaction, Candidates row) const {
  try {
    ask_of(transaction, job_.statements.wait, row);
    return true;
  } catch (const pg::Error& error) {
    if (!error.table_locked() && !error.canceled()) throw;
    return false;
  }
}

// Starts with another row each tick, and tries at least one, so that a holder that never commits cannot starve the rest.
void Worker::wait_for_held() {
  std::vector<Candidate> rows = std::exchange(held_, {});
  if (rows.empty()) return;
  // They are counted anew.
  std::int64_t& locked = report_.skipped[Skip::locked];
  locked -= static_cast<std::int64_t>(rows.size());
  if (locked == 0) report_.skipped.erase(Skip::locked);
  std::rotate(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(job_.queue_turn++ % rows.size()),
              rows.end());
  const SteadyTime until = std::min(job_.deadline, job_.clock.now() + kWaitsFor);
  queues_ = true;
  Candidates left = rows;
  while (!left.empty() && !job_.options.stop.stop_requested()) {
    move_whole(left.first(1));
    left = left.subspan(1);
    if (job_.clock.now() >= until) break;
  }
  count_left(left, {});
  queues_ = false;
}

// Those of the rows that may be moved, in their order.
std::vector<Candidate> Worker::lock(pg::Transaction& transaction, Candidates batch) const {
  std::set<RowKey> keys;
  for (const pg::Result& rows : ask_of(transaction, job_.statements.lock, batch))
    for (const pg::Row row : rows) keys.insert(read_key(row, job_.reconciler.key.size()));
  std::vector<Candidate> locked;
  std::ranges::copy_if(batch, std::back_inserter(locked),
                       [&](const Candidate& row) { return keys.contains(row.key); });
  return locked;
}

// False: a row was moved that must not be. Nothing is written, and the next try sees what forbids it.
bool Worker::act_on(pg::Transaction& transaction, Candidates rows_to_move, Candidates batch,
                    SteadyTime started) {
  const std::vector<pg::Result> results = ask_of(transaction, job_.statements.act, rows_to_move);
  const SteadyTime answered = job_.clock.now();
  const std::vector<pg::Row> rows = rows_of_batch(results, job_.reconciler);
  const std::vector<Candidate> moved = read_moved(rows, job_.reconciler.key.size());
  if (is_forbidden(transaction, moved)) {
    transaction.rollback();
    return false;
  }
  if (!rows.empty()) {
    const int acted_at = static_cast<int>(job_.reconciler.key.size()) + 3;
    job_.learn_time({started, answered, unix_millis(rows.back().get<std::int64_t>(acted_at))});
  }
  // The server may have stood still while it acted, and its workers with it, or its clock was set; or its disk was full. In this
  // order: who is told of room begins a grace, in which nobody else may write.
  const bool has_room = moved.empty() || found_room();
  if (!may_write() || !has_room) {
    transaction.rollback();
    report_.more = true;
    return true;
  }
  if (job_.options.dry_run)
    transaction.rollback();
  else
    commit(transaction, results);
  if (!job_.options.dry_run && job_.reconciler.weighs)
    job_.shared->rate_limit.did(weight_of(results), job_.clock.now());
  const auto took = std::chrono::duration_cast<Milliseconds>(job_.clock.now() - started);
  if (!job_.options.dry_run) tell(results, true);
  job_.batch_size.learn(batch.size(), took, std::chrono::duration_cast<Milliseconds>(answered - started));

  count_moved(rows, moved, took);
  note_taken(rows, moved, batch);
  if (!moved.empty()) job_.suspects.another_went_well();
  if (moved.size() < batch.size()) count_left(batch, moved);
  return true;
}

// Where the connection breaks during COMMIT, the actions are told of as unknown.
void Worker::commit(pg::Transaction& transaction, std::span<const pg::Result> results) const {
  try {
    transaction.commit();
  } catch (const pg::Error& error) {
    if (error.outcome_unknown()) tell(results, false);
    throw;
  }
}

void Worker::tell(std::span<const pg::Result> results, bool committed) const {
  if (!job_.options.tell || !ends_or_deletes(job_.reconciler)) return;
  if (const auto actions = actions_of(results, job_.reconciler, committed); !actions.empty())
    job_.options.tell(actions);
}

// One call for the rows of each group. Where a row comes now and then, its own partition alone is planned for: the first row of a
// group must not wait for a plan over all of it.
std::vector<pg::Result> Worker::ask_of(pg::Transaction& transaction, const Statement& statement,
                                       Candidates rows) const {
  std::vector<pg::Call> calls;
  for (std::size_t from = 0; from < rows.size();) {
    const Partitions group = job_.groups.around(rows[from].key.partition);
    std::size_t to = from;
    while (to < rows.size() && std::ranges::binary_search(group, rows[to].key.partition)) ++to;
    const Candidates its = rows.subspan(from, to - from);
    const Partitions partitions = partitions_of(its);
    const bool are_few = partitions.size() * kFewOfAGroup <= group.size();
    pg::Params params = job_.params(partitions);
    add_keys(params, job_.reconciler, its);
    calls.push_back({.sql = statement.over(group),
                     .params = std::move(params),
                     .narrower = are_few ? statement.over(partitions) : std::string()});
    from = to;
  }
  return transaction.execute_all(std::move(calls));
}

bool Worker::is_forbidden(pg::Transaction& transaction, Candidates moved) const {
  if (job_.statements.forbidden.empty() || moved.empty()) return false;
  const auto answers = ask_of(transaction, job_.statements.forbidden, moved);
  return std::ranges::any_of(answers, [](const pg::Result& rows) { return !rows.empty(); });
}

void Worker::blame(const Candidate& row, const pg::Error& error, Milliseconds took) {
  Fault fault{&job_.reconciler, row.key, reconcile::execution_of(job_.reconciler, row.key), error, took};
  if (error.is_of_the_data()) {
    fault.execution = execution_of(row);
    job_.put_in_quarantine(fault, report_);
  } else if (!job_.suspects.add(fault)) {
    throw error;
  }
}

// People know an execution, and not the id of its event. What cannot be told now is not worth a tick.
std::optional<ExecutionId> Worker::execution_of(const Candidate& row) try {
  const auto by_key = reconcile::execution_of(job_.reconciler, row.key);
  if (by_key || !job_.names_executions()) return by_key;
  pg::Transaction transaction(*connection_, {.plan = pg::Plan::generic});
  const std::vector<pg::Result> results = ask_of(transaction, job_.statements.still_due, {&row, 1});
  transaction.rollback();
  if (results.front().empty()) return std::nullopt;
  const auto execution = results.front().one().get<std::optional<Uuid>>("its_execution");
  return execution ? std::optional(ExecutionId{row.key.partition, *execution}) : std::nullopt;
} catch (const pg::Error& error) {
  if (error.connection_lost()) throw;
  return std::nullopt;
}

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
