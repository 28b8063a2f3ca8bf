#include "reconcile/pass.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <set>

#include "pg/transaction.hpp"

namespace ff::reconcile {
namespace {

// Rows of up to so many partitions are moved by several statements that name theirs, of more by one over all
// (measured with 256 hash children and a row in each partition: 3 ms for eight that are named; over all, 9 ms
// for eight and 14 ms for forty).
constexpr std::size_t kWorthNaming = 4 * Statements::kNamed;

// How often a batch that lost against another transaction (deadlock, serialization) is tried at once.
constexpr int kTries = 3;

constexpr std::int64_t kBeforeAll = std::numeric_limits<std::int64_t>::min();

bool is_left_alone(const Reconciler& reconciler, std::string_view outcome) {
  const auto& names = reconciler.left_alone;
  return std::find(names.begin(), names.end(), outcome) != names.end();
}

/// The end of the batch that begins at `from`, of rows sorted by partition.
std::size_t end_of_batch(const std::vector<Candidate>& rows, std::size_t from, std::size_t most_rows,
                         std::size_t most_partitions) {
  std::size_t end = from;
  for (std::size_t partitions = 0; end < rows.size() && end - from < most_rows; ++end) {
    const bool another = end == from || rows[end].key.partition != rows[end - 1].key.partition;
    if (another && ++partitions > most_partitions) break;
  }
  return end;
}

}  // namespace

pg::Params Ground::params(const Partitions& partitions) const {
  const auto& tag = scope.filter.instance_tag;
  pg::Params params =
      pg::Params::of(partitions, scope.filter.name_space, tag ? std::optional(tag->key) : std::nullopt,
                     tag ? std::optional(tag->value) : std::nullopt);
  params.append(reconciler.parameters(scope.settings, scope.family));
  params.add(static_cast<std::int64_t>(reconciler.holdoff(scope.settings).count()));
  return params;
}

bool Pass::out_of_time() {
  const bool is_out = ground_.clock.now() >= options_.deadline || options_.stop.stop_requested();
  if (is_out) report_.more = true;
  return is_out;
}

// Several partitions share the first page, and so the cost of planning a statement; those that have more are
// then paged through one by one.
void Pass::take_partitions(const Partitions& partitions) {
  if (out_of_time()) return;
  const auto most = static_cast<std::size_t>(ground_.scope.batch_size);
  auto rows = page(partitions, ground_.scope.batch_size, Milliseconds{0});
  std::vector<Candidate> ends_of_full_pages;
  for (std::size_t i = 0, in_partition = 1; i < rows.size(); ++i, ++in_partition) {
    if (i + 1 < rows.size() && rows[i + 1].key.partition == rows[i].key.partition) continue;
    if (in_partition == most) ends_of_full_pages.push_back(rows[i]);
    in_partition = 0;
  }
  take_in_batches(std::move(rows));
  for (Candidate& last : ends_of_full_pages) take_rest(std::move(last));
}

// Pages on past rows that could not be moved, so that they hide nothing behind them.
void Pass::take_rest(Candidate last) {
  const auto most = static_cast<std::size_t>(ground_.scope.batch_size);
  for (bool full = true; full && !out_of_time();) {
    auto rows = page({last.key.partition}, ground_.scope.batch_size, Milliseconds{0}, &last);
    full = rows.size() == most;
    if (full) last = rows.back();
    take_in_batches(std::move(rows));
  }
}

void Pass::take_in_batches(std::vector<Candidate> rows) {
  auto due = without_quarantined(std::move(rows));
  std::stable_sort(due.begin(), due.end(),
                   [](const Candidate& a, const Candidate& b) { return a.key.partition < b.key.partition; });
  const std::size_t partitions = partitions_of(due).size();
  const std::size_t most_partitions = partitions <= kWorthNaming ? Statements::kNamed : partitions;
  for (std::size_t from = 0; from < due.size() && !out_of_time();) {
    const std::size_t end = end_of_batch(due, from, ground_.batch_size.now(), most_partitions);
    take(Candidates(due).subspan(from, end - from));
    from = end;
  }
}

std::vector<Candidate> Pass::page(const Partitions& partitions, int limit, Milliseconds ahead,
                                  const Candidate* after) {
  const pg::Plan plan = Statements::plan_for(partitions.size());
  pg::Params params = ground_.params(partitions);
  params.add(static_cast<std::int64_t>(limit));
  params.add(static_cast<std::int64_t>(ahead.count()));
  params.add(after == nullptr ? kBeforeAll : count(after->due_at));
  for (std::size_t i = 0; i < ground_.reconciler.key.size(); ++i)
    params.add(after == nullptr ? std::nullopt : std::optional(after->key.columns[i]));
  return read(ground_.statements(plan).page, params, plan);
}

std::vector<Candidate> Pass::rows_of(const ExecutionId& execution) {
  pg::Params params = ground_.params({execution.partition});
  params.add(execution.uuid);
  return read(ground_.few.of_execution, params, pg::Plan::fresh);
}

std::vector<Candidate> Pass::read(const std::string& sql, const pg::Params& params, pg::Plan plan) {
  pg::Transaction transaction(*connection_, plan);
  const SteadyTime sent = ground_.clock.now();
  const pg::Result rows = transaction.execute(sql, params);
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

void Pass::take(Candidates batch) {
  for (int tries = 1;; ++tries) {
    try {
      return take_once(batch);
    } catch (const pg::Error& error) {
      if (error.connection_lost()) throw;
      if (error.retryable() && tries < kTries) continue;
      if (!error.may_be_one_row()) throw;
      if (batch.size() == 1) return set_aside(batch.front(), error);
    }
    break;
  }
  // One row spoils the others: halve until it is alone. The others are committed on the way.
  take(batch.first(batch.size() / 2));
  take(batch.last(batch.size() - batch.size() / 2));
}

void Pass::take_once(Candidates batch) {
  const Partitions partitions = partitions_of(batch);
  const pg::Plan plan = Statements::plan_for(partitions.size());
  pg::Params params = ground_.params(partitions);
  add_keys(params, ground_.reconciler, batch);

  pg::Transaction transaction(*connection_, plan);
  const SteadyTime started = ground_.clock.now();
  const pg::Result rows = transaction.execute(ground_.statements(plan).act, params);
  const SteadyTime answered = ground_.clock.now();
  if (options_.dry_run)
    transaction.rollback();
  else
    transaction.commit();
  const auto took = std::chrono::duration_cast<Milliseconds>(ground_.clock.now() - started);
  ground_.batch_size.learn(batch.size(), took);

  const std::size_t columns = ground_.reconciler.key.size();
  std::set<RowKey> moved;
  for (const pg::Row row : rows) {
    RowKey key = read_key(row, columns);
    const int after_key = static_cast<int>(columns) + 1;
    const auto due_at = unix_millis(row.get<std::int64_t>(after_key));
    const auto outcome = row.get<std::string>(after_key + 1);
    const auto acted_at = unix_millis(row.get<std::int64_t>(after_key + 2));
    if (moved.empty()) ground_.database_time.learn(started, answered, acted_at);
    ++report_.outcomes[outcome];
    if (!options_.dry_run) ground_.quarantine.release(key);
    if (!is_left_alone(ground_.reconciler, outcome)) {
      ++report_.processed;
      // A time before 1970 is no time; a difference from it might not even fit.
      report_.lateness.push_back(acted_at - std::max(due_at, UnixMillis{}) + took);
      if (options_.list_moves) report_.moves.push_back({key, outcome, due_at});
    }
    moved.insert(std::move(key));
  }
  if (moved.size() == batch.size()) return;
  std::vector<Candidate> left;
  std::copy_if(batch.begin(), batch.end(), std::back_inserter(left),
               [&](const Candidate& row) { return !moved.contains(row.key); });
  count_left(left);
}

// What `act` left alone was either held by somebody, and then it is due still, or it had been moved in the
// meantime.
void Pass::count_left(Candidates left) {
  const Partitions partitions = partitions_of(left);
  const pg::Plan plan = Statements::plan_for(partitions.size());
  pg::Params params = ground_.params(partitions);
  add_keys(params, ground_.reconciler, left);
  pg::Transaction transaction(*connection_, plan);
  const pg::Result rows = transaction.execute(ground_.statements(plan).still_due, params);
  transaction.rollback();
  std::set<RowKey> locked;
  for (const pg::Row row : rows) locked.insert(read_key(row, ground_.reconciler.key.size()));
  for (const Candidate& row : left) {
    const bool is_locked = locked.contains(row.key);
    ++report_.skipped[is_locked ? Skip::locked : Skip::no_longer_due];
    if (!is_locked && !options_.dry_run) ground_.quarantine.release(row.key);
  }
}

void Pass::set_aside(const Candidate& row, const pg::Error& error) {
  ++report_.errors[std::string(error.error_class())];
  if (options_.dry_run) return;
  const bool known = ground_.quarantine.contains(row.key);
  const Milliseconds pause = ground_.quarantine.add(row.key, ground_.clock.now());
  if (!known)
    spdlog::error("{}: this row cannot be moved and is set aside for {} s, then longer: {}: {}",
                  ground_.reconciler.name, pause.count() / 1000, describe(ground_.reconciler, row.key),
                  error.what());
}

}  // namespace ff::reconcile
