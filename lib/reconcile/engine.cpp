#include "reconcile/engine.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <tuple>

#include "pg/transaction.hpp"

namespace ff::reconcile {
namespace {

// A partition that shows this many due rows in a look is paged through; the others show all that is due there
// and, behind it, what falls due next.
constexpr int kLookDepth = 4;

// How long a helping pass waits for a connection; the tick does not end before.
constexpr Milliseconds kPatience{500};

// How far ahead a backlog's next due row is looked for.
constexpr Milliseconds kBacklogLooksAhead = std::chrono::hours{24};

// So many groups of partitions more than could be read may be locked, before it is taken for a lock on all of them.
constexpr std::size_t kMostLocked = 2;

/// What a look has shown.
struct Seen {
  std::vector<Candidate> few;             ///< all due rows of the partitions that have few
  std::vector<Candidate> oldest_of_many;  ///< the oldest row of each partition that may have more
  std::vector<Candidate> coming;          ///< rows that are not due yet
  std::optional<UnixMillis> cut_off;      ///< there may be more rows coming behind this due time
};

Seen sort_out(const std::vector<Candidate>& rows) {
  Seen seen;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i;
    while (end < rows.size() && rows[end].key.partition == rows[i].key.partition) ++end;
    const bool full = end - i == static_cast<std::size_t>(kLookDepth);
    const Candidate& last = rows[end - 1];
    if (full && last.due) seen.oldest_of_many.push_back(rows[i]);
    if (full && !last.due && (!seen.cut_off || last.due_at < *seen.cut_off)) seen.cut_off = last.due_at;
    for (; i < end; ++i) {
      if (!rows[i].due)
        seen.coming.push_back(rows[i]);
      else if (!(full && last.due))
        seen.few.push_back(rows[i]);
    }
  }
  return seen;
}

pg::Error internal_error(const std::exception& error) {
  return {pg::Error::Kind::internal, std::string("internal error: ") + error.what()};
}

/// The partitions in groups that one statement can name, in the order in which they have waited, but begun
/// anywhere and gone round: so that replicas that meet the same backlog do not meet at each group.
std::vector<Partitions> grouped(std::vector<Candidate> oldest) {
  std::sort(oldest.begin(), oldest.end(),
            [](const Candidate& a, const Candidate& b) { return a.due_at < b.due_at; });
  std::vector<Partitions> groups;
  for (std::size_t from = 0; from < oldest.size(); from += Statements::kNamed)
    groups.push_back(
        partitions_of(Candidates(oldest).subspan(from, std::min(Statements::kNamed, oldest.size() - from))));
  static thread_local std::minstd_rand random{std::random_device{}()};
  if (!groups.empty())
    std::rotate(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(random() % groups.size()),
                groups.end());
  return groups;
}

}  // namespace

Engine::Engine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock,
               ForkJoin& fork_join)
    : ground_(std::make_unique<Ground>(reconciler, std::move(scope), clock)),
      pool_(pool),
      fork_join_(fork_join) {
  for (const Reconciler& companion : reconciler.companions)
    companions_.emplace_back(companion, ground_->scope, pool, clock, fork_join);
}

void Engine::set_scope(Scope scope) {
  for (Engine& companion : companions_) companion.set_scope(scope);
  ground_->scope = std::move(scope);
  ground_->batch_size.start_over(ground_->scope.batch_size);
  agenda_.clear();
}

// After a failure the companions wait for the next tick: whatever it was may be theirs, too.
TickReport Engine::tick(const TickOptions& options) {
  TickReport report = tick_alone(options);
  TickOptions theirs = options;
  theirs.look_ahead = options.companions_look_ahead;
  for (Engine& companion : companions_) {
    theirs.look = companion.is_shortcut() ? options.shortcuts_look : options.companions_look;
    if (!report.failure) add_companion(report, companion.tick_alone(theirs));
  }
  finish(report);
  return report;
}

TickReport Engine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  TickReport report = tick_one_alone(execution, options);
  for (Engine& companion : companions_)
    if (!report.failure && !companion.is_shortcut())
      add_companion(report, companion.tick_one_alone(execution, options));
  finish(report);
  return report;
}

Backlog Engine::backlog(std::int64_t cap) {
  Backlog all = backlog_alone(cap);
  const auto earlier = [](std::optional<UnixMillis>& to, const std::optional<UnixMillis>& from) {
    if (from && (!to || *from < *to)) to = from;
  };
  for (Engine& companion : companions_) {
    if (companion.is_shortcut()) continue;  // what it finds is counted already
    const Backlog its = companion.backlog_alone(cap);
    all.due += its.due;
    all.capped = all.capped || its.capped;
    earlier(all.oldest_due, its.oldest_due);
    earlier(all.next_due, its.next_due);
  }
  return all;
}

void Engine::add_companion(TickReport& report, TickReport&& companions) {
  report.quarantined += companions.quarantined;
  report.add(std::move(companions));
}

TickReport Engine::tick_alone(const TickOptions& options) {
  ground_->slice = {};
  ground_->quarantine.forget_old(ground_->clock.now());
  ground_->deadline = options.deadline;
  ground_->no_connection_to_spare = false;
  ground_->some_locked = false;
  ground_->suspects.start_over();
  TickReport report = options.look ? in_a_pass(options, [&](Pass& pass) { take_all(pass, options); })
                                   : take_foreseen(options);
  judge_suspects(report, options);
  tell_what_comes(report);
  report.quarantined = ground_->quarantine.size();
  return report;
}

TickReport Engine::tick_one_alone(const ExecutionId& execution, const TickOptions& options) {
  ground_->slice = {};
  ground_->deadline = options.deadline;
  ground_->suspects.start_over();
  TickReport report = in_a_pass(options, [&](Pass& pass) {
    for (const Candidate& row : pass.rows_of(execution)) {
      if (row.due && pass.report().scanned++ == 0) pass.report().oldest_due = row.due_at;  // oldest first
      pass.take({&row, 1});
    }
  });
  judge_suspects(report, options);
  report.quarantined = ground_->quarantine.size();
  return report;
}

void Engine::judge_suspects(TickReport& report, const TickOptions& options) {
  if (const auto error = ground_->suspects.error_of_all()) {
    if (!report.failure) report.failure = error;
    return;
  }
  for (const auto& [row, error] : ground_->suspects.rows())
    ground_->set_aside(row, error, report, options.dry_run);
}

TickReport Engine::in_a_pass(const TickOptions& options, const std::function<void(Pass&)>& work) {
  try {
    return in_a_pass(options, pool_.acquire(ground_->many.page), work);
  } catch (const pg::Error& error) {
    TickReport report;
    report.failure = error;
    return report;
  }
}

// What went wrong with the whole pass is part of its report, so that what was committed before is not
// forgotten.
TickReport Engine::in_a_pass(const TickOptions& options, pg::PooledConnection connection,
                             const std::function<void(Pass&)>& work) {
  const Company company = [&](Pass& any, std::size_t more, const std::function<void(Pass&)>& shared) {
    in_company(any, options, more, shared);
  };
  Pass pass(*ground_, options, std::move(connection), company);
  try {
    work(pass);
  } catch (const pg::Error& error) {
    if (!pass.report().failure) pass.report().failure = error;
  } catch (const std::exception& error) {
    // Not the database but we ourselves are at fault.
    if (!pass.report().failure) pass.report().failure = internal_error(error);
  }
  return std::move(pass.report());
}

void Engine::finish(TickReport& report) const {
  if (report.failure) ++report.errors[std::string(report.failure->error_class())];
  std::sort(report.moves.begin(), report.moves.end(), [](const Move& a, const Move& b) {
    return std::tie(a.due_at, a.key) < std::tie(b.due_at, b.key);
  });
}

void Engine::take_all(Pass& pass, const TickOptions& options) {
  agenda_.clear();
  const bool in_slices = options.in_slices && ground_->reconciler.walk;
  if (in_slices) ground_->slice = slice_behind(walked_to_, ground_->reconciler.walk->rows, pass);
  const bool limited = options.deadline != SteadyTime::max();
  const SteadyTime before_look = limited ? ground_->clock.now() : SteadyTime{};
  Seen seen = sort_out(look(pass, ground_->slice.partitions_of(partitions(pass)), options.look_ahead));
  if (limited) ground_->deadline = options.deadline + (ground_->clock.now() - before_look);
  pass.report().looked = !pass.report().failure;
  const UnixMillis looked_up_to = pass.report().database_time - ground_->holdoff() + options.look_ahead;
  agenda_.replace(std::move(seen.coming), seen.cut_off.value_or(looked_up_to));
  pass.report().paged = !seen.oldest_of_many.empty();
  pass.take_in_batches(std::move(seen.few));
  share(pass, options, grouped(std::move(seen.oldest_of_many)));
  if (in_slices && !pass.report().more)
    walked_to_ = ground_->slice.up_to == Slice::behind_all() ? Slice::before_all() : ground_->slice.up_to;
}

// Where somebody holds a child of a table, the partitions in other children are looked at all the same; that some could
// not be is the report's failure.
std::vector<Candidate> Engine::look(Pass& pass, const Partitions& partitions, Milliseconds ahead) {
  try {
    return pass.page(partitions, kLookDepth, ahead);
  } catch (const pg::Error& error) {
    if (!error.table_locked() || partitions.size() <= Statements::kNamed) throw;
  }
  ground_->some_locked = true;
  std::vector<Candidate> all;
  std::size_t read = 0;
  std::size_t locked = 0;
  for (auto from = partitions.begin(); from != partitions.end();) {
    const auto to = from + std::min<std::ptrdiff_t>(Statements::kNamed, partitions.end() - from);
    try {
      std::ranges::move(pass.page({from, to}, kLookDepth, ahead), std::back_inserter(all));
      ++read;
    } catch (const pg::Error& error) {
      // Each has cost the longest wait for a lock.
      if (!error.table_locked() || ++locked > kMostLocked + read) throw;
      pass.report().failure = error;
    }
    from = to;
  }
  return all;
}

// Without one that is full, what is left of the table.
Slice Engine::slice_behind(Slice::Place place, std::int64_t rows, Pass& pass) const {
  const pg::Params params = pg::Params::of(partitions(pass), place.partition, place.key, rows);
  pg::Transaction transaction(pass.connection(), {.plan = pg::Plan::generic});
  const pg::Result end = transaction.execute(ground_->many.slice_end, params);
  transaction.rollback();
  Slice slice;
  slice.after = place;
  if (!end.empty()) slice.up_to = {end.one().get<PartitionKey>(0), end.one().get<Uuid>(1)};
  return slice;
}

TickReport Engine::take_foreseen(const TickOptions& options) {
  const auto now = ground_->database_time.at(ground_->clock.now());
  auto due = now ? agenda_.take(*now - ground_->holdoff()) : std::vector<Candidate>{};
  TickReport report;
  if (!due.empty()) report = in_a_pass(options, [&](Pass& pass) { pass.take_in_batches(std::move(due)); });
  report.database_time = now.value_or(UnixMillis{});
  return report;
}

void Engine::tell_what_comes(TickReport& report) const {
  if (const auto next = agenda_.next()) report.next_due = *next + ground_->holdoff();
  report.known_until = agenda_.complete_until() + ground_->holdoff();
}

// Whoever is done with a group takes the next one.
void Engine::share(Pass& pass, const TickOptions& options, const std::vector<Partitions>& groups) {
  if (groups.empty()) return;
  std::mutex mutex;
  std::size_t taken = 0;
  const auto next = [&]() -> const Partitions* {
    const std::lock_guard lock(mutex);
    return taken < groups.size() ? &groups[taken++] : nullptr;
  };
  in_company(pass, options, groups.size() - 1, [&](Pass& any) {
    while (const Partitions* group = next()) any.take_partitions(*group);
  });
}

void Engine::in_company(Pass& pass, const TickOptions& options, std::size_t more,
                        const std::function<void(Pass&)>& work) {
  std::mutex mutex;
  std::vector<TickReport> others;
  const auto help = [&] {
    auto connection = spare_connection();
    if (!connection) {
      ground_->no_connection_to_spare = true;
      return;
    }
    TickReport report = in_a_pass(options, std::move(*connection), work);
    const std::lock_guard lock(mutex);
    others.push_back(std::move(report));
  };
  const auto add_others = [&] {
    for (TickReport& other : others) pass.report().add(std::move(other));
  };
  try {
    if (ground_->no_connection_to_spare) more = 0;
    fork_join_.run(
        more, [&] { work(pass); }, help);
  } catch (...) {
    add_others();
    throw;
  }
  add_others();
}

// A tick can do without: the server may have no more connections to give than the one it has.
std::optional<pg::PooledConnection> Engine::spare_connection() {
  try {
    return pool_.acquire(Clock::system().now() + kPatience, ground_->many.page);
  } catch (const pg::Error& error) {
    spdlog::debug("{}: no further connection for a large backlog: {}", ground_->reconciler.name,
                  error.what());
    return std::nullopt;
  }
}

Backlog Engine::backlog_alone(std::int64_t cap) {
  ground_->slice = {};
  const TickOptions options;
  const Company alone = [](Pass& any, std::size_t, const std::function<void(Pass&)>& work) { work(any); };
  Pass pass(*ground_, options, pool_.acquire(), alone);
  // Of a table that is walked through, as many rows as are counted at most: it may have any number.
  if (ground_->reconciler.walk) ground_->slice = slice_behind(Slice::before_all(), cap, pass);
  const Partitions all = ground_->slice.partitions_of(partitions(pass));
  Backlog backlog;
  for (const Candidate& row : sort_out(pass.page(all, kLookDepth, kBacklogLooksAhead)).coming) {
    const UnixMillis takeable_at = row.due_at + ground_->holdoff();
    if (!backlog.next_due || takeable_at < *backlog.next_due) backlog.next_due = takeable_at;
  }

  pg::Params params = ground_->params(all);
  params.add(cap);
  const pg::Plan plan = Statements::plan_for(all.size());
  pg::Transaction transaction(pass.connection(), {.plan = plan});
  const pg::Result counted = transaction.execute(ground_->statements(plan).backlog, params);
  transaction.rollback();
  const pg::Row row = counted.one();
  backlog.due = row.get<std::int64_t>("due");
  backlog.capped = backlog.due >= cap || ground_->slice.up_to != Slice::behind_all();
  if (const auto oldest = row.get<std::optional<std::int64_t>>("oldest_due_ms"))
    backlog.oldest_due = unix_millis(*oldest);
  backlog.database_time = unix_millis(row.get<std::int64_t>("now_ms"));
  return backlog;
}

Partitions Engine::partitions(Pass& pass) const {
  const std::string_view count_query = ground_->reconciler.partition_count;
  if (count_query.empty()) return ground_->scope.partitions;
  const auto count = pass.connection().execute(count_query).one().get<std::int32_t>(0);
  return partition_range({0}, {static_cast<std::int16_t>(count - 1)});
}

}  // namespace ff::reconcile
