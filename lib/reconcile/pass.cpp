#include "reconcile/pass.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>

namespace ff::reconcile {
namespace {

// Rows of up to so many partitions are moved by several statements that name theirs, of more by one over all.
// Measured with 256 hash children and a row in each partition: 3 ms for eight that are named; over all, 9 ms for
// eight, 14 ms for forty and 44 ms for 256, and many times that on a busy server. So the statement over all pays
// early, but rows that fall due one by one must not get there: while it runs, enough of them gather for the next
// one, and none is ever in time again.
constexpr std::size_t kWorthNaming = 12 * Statements::kNamed;

// How often a batch that lost against another transaction (deadlock, serialization, something that forbids a move) is
// tried at once.
constexpr int kTries = 3;

bool is_left_alone(const Reconciler& reconciler, std::string_view outcome) {
  return std::ranges::find(reconciler.left_alone, outcome) != reconciler.left_alone.end();
}

// What a part of a batch may take once the whole has run into statement_timeout: the row at fault is met again in each
// half that holds it. Another row that would take longer is set aside for a while, and then has all its time.
constexpr Milliseconds kHurry{2000};

// How many batches a page of a single partition has: so that there is something to share.
constexpr int kBatchesAPage = 4;

}  // namespace

pg::Params Ground::params(const Partitions& partitions) const {
  const auto& tag = scope.filter.instance_tag;
  pg::Params params =
      pg::Params::of(partitions, scope.filter.name_space, tag ? std::optional(tag->key) : std::nullopt,
                     tag ? std::optional(tag->value) : std::nullopt);
  if (reconciler.walk) slice.add_to(params);
  params.append(reconciler.parameters(scope.settings, scope.family));
  params.add(static_cast<std::int64_t>(reconciler.holdoff(scope.settings).count()));
  return params;
}

void Ground::set_aside(const Candidate& row, const pg::Error& error, TickReport& report, bool dry_run) {
  ++report.errors[std::string(error.error_class())];
  if (dry_run) {
    report.faults.push_back(error);
    return;
  }
  const bool known = quarantine.contains(row.key);
  const Milliseconds pause = quarantine.add(row.key, clock.now());
  if (!known)
    spdlog::error("{}: this row cannot be moved and is set aside for {} s, then longer: {}: {}",
                  reconciler.name, pause.count() / 1000, describe(reconciler, row.key), error.what());
}

bool Pass::out_of_time() {
  const bool is_out =
      ground_.clock.now() >= ground_.deadline || options_.stop.stop_requested() || !may_write();
  if (is_out) report_.more = true;
  return is_out;
}

bool Pass::may_write() {
  return !options_.may_write || options_.may_write();
}

Pass::Wording Pass::wording(std::string Statements::*which, const Partitions& partitions) const {
  if (group_plan_ && group_plan_->covers(partitions))
    return {group_plan_->statements().*which, pg::Plan::generic};
  const pg::Plan plan = Statements::plan_for(partitions.size());
  return {ground_.statements(plan).*which, plan};
}

void Pass::plan_once_for(const Partitions& partitions) {
  if (partitions.size() > Statements::kNamed) return;
  if (group_plan_ && group_plan_->covers(partitions)) return;
  group_plan_.emplace(ground_.reconciler, partitions);
}

// Several partitions share the first page, and so the cost of planning a statement; those that have more are
// then paged through one by one.
void Pass::take_partitions(const Partitions& partitions) {
  if (out_of_time()) return;
  // Of several, half a batch of each: so that the rows of all of them fit into little memory.
  const int batch = ground_.scope.batch_size;
  const int most = partitions.size() == 1 ? batch : std::max(1, batch / 2);
  auto rows = page(partitions, most, Milliseconds{0});
  auto ends = ends_of_full_pages(rows, most);
  if (!ends.empty() || rows.size() > ground_.batch_size.now()) plan_once_for(partitions);
  const bool all_moved = take_all_of(std::move(rows));
  for (PageEnd& end : ends) take_rest(std::move(end), all_moved);
}

std::vector<Pass::PageEnd> Pass::ends_of_full_pages(const std::vector<Candidate>& rows, int full) {
  std::vector<PageEnd> ends;
  for (std::size_t from = 0, to = 0; from < rows.size(); from = to) {
    while (to < rows.size() && rows[to].key.partition == rows[from].key.partition) ++to;
    if (to - from < static_cast<std::size_t>(full)) continue;
    PageEnd end{rows[to - 1].key.partition, rows[to - 1].due_at, {}};
    for (std::size_t i = to; i > from && rows[i - 1].due_at == end.due_at; --i)
      end.shown.insert(rows[i - 1].key);
    ends.push_back(std::move(end));
  }
  return ends;
}

// As long as all that a page shows is moved, the next one has the same beginning. What could not be moved hides
// nothing behind it: from then on it goes by due time and key, which costs a sort of all rows of the moment.
void Pass::take_rest(PageEnd end, bool all_moved) {
  const int most = kBatchesAPage * ground_.scope.batch_size;
  std::optional<Candidate> last;
  for (bool full = true; full && !out_of_time();) {
    auto rows = all_moved ? page({end.partition}, most, Milliseconds{0}, end.due_at)
                          : behind(end, last ? &*last : nullptr, most);
    full = rows.size() == static_cast<std::size_t>(most);
    if (!full) {
      // There is no further page.
    } else if (all_moved) {
      end = std::move(ends_of_full_pages(rows, most).front());
    } else {
      last = rows.back();
    }
    if (!all_moved) std::erase_if(rows, [&](const Candidate& row) { return end.shown.contains(row.key); });
    all_moved = take_all_of(std::move(rows)) && all_moved;
  }
}

// True: none of them is left where it was.
bool Pass::take_all_of(std::vector<Candidate> rows) {
  const auto wanted = report_.processed + static_cast<std::int64_t>(rows.size());
  take_in_batches(std::move(rows));
  return report_.processed == wanted && !options_.dry_run;
}

void Pass::take_in_batches(std::vector<Candidate> rows) {
  auto due = without_quarantined(std::move(rows));
  std::stable_sort(due.begin(), due.end(),
                   [](const Candidate& a, const Candidate& b) { return a.key.partition < b.key.partition; });
  const std::vector<Candidate> failed_before = take_out_failed(due);
  const std::size_t partitions = partitions_of(due).size();
  const bool each_named = partitions <= kWorthNaming || ground_.some_locked;
  const std::size_t most_partitions = each_named ? Statements::kNamed : partitions;
  // What was asked for in time is worth one batch, however long that took: so a slow server, too, gets on.
  const bool one_at_least = read_in_time_ && !options_.stop.stop_requested() && may_write();
  std::mutex mutex;
  std::size_t from = 0;
  const auto next = [&](Pass& any) -> Candidates {
    const std::lock_guard lock(mutex);
    if (from == due.size() || (!(from == 0 && one_at_least) && any.out_of_time())) return {};
    const std::size_t begin = from;
    from = end_of_batch(due, begin, ground_.batch_size.now(), most_partitions);
    return Candidates(due).subspan(begin, from - begin);
  };
  const auto work = [&](Pass& any) {
    for (Candidates rows_of_batch = next(any); !rows_of_batch.empty(); rows_of_batch = next(any))
      any.take(rows_of_batch);
  };
  const std::size_t whole_batches = due.size() / ground_.batch_size.now();
  if (whole_batches > 1 && !ground_.reconciler.rows_meet)
    company_(*this, whole_batches - 1, work);
  else
    work(*this);
  for (const Candidate& row : failed_before)
    if (!out_of_time()) take({&row, 1});
}

// What has failed before, and whose time in quarantine is over, goes alone: most of it fails again, and would cost the
// others of a batch their first try.
std::vector<Candidate> Pass::take_out_failed(std::vector<Candidate>& due) const {
  if (ground_.quarantine.empty()) return {};
  const auto failed = std::stable_partition(
      due.begin(), due.end(), [&](const Candidate& row) { return !ground_.quarantine.contains(row.key); });
  std::vector<Candidate> taken_out(failed, due.end());
  due.erase(failed, due.end());
  return taken_out;
}

std::vector<Candidate> Pass::page(const Partitions& partitions, int limit, Milliseconds ahead,
                                  UnixMillis from) {
  pg::Params params = ground_.params(partitions);
  params.add(static_cast<std::int64_t>(limit));
  params.add(static_cast<std::int64_t>(ahead.count()));
  params.add(count(from));
  return read(wording(&Statements::page, partitions), params);
}

// Due rows behind `last`; where there is none yet, those of the page's last moment again and all behind.
std::vector<Candidate> Pass::behind(const PageEnd& end, const Candidate* last, int limit) {
  pg::Params params = ground_.params({end.partition});
  params.add(static_cast<std::int64_t>(limit));
  params.add(std::int64_t{0});
  params.add(last != nullptr ? count(last->due_at) : std::max(count(end.due_at), count(kBeforeAll) + 1) - 1);
  for (std::size_t i = 0; i < ground_.reconciler.key.size(); ++i)
    params.add(last != nullptr ? std::optional(last->key.columns[i]) : std::nullopt);
  return read(wording(&Statements::rest, {end.partition}), params);
}

std::vector<Candidate> Pass::rows_of(const ExecutionId& execution) {
  pg::Params params = ground_.params({execution.partition});
  params.add(execution.uuid);
  return read({ground_.few.of_execution, pg::Plan::custom}, params);
}

std::vector<Candidate> Pass::read(const Wording& wording, const pg::Params& params) {
  try {
    return read_once(wording, params);
  } catch (const pg::Error& error) {
    if (!error.retryable()) throw;
  }
  return read_once(wording, params);
}

std::vector<Candidate> Pass::read_once(const Wording& wording, const pg::Params& params) {
  pg::Transaction transaction(*connection_, {.plan = wording.plan});
  const SteadyTime sent = ground_.clock.now();
  read_in_time_ = sent < ground_.deadline;
  const pg::Result rows = transaction.execute(wording.sql, params);
  const SteadyTime answered = ground_.clock.now();
  transaction.rollback();

  const std::size_t columns = ground_.reconciler.key.size();
  const int due_at = static_cast<int>(columns) + 1;
  std::vector<Candidate> found;
  found.reserve(static_cast<std::size_t>(rows.size()));
  for (const pg::Row row : rows) {
    const auto now = unix_millis(row.get<std::int64_t>(due_at + 2));
    if (found.empty()) ground_.database_time.learn(sent, answered, now);
    if (report_.database_time == UnixMillis{}) report_.database_time = now;
    if (row.is_null(0)) break;  // nothing was found: the row tells the time only
    found.push_back(
        {read_key(row, columns), unix_millis(row.get<std::int64_t>(due_at)), row.get<bool>(due_at + 1)});
  }
  return found;
}

std::vector<Candidate> Pass::without_quarantined(std::vector<Candidate> found) {
  report_.scanned += static_cast<std::int64_t>(found.size());
  for (const Candidate& row : found)
    if (!report_.oldest_due || row.due_at < *report_.oldest_due) report_.oldest_due = row.due_at;
  if (ground_.quarantine.empty()) return found;
  const auto now = ground_.clock.now();
  const auto held =
      std::erase_if(found, [&](const Candidate& row) { return ground_.quarantine.holds(row.key, now); });
  if (held > 0) report_.skipped[Skip::quarantined] += static_cast<std::int64_t>(held);
  return found;
}

bool Pass::take_whole(Candidates batch) {
  for (int tries = 1;; ++tries) {
    try {
      if (take_once(batch)) return true;
      if (tries < kTries) continue;
      if (batch.size() == 1) ++report_.skipped[Skip::locked];
      return false;
    } catch (const pg::Error& error) {
      if (error.connection_lost()) throw;
      if (error.retryable() && tries < kTries) continue;
      if (!error.may_be_one_row()) throw;
      if (batch.size() == 1) blame(batch.front(), error);
      hurried_ = hurried_ || error.canceled();
      return false;
    }
  }
}

void Pass::take(Candidates batch) {
  if (!take_whole(batch)) take_halves(batch);
  hurried_ = false;
}

// One row spoils the others: halve until it is alone. The others are committed on the way. Where the first half was
// clean, the row is in the second, which need not be tried as a whole.
void Pass::take_halves(Candidates batch) {
  if (batch.size() == 1) return;
  plan_once_for(partitions_of(batch));
  const Candidates first = batch.first(batch.size() / 2);
  const Candidates second = batch.last(batch.size() - first.size());
  const bool clean = take_whole(first);
  if (!clean) take_halves(first);
  if ((clean && second.size() > 1) || !take_whole(second)) take_halves(second);
}

// False: a row was moved that must not be. Nothing is written, and the next try sees what forbids it.
bool Pass::take_once(Candidates batch) {
  const Partitions partitions = partitions_of(batch);
  const auto [act, plan] = wording(&Statements::act, partitions);
  pg::Params params = ground_.params(partitions);
  add_keys(params, ground_.reconciler, batch);

  pg::Transaction transaction(*connection_,
                              {.plan = plan, .at_most = hurried_ ? kHurry : Milliseconds::max()});
  const SteadyTime started = ground_.clock.now();
  const pg::Result rows = transaction.execute(act, params);
  const SteadyTime answered = ground_.clock.now();
  const std::vector<Candidate> moved = read_moved(rows);
  if (is_forbidden(transaction, partitions, moved)) {
    transaction.rollback();
    return false;
  }
  // The server may have stood still while it acted, and its workers with it.
  if (!may_write()) {
    transaction.rollback();
    report_.more = true;
    return true;
  }
  if (options_.dry_run)
    transaction.rollback();
  else
    transaction.commit();
  if (!rows.empty()) {
    const int acted_at = static_cast<int>(ground_.reconciler.key.size()) + 3;
    ground_.database_time.learn(started, answered, unix_millis(rows[0].get<std::int64_t>(acted_at)));
  }
  const auto took = std::chrono::duration_cast<Milliseconds>(ground_.clock.now() - started);
  ground_.batch_size.learn(batch.size(), took);

  count_moved(rows, moved, took);
  if (!moved.empty()) ground_.suspects.another_went_well();
  if (moved.size() == batch.size()) return true;
  std::set<RowKey> keys;
  for (const Candidate& row : moved) keys.insert(row.key);
  std::vector<Candidate> left;
  std::copy_if(batch.begin(), batch.end(), std::back_inserter(left),
               [&](const Candidate& row) { return !keys.contains(row.key); });
  count_left(left);
  return true;
}

std::vector<Candidate> Pass::read_moved(const pg::Result& rows) const {
  const std::size_t columns = ground_.reconciler.key.size();
  const int due_at = static_cast<int>(columns) + 1;
  std::vector<Candidate> moved;
  moved.reserve(static_cast<std::size_t>(rows.size()));
  for (const pg::Row row : rows)
    moved.push_back({read_key(row, columns), unix_millis(row.get<std::int64_t>(due_at)), true});
  return moved;
}

bool Pass::is_forbidden(pg::Transaction& transaction, const Partitions& partitions, Candidates moved) const {
  if (ground_.reconciler.forbidden.empty() || moved.empty()) return false;
  pg::Params params = ground_.params(partitions);
  add_keys(params, ground_.reconciler, moved);
  return !transaction.execute(wording(&Statements::forbidden, partitions).sql, params).empty();
}

void Pass::count_moved(const pg::Result& rows, Candidates moved, Milliseconds took) {
  const int outcome_at = static_cast<int>(ground_.reconciler.key.size()) + 2;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const auto& [key, due_at, due] = moved[i];
    const pg::Row row = rows[static_cast<int>(i)];
    const auto outcome = row.get<std::string>(outcome_at);
    ++report_.outcomes[outcome];
    if (!options_.dry_run) ground_.quarantine.release(key);
    if (is_left_alone(ground_.reconciler, outcome)) continue;
    ++report_.processed;
    // A time before 1970 is no time; a difference from it might not even fit.
    const auto acted_at = unix_millis(row.get<std::int64_t>(outcome_at + 1));
    report_.lateness.add(acted_at - std::max(due_at, UnixMillis{}) + took);
    if (options_.list_moves) report_.moves.push_back({key, outcome, due_at, &ground_.reconciler});
  }
}

// What `act` left alone was either held by somebody, and then it is due still, or it had been moved in the
// meantime. The others are committed: where nobody says which of the two it was, the batch has not failed.
void Pass::count_left(Candidates left) {
  try {
    count_left_once(left);
  } catch (const pg::Error& error) {
    if (error.connection_lost()) throw;
    if (!report_.failure) report_.failure = error;
  }
}

void Pass::count_left_once(Candidates left) {
  const Partitions partitions = partitions_of(left);
  const auto [still_due, plan] = wording(&Statements::still_due, partitions);
  pg::Params params = ground_.params(partitions);
  add_keys(params, ground_.reconciler, left);
  pg::Transaction transaction(*connection_, {.plan = plan});
  const pg::Result rows = transaction.execute(still_due, params);
  transaction.rollback();
  std::set<RowKey> locked;
  for (const pg::Row row : rows) locked.insert(read_key(row, ground_.reconciler.key.size()));
  for (const Candidate& row : left) {
    const bool is_locked = locked.contains(row.key);
    ++report_.skipped[is_locked ? Skip::locked : Skip::no_longer_due];
    if (!is_locked && !options_.dry_run) ground_.quarantine.release(row.key);
  }
}

void Pass::blame(const Candidate& row, const pg::Error& error) {
  if (error.is_of_the_data())
    ground_.set_aside(row, error, report_, options_.dry_run);
  else if (!ground_.suspects.add(row, error))
    throw error;
}

}  // namespace ff::reconcile
