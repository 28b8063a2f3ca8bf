#include "reconcile/engine.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <set>

#include "pg/transaction.hpp"

namespace ff::reconcile {
namespace {

// A partition that shows this many due rows in the probe is paged through by itself; the others show all that
// is due there and, behind it, what falls due next.
constexpr int kProbeDepth = 2;

// Up to this many partitions the planner looks at their hash children only, which is cheaper than running a
// plan that has them all (measured with 256 children: 4 ms for one partition, 0.3 ms for each row through the
// plan over all).
constexpr std::size_t kPlannedAfresh = 8;

// How often a batch that lost against another transaction (deadlock, serialization) is tried at once.
constexpr int kTries = 3;

// How far ahead a backlog's next due row is looked for.
constexpr Milliseconds kBacklogLooksAhead = std::chrono::hours{24};

constexpr std::int64_t kBeforeAll = std::numeric_limits<std::int64_t>::min();

pg::Plan plan_for(const Partitions& partitions) {
  return partitions.size() <= kPlannedAfresh ? pg::Plan::fresh : pg::Plan::reused;
}

bool is_left_alone(const Reconciler& reconciler, std::string_view outcome) {
  const auto& names = reconciler.left_alone;
  return std::find(names.begin(), names.end(), outcome) != names.end();
}

}  // namespace

/// One tick under way: its wishes, what it has found so far, and the connection that it holds throughout.
struct Engine::Pass {
  const TickOptions& options;
  TickReport report;
  pg::PooledConnection connection;

  bool out_of_time(SteadyTime now) const { return now >= options.deadline || options.stop.stop_requested(); }
};

Engine::Engine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock)
    : reconciler_(reconciler),
      statements_(reconciler),
      scope_(std::move(scope)),
      pool_(pool),
      clock_(clock) {}

TickReport Engine::tick(const TickOptions& options) {
  return guarded(options, [this](Pass& pass) { take_all(pass); });
}

TickReport Engine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  return guarded(options, [&](Pass& pass) {
    pg::Params params = common_params({execution.partition});
    params.add(execution.uuid);
    for (const Candidate& row : read_candidates(pass, statements_.of_execution, params, pg::Plan::fresh)) {
      if (row.due && pass.report.scanned++ == 0) pass.report.oldest_due = row.due_at;  // oldest first
      take(pass, {&row, 1});
    }
  });
}

// What went wrong with the whole tick is part of its report, so that what was committed before is not
// forgotten.
TickReport Engine::guarded(const TickOptions& options, const std::function<void(Pass&)>& work) {
  std::optional<Pass> pass;
  TickReport report;
  try {
    quarantine_.forget_old(clock_.now());
    pass.emplace(Pass{options, {}, pool_.acquire()});
    work(*pass);
    report = std::move(pass->report);
  } catch (const pg::Error& error) {
    if (pass) report = std::move(pass->report);
    ++report.errors[std::string(error.error_class())];
    report.failure = error;
  }
  report.quarantined = quarantine_.size();
  return report;
}

void Engine::take_all(Pass& pass) {
  std::vector<Candidate> few;
  std::vector<Candidate> oldest_of_many;
  const auto probed = page(pass, partitions(pass), nullptr, kProbeDepth, pass.options.look_ahead);
  for (std::size_t i = 0; i < probed.size();) {
    std::size_t end = i;
    while (end < probed.size() && probed[end].key.partition == probed[i].key.partition) ++end;
    const bool many = end - i == static_cast<std::size_t>(kProbeDepth) && probed[end - 1].due;
    if (many) oldest_of_many.push_back(probed[i]);
    for (; i < end; ++i) {
      if (probed[i].due && !many) few.push_back(probed[i]);
      if (!probed[i].due) note_next_due(pass.report.next_due, probed[i]);
    }
  }

  take_in_batches(pass, std::move(few));

  std::sort(oldest_of_many.begin(), oldest_of_many.end(),
            [](const Candidate& a, const Candidate& b) { return a.due_at < b.due_at; });
  for (std::size_t from = 0; from < oldest_of_many.size(); from += kPlannedAfresh)
    take_partitions(
        pass, partitions_of(Candidates(oldest_of_many)
                                .subspan(from, std::min(kPlannedAfresh, oldest_of_many.size() - from))));
}

// Several partitions share the first page, and so the cost of planning a statement; those that have more are
// then paged through one by one.
void Engine::take_partitions(Pass& pass, const Partitions& partitions) {
  if (pass.out_of_time(clock_.now())) {
    pass.report.more = true;
    return;
  }
  auto rows = page(pass, partitions, nullptr, scope_.batch_size, Milliseconds{0});
  std::vector<Candidate> ends_of_full_pages;
  for (std::size_t i = 0, in_partition = 1; i < rows.size(); ++i, ++in_partition) {
    if (i + 1 < rows.size() && rows[i + 1].key.partition == rows[i].key.partition) continue;
    if (in_partition == static_cast<std::size_t>(scope_.batch_size)) ends_of_full_pages.push_back(rows[i]);
    in_partition = 0;
  }
  take_in_batches(pass, std::move(rows));
  for (Candidate& last : ends_of_full_pages) take_rest(pass, std::move(last));
}

// Pages on past rows that could not be moved, so that they hide nothing behind them.
void Engine::take_rest(Pass& pass, Candidate last) {
  for (bool full = true; full;) {
    if (pass.out_of_time(clock_.now())) {
      pass.report.more = true;
      return;
    }
    auto rows = page(pass, {last.key.partition}, &last, scope_.batch_size, Milliseconds{0});
    full = rows.size() == static_cast<std::size_t>(scope_.batch_size);
    if (full) last = rows.back();
    take_in_batches(pass, std::move(rows));
  }
}

void Engine::take_in_batches(Pass& pass, std::vector<Candidate> rows) {
  const auto due = without_quarantined(pass, std::move(rows));
  const auto most = static_cast<std::size_t>(scope_.batch_size);
  for (std::size_t from = 0; from < due.size(); from += most) {
    if (pass.out_of_time(clock_.now()))
      pass.report.more = true;
    else
      take(pass, Candidates(due).subspan(from, std::min(most, due.size() - from)));
  }
}

std::vector<Candidate> Engine::page(Pass& pass, const Partitions& partitions, const Candidate* after,
                                    int limit, Milliseconds ahead) {
  pg::Params params = common_params(partitions);
  params.add(static_cast<std::int64_t>(limit));
  params.add(static_cast<std::int64_t>(ahead.count()));
  params.add(after == nullptr ? kBeforeAll : count(after->due_at));
  for (std::size_t i = 0; i < reconciler_.key.size(); ++i)
    params.add(after == nullptr ? std::nullopt : std::optional(after->key.columns[i]));
  return read_candidates(pass, statements_.page, params, plan_for(partitions));
}

std::vector<Candidate> Engine::read_candidates(Pass& pass, const std::string& sql, const pg::Params& params,
                                               pg::Plan plan) {
  pg::Transaction transaction(*pass.connection, plan);
  const pg::Result rows = transaction.execute(sql, params);
  transaction.rollback();

  const std::size_t columns = reconciler_.key.size();
  const int due_at = static_cast<int>(columns) + 1;
  std::vector<Candidate> found;
  found.reserve(static_cast<std::size_t>(rows.size()));
  for (const pg::Row row : rows) {
    pass.report.database_time = unix_millis(row.get<std::int64_t>(due_at + 2));
    if (row.is_null(0)) break;  // nothing was found: the row tells the time only
    found.push_back(
        {read_key(row, columns), unix_millis(row.get<std::int64_t>(due_at)), row.get<bool>(due_at + 1)});
  }
  return found;
}

std::vector<Candidate> Engine::without_quarantined(Pass& pass, std::vector<Candidate> found) {
  auto& report = pass.report;
  report.scanned += static_cast<std::int64_t>(found.size());
  for (const Candidate& row : found)
    if (!report.oldest_due || row.due_at < *report.oldest_due) report.oldest_due = row.due_at;
  if (quarantine_.empty()) return found;
  const auto now = clock_.now();
  const auto held =
      std::erase_if(found, [&](const Candidate& row) { return quarantine_.holds(row.key, now); });
  if (held > 0) report.skipped[Skip::quarantined] += static_cast<std::int64_t>(held);
  return found;
}

void Engine::take(Pass& pass, Candidates batch) {
  for (int tries = 1;; ++tries) {
    try {
      return take_once(pass, batch);
    } catch (const pg::Error& error) {
      if (error.connection_lost()) throw;
      if (error.retryable() && tries < kTries) continue;
      if (!error.may_be_one_row()) throw;
      if (batch.size() == 1) return set_aside(pass, batch.front(), error);
    }
    break;
  }
  // One row spoils the others: halve until it is alone. The others are committed on the way.
  take(pass, batch.first(batch.size() / 2));
  take(pass, batch.last(batch.size() - batch.size() / 2));
}

void Engine::take_once(Pass& pass, Candidates batch) {
  const Partitions partitions = partitions_of(batch);
  pg::Params params = common_params(partitions);
  add_keys(params, reconciler_, batch);

  const auto started = clock_.now();
  pg::Transaction transaction(*pass.connection, plan_for(partitions));
  const pg::Result rows = transaction.execute(statements_.act, params);
  if (pass.options.dry_run)
    transaction.rollback();
  else
    transaction.commit();
  const auto took = std::chrono::duration_cast<Milliseconds>(clock_.now() - started);

  const std::size_t columns = reconciler_.key.size();
  std::set<RowKey> answered;
  for (const pg::Row row : rows) {
    RowKey key = read_key(row, columns);
    const int after_key = static_cast<int>(columns) + 1;
    const auto due_at = unix_millis(row.get<std::int64_t>(after_key));
    const auto outcome = row.get<std::string>(after_key + 1);
    const auto acted_at = unix_millis(row.get<std::int64_t>(after_key + 2));
    ++pass.report.outcomes[outcome];
    if (!pass.options.dry_run) quarantine_.release(key);
    if (!is_left_alone(reconciler_, outcome)) {
      ++pass.report.processed;
      // A time before 1970 is no time; a difference from it might not even fit.
      pass.report.lateness.push_back(acted_at - std::max(due_at, UnixMillis{}) + took);
      if (pass.options.list_moves) pass.report.moves.push_back({key, outcome, due_at});
    }
    answered.insert(std::move(key));
  }
  if (answered.size() == batch.size()) return;
  std::vector<Candidate> left;
  std::copy_if(batch.begin(), batch.end(), std::back_inserter(left),
               [&](const Candidate& row) { return !answered.contains(row.key); });
  count_left(pass, left);
}

// What `act` left alone was either held by somebody, and then it is due still, or it had been moved in the
// meantime.
void Engine::count_left(Pass& pass, Candidates left) {
  const Partitions partitions = partitions_of(left);
  pg::Params params = common_params(partitions);
  add_keys(params, reconciler_, left);
  pg::Transaction transaction(*pass.connection, plan_for(partitions));
  const pg::Result rows = transaction.execute(statements_.still_due, params);
  transaction.rollback();
  std::set<RowKey> locked;
  for (const pg::Row row : rows) locked.insert(read_key(row, reconciler_.key.size()));
  for (const Candidate& row : left) {
    const bool is_locked = locked.contains(row.key);
    ++pass.report.skipped[is_locked ? Skip::locked : Skip::no_longer_due];
    if (!is_locked && !pass.options.dry_run) quarantine_.release(row.key);
  }
}

void Engine::set_aside(Pass& pass, const Candidate& row, const pg::Error& error) {
  ++pass.report.errors[std::string(error.error_class())];
  if (pass.options.dry_run) return;
  const bool known = quarantine_.contains(row.key);
  const Milliseconds pause = quarantine_.add(row.key, clock_.now());
  if (!known)
    spdlog::error("{}: this row cannot be moved and is set aside for {} s, then longer: {}: {}",
                  reconciler_.name, pause.count() / 1000, describe(reconciler_, row.key), error.what());
}

Backlog Engine::backlog(std::int64_t cap) {
  const TickOptions options;
  Pass pass{options, {}, pool_.acquire()};
  const Partitions all = partitions(pass);
  Backlog backlog;
  for (const Candidate& row : page(pass, all, nullptr, kProbeDepth, kBacklogLooksAhead))
    if (!row.due) note_next_due(backlog.next_due, row);

  pg::Params params = common_params(all);
  params.add(cap);
  pg::Transaction transaction(*pass.connection, plan_for(all));
  const pg::Result counted = transaction.execute(statements_.backlog, params);
  transaction.rollback();
  const pg::Row row = counted.one();
  backlog.due = row.get<std::int64_t>("due");
  backlog.capped = backlog.due >= cap;
  if (const auto oldest = row.get<std::optional<std::int64_t>>("oldest_due_ms"))
    backlog.oldest_due = unix_millis(*oldest);
  backlog.database_time = unix_millis(row.get<std::int64_t>("now_ms"));
  return backlog;
}

void Engine::note_next_due(std::optional<UnixMillis>& next, const Candidate& row) const {
  const UnixMillis takeable_at = row.due_at + reconciler_.holdoff(scope_.settings);
  if (!next || takeable_at < *next) next = takeable_at;
}

Partitions Engine::partitions(Pass& pass) const {
  if (reconciler_.partition_count.empty()) return scope_.partitions;
  const auto count = pass.connection->execute(reconciler_.partition_count).one().get<std::int32_t>(0);
  return partition_range({0}, {static_cast<std::int16_t>(count - 1)});
}

pg::Params Engine::common_params(const Partitions& partitions) const {
  const auto& tag = scope_.filter.instance_tag;
  pg::Params params =
      pg::Params::of(partitions, scope_.filter.name_space, tag ? std::optional(tag->key) : std::nullopt,
                     tag ? std::optional(tag->value) : std::nullopt);
  params.append(reconciler_.parameters(scope_.settings, scope_.family));
  params.add(static_cast<std::int64_t>(reconciler_.holdoff(scope_.settings).count()));
  return params;
}

}  // namespace ff::reconcile
