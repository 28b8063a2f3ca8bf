#include "reconcile/worker.hpp"

#include <algorithm>
#include <set>
#include <utility>

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

std::vector<pg::Call> calls_of(const std::vector<Question>& questions) {
  std::vector<pg::Call> calls;
  calls.reserve(questions.size());
  for (const Question& question : questions)
    calls.push_back({.sql = question.sql, .params = question.params, .narrower = question.narrower});
  return calls;
}

bool Worker::may_write() const {
  return !job_.options.may_write || job_.options.may_write();
}

bool Worker::has_to_stop() {
  const bool has = job_.options.stop.stop_requested();
  if (has) report_.more = true;
  return has;
}

bool Worker::ask_first() {
  if (!job_.prelude) return true;
  pg::Transaction transaction(*connection_, {.plan = pg::Plan::generic});
  const SteadyTime sent = job_.clock.now();
  const bool worth_a_scan = job_.ask(transaction);
  transaction.rollback();
  job_.learn_time({sent, job_.clock.now(), job_.told->database_time});
  if (report_.database_time == UnixMillis{}) report_.database_time = job_.told->database_time;
  return worth_a_scan;
}

bool Worker::out_of_time() {
  const bool is_out = job_.clock.now() >= job_.deadline || job_.options.stop.stop_requested() ||
                      !may_write() || job_.has_to_rest();
  if (is_out) report_.more = true;
  return is_out;
}

bool Worker::may_begin_one() {
  const bool may = !job_.options.stop.stop_requested() && may_write() && !job_.has_to_rest();
  if (read_in_time_ && may) return true;
  return !out_of_time();
}

std::vector<Candidate> Worker::read(const std::vector<Question>& questions) {
  try {
    return read_once(questions);
  } catch (const pg::Error& error) {
    if (!error.connection_lost()) note_answer();
    if (!error.retryable()) throw;
  }
  return read_once(questions);
}

std::vector<Candidate> Worker::read_once(const std::vector<Question>& questions) {
  pg::Transaction transaction(*connection_, {.plan = pg::Plan::generic});
  const SteadyTime sent = job_.clock.now();
  read_in_time_ = sent < job_.deadline;
  const std::vector<pg::Result> results = transaction.read_all(calls_of(questions));
  const SteadyTime answered = job_.clock.now();
  note_answer();

  const std::size_t columns = job_.reconciler.key.size();
  const int due_at = static_cast<int>(columns) + 1;
  std::vector<Candidate> found;
  for (const pg::Result& rows : results)
    for (const pg::Row row : rows) {
      const auto now = unix_millis(row.get<std::int64_t>(due_at + 2));
      if (found.empty()) job_.learn_time({sent, answered, now});
      if (report_.database_time == UnixMillis{}) report_.database_time = now;
      if (row.is_null(0)) break;  // nothing was found: the row tells the time only
      found.push_back({read_key(row, columns), unix_millis(row.get<std::int64_t>(due_at)),
                       row.get<bool>(due_at + 1), now});
      if (job_.whose() && rows.columns() > due_at + 3) {
        found.back().name_space = row.get<std::optional<std::string>>(due_at + 3).value_or("");
        found.back().holder = row.get<std::optional<std::string>>(due_at + 4).value_or("");
      }
    }
  return found;
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
      if (error.retryable() && tries < kTries) continue;
      const bool at_once = Clock::system().now() - tried < shortest_lock_wait(*connection_);
      if (!error.may_be_one_row() && !(error.table_locked() && at_once)) throw;
      if (batch.size() == 1) blame(batch.front(), error);
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
  const std::vector<pg::Result> results =
      ask_of(transaction, tells() ? job_.statements.act_telling : job_.statements.act, rows_to_move);
  const SteadyTime answered = job_.clock.now();
  const std::vector<pg::Row> rows = rows_of_batch(results);
  const std::vector<Candidate> moved = read_moved(rows, job_.reconciler.key.size());
  if (is_forbidden(transaction, moved)) {
    transaction.rollback();
    return false;
  }
  if (!rows.empty()) {
    const int acted_at = static_cast<int>(job_.reconciler.key.size()) + 3;
    job_.learn_time({started, answered, unix_millis(rows.back().get<std::int64_t>(acted_at))});
  }
  // The server may have stood still while it acted, and its workers with it, or its clock was set.
  if (!may_write()) {
    transaction.rollback();
    report_.more = true;
    return true;
  }
  if (job_.options.dry_run)
    transaction.rollback();
  else
    commit(transaction, results);
  if (!job_.options.dry_run && job_.reconciler.weighs) count_weight(results);
  const auto took = std::chrono::duration_cast<Milliseconds>(job_.clock.now() - started);
  if (!job_.options.dry_run) tell(results, true);
  job_.batch_size.learn(batch.size(), took, std::chrono::duration_cast<Milliseconds>(answered - started));

  count_moved(rows, moved, took);
  note_taken(rows, moved, batch);
  if (!moved.empty()) job_.suspects.another_went_well();
  if (moved.size() < batch.size()) count_left(batch, moved);
  return true;
}

bool Worker::tells() const {
  return job_.options.tell && !job_.options.dry_run && !job_.statements.act_telling.empty();
}

// Without the executions that were ended beside them. The results must outlive it.
std::vector<pg::Row> Worker::rows_of_batch(std::span<const pg::Result> results) const {
  std::vector<pg::Row> its;
  for (const pg::Result& rows : results)
    for (const pg::Row row : rows)
      if (!tells() || !is_beside(row, job_.reconciler)) its.push_back(row);
  return its;
}

// Each row says the same of all.
void Worker::count_weight(std::span<const pg::Result> results) const {
  std::int64_t weight = 0;
  for (const pg::Result& rows : results)
    for (const pg::Row row : rows) {
      weight += row.get<std::int64_t>(rows.columns() - 1);
      break;
    }
  job_.shared->rate_limit.did(weight, job_.clock.now());
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
  if (!tells()) return;
  if (const auto actions = actions_of(results, job_.reconciler, committed); !actions.empty())
    job_.options.tell(actions);
}

// One call for the rows of each group. Where a row comes now and then, its own partition alone is planned for: the first row of a
// group must not wait for a plan over all of it.
std::vector<pg::Result> Worker::ask_of(pg::Transaction& transaction, const Statement& statement,
                                       Candidates rows) const {
  std::vector<Question> questions;
  for (std::size_t from = 0; from < rows.size();) {
    const Partitions group = job_.groups.around(rows[from].key.partition);
    std::size_t to = from;
    while (to < rows.size() && std::ranges::binary_search(group, rows[to].key.partition)) ++to;
    const Candidates its = rows.subspan(from, to - from);
    const Partitions partitions = partitions_of(its);
    const bool are_few = partitions.size() * kFewOfAGroup <= group.size();
    pg::Params params = job_.params(partitions);
    add_keys(params, job_.reconciler, its);
    questions.push_back(
        {statement.over(group), std::move(params), are_few ? statement.over(partitions) : std::string()});
    from = to;
  }
  return transaction.execute_all(calls_of(questions));
}

bool Worker::is_forbidden(pg::Transaction& transaction, Candidates moved) const {
  if (job_.statements.forbidden.empty() || moved.empty()) return false;
  const auto answers = ask_of(transaction, job_.statements.forbidden, moved);
  return std::ranges::any_of(answers, [](const pg::Result& rows) { return !rows.empty(); });
}

void Worker::blame(const Candidate& row, const pg::Error& error) {
  if (error.is_of_the_data())
    job_.put_in_quarantine({&job_.reconciler, row.key, execution_of(row), error}, report_);
  else if (!job_.suspects.add(
               {&job_.reconciler, row.key, reconcile::execution_of(job_.reconciler, row.key), error}))
    throw error;
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

}  // namespace ff::reconcile
