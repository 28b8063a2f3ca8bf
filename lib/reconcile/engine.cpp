#include "reconcile/engine.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "reconcile/crew.hpp"
#include "reconcile/held_rows.hpp"
#include "reconcile/limits.hpp"
#include "reconcile/pager.hpp"
#include "reconcile/upcoming.hpp"

namespace ff::reconcile {

/// One pair of statements. A tick scans all partitions, which shows what little is due and what comes next; works that
/// off in batches, and where a partition has much, page by page, with as many workers as there are threads for. Each batch
/// is one transaction.
///
/// Not thread-safe: one tick at a time. It stays where it is made: its parts refer to each other. The pool, the reconciler,
/// the fork-join and the hold limit must outlive it.
class PairEngine {
 public:
  /// `number`: of a companion, from 1 on; 0: the reconciler's own pair.
  PairEngine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock,
             ForkJoin& fork_join, int number, std::shared_ptr<SharedByPairs> shared, HoldLimit& hold_limit);
  PairEngine(const PairEngine&) = delete;
  PairEngine& operator=(const PairEngine&) = delete;

  const Reconciler& reconciler() const { return job_.reconciler; }
  const Scope& scope() const { return job_.scope; }
  bool is_wanted() const { return job_.is_wanted(); }
  /// For the ticks to come. Quarantine is kept. What all pairs share is the engine's to set.
  void set_scope(Scope scope);

  /// See Engine. Never throw pg::Error.
  TickReport tick(const TickOptions& options);
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options);

  /// Its scans are so seldom, or of so small parts, that a shortcut may find its rows sooner.
  bool may_show_late() const { return cursor_.may_show_late(); }
  /// Takes over what the shortcut has seen coming. This pair's search will see the same rows, and each is to be tried only
  /// once.
  void adopt_upcoming_of(PairEngine& shortcut);
  /// Instead of a tick, of a shortcut that finds nothing sooner than the pair behind it.
  void skip_tick() { limits_.drop_queue(); }

  /// Counts what is due, up to `cap`. Throws pg::Error.
  Backlog backlog(std::int64_t cap);

 private:
  TickReport run(const TickOptions& options, const std::function<TickReport()>& work);
  void scan_and_work_off(Worker& worker);
  void forget_gone(const Seen& seen);
  void work_off_queue(Worker& worker);
  TickReport work_off_upcoming();
  bool work_off(Worker& worker, std::vector<Candidate> rows);

  Job job_;
  Crew crew_;
  Limits limits_;
  Upcoming upcoming_;
  ScanCursor cursor_;
};

namespace {

// How far ahead a backlog's next due row is looked for.
constexpr Milliseconds kBacklogHorizon = std::chrono::hours{24};

/// No pair can go on.
bool is_of_all(const pg::Error& error) {
  return error.connection_lost() || error.not_writable() || error.interrupted() ||
         error.kind() == pg::Error::Kind::timeout;
}

/// The pair that finds in the end what a shortcut finds sooner.
PairEngine& pair_behind(const PairEngine& shortcut, const std::vector<std::unique_ptr<PairEngine>>& pairs) {
  const auto found = std::ranges::find_if(pairs, [&](const auto& each) {
    const Reconciler& pair = each->reconciler();
    return !pair.is_shortcut && (pair.walk || pair.searches) && pair.act == shortcut.reconciler().act;
  });
  return found == pairs.end() ? *pairs.front() : **found;
}

// What the pair has to know before it is looked at: true where a scan is worth it.
bool ask_first(Job& job, Worker& worker) {
  if (!job.prelude) return true;
  pg::Transaction transaction(worker.connection(), {.plan = pg::Plan::generic});
  const SteadyTime sent = job.clock.now();
  const bool worth_a_scan = job.ask(transaction);
  transaction.rollback();
  job.learn_time({sent, job.clock.now(), job.told->database_time});
  if (worker.report().database_time == UnixMillis{}) worker.report().database_time = job.told->database_time;
  return worth_a_scan;
}

}  // namespace

PairEngine::PairEngine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock,
                       ForkJoin& fork_join, int number, std::shared_ptr<SharedByPairs> shared,
                       HoldLimit& hold_limit)
    : job_(reconciler, std::move(scope), clock, std::move(shared)),
      crew_(job_, pool, fork_join, number),
      limits_(job_, number, hold_limit),
      cursor_(job_) {
  hold_limit.add(job_, cursor_);
}

void PairEngine::set_scope(Scope scope) {
  // What it believes to be settled is so for the partitions that it had.
  if (job_.prelude && scope.partitions != job_.scope.partitions) job_.prelude = reconciler().prelude();
  job_.scope = std::move(scope);
  job_.groups = Groups(job_.scope.partitions);
  job_.batch_size.start_over(job_.most_in_batch());
  upcoming_.clear();
  cursor_.end_rest();
  limits_.queue().stop();
}

void PairEngine::adopt_upcoming_of(PairEngine& shortcut) {
  if (reconciler().searches) upcoming_.add(shortcut.upcoming_.pop());
}

TickReport PairEngine::tick(const TickOptions& options) {
  TickReport report = run(options, [&] {
    const bool rests = !limits_.queue().is_in_use() && cursor_.rests();
    if (!rests && (options.scan || job_.is_time_to_ask_again()))
      return crew_.lead([&](Worker& worker) { scan_and_work_off(worker); });
    TickReport its = work_off_upcoming();
    its.rested = rests && options.scan;
    return its;
  });
  if (const auto next = upcoming_.next()) report.next_due = *next + job_.holdoff();
  if (job_.told && job_.told->ask_again) report.next_due = *job_.told->ask_again + job_.holdoff();
  // Nothing where a scan shows only a part, or shows rows only once they are due. Not before 1970, where nothing is known: a
  // holdoff may reach back as long as there is time.
  if (reconciler().foreseen && !cursor_.reads_a_part())
    report.known_until = std::max(upcoming_.complete_until() + job_.holdoff(), UnixMillis{});
  cursor_.end_tick(report);
  return report;
}

TickReport PairEngine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  const auto work = [&](Worker& worker) {
    ask_first(job_, worker);
    job_.still_rows.begin_scan(job_.clock.now());
    auto rows = job_.names_executions() ? candidates_of(job_, worker, {job_.of_execution(execution)})
                                        : std::vector<Candidate>{};
    limits_.leave_restless(worker.report(), rows);
    const bool any_due = std::ranges::any_of(rows, &Candidate::due);
    for (const Candidate& row : rows) {
      if (any_due && !row.due) continue;              // of which nothing is to be said
      if (row.due && worker.report().scanned++ == 0)  // oldest first
        worker.report().oldest_due = job_.late_since(row.due_at, row.key);
      worker.move_rows({&row, 1});
    }
  };
  return run(options, [&] { return crew_.lead(work); });
}

TickReport PairEngine::run(const TickOptions& options, const std::function<TickReport()>& work) {
  job_.begin_tick(options);
  limits_.begin_tick();
  crew_.begin_tick();
  TickReport report = work();
  job_.end_tick(report);
  end_held_rows(job_, report);
  limits_.end_tick(report);
  return report;
}

void PairEngine::scan_and_work_off(Worker& worker) {
  auto known = reconciler().searches ? upcoming_.pop() : std::vector<Candidate>{};
  upcoming_.clear();
  job_.find_partitions(worker.connection());
  TickReport& report = worker.report();
  if (!ask_first(job_, worker)) {
    report.complete = true;
    upcoming_.replace({}, report.database_time - job_.holdoff() + job_.options.scan_ahead);
    return;
  }
  if (limits_.queue().is_in_use()) return work_off_queue(worker);
  Seen seen = cursor_.read(worker);
  report.complete = !report.failure;
  // Also of those that the tick does not come to; how long a row has been due is not known before it has stood still.
  if (reconciler().still_for <= Milliseconds{0}) {
    for (const auto& [partition, due_at] : seen.oldest_due_in) {
      const UnixMillis since = job_.late_since(due_at);
      keep_earlier(report.oldest_due, since);
      report.oldest_due_in.emplace(partition, since);
    }
  }
  if (!limits_.lets_act(worker, seen.due(), report.database_time)) {
    upcoming_.replace({}, seen.up_to);
    return;
  }
  report.paged = !seen.oldest_of_many.empty();
  upcoming_.replace(std::move(seen.coming),
                    report.failure ? UnixMillis{} : seen.cut_off.value_or(seen.up_to));
  if (seen.cut_off) {
    // Of what a search does not show, a shortcut may have shown some.
    std::erase_if(known, [&](const Candidate& row) { return row.due_at <= *seen.cut_off; });
    upcoming_.add(std::move(known));
  }
  work_off(worker, std::move(seen.few));
  std::vector<Pager> pagers = pagers_of(job_, seen);
  crew_.for_each(worker, pagers.size(), [&](Worker& any, std::size_t i) {
    Pager& pager = pagers[i];
    for (bool all_moved = true; !pager.done() && !limits_.are_spent(any) && !any.out_of_time();)
      all_moved = work_off(any, pager.next(any, all_moved));
  });
  worker.wait_for_held();
  if (!report.more && !report.failure) forget_gone(seen);
  cursor_.end_scan(report, seen);
  if (job_.prelude && !report.failure && !report.more && !job_.options.dry_run &&
      !report.skipped.contains(Skip::locked))
    job_.prelude->settled();
  find_holders(job_, worker.connection());
}

// What was not shown is not due any more. A walk by rows may have read a part of a partition only, and a shortcut sees what
// was announced lately: these forget by and by.
void PairEngine::forget_gone(const Seen& seen) {
  const auto& walk = reconciler().walk;
  if (reconciler().is_shortcut || (walk && walk->phases.empty())) return;
  for (const GroupSlice& read : seen.slices) {
    const Partitions partitions = read.slice.partitions_of(job_.groups.all()[read.group]);
    job_.still_rows.end_scan(partitions);
    job_.quarantine.end_scan(partitions);
  }
}

// While more is due than may be given back, all of it is read once, and then what has fallen due since; each namespace
// has its turn.
void PairEngine::work_off_queue(Worker& worker) {
  DueQueue& queue = limits_.queue();
  TickReport& report = worker.report();
  queue.read(job_, worker);
  if (report.database_time == UnixMillis{})
    report.database_time = job_.shared->server_clock.at(job_.clock.now()).value_or(queue.read_until());
  upcoming_.replace({}, report.database_time - job_.holdoff());
  report.complete = true;
  report.paged = true;
  if (const auto oldest = queue.rows().oldest()) report.oldest_due = job_.late_since(*oldest);
  const auto due = static_cast<std::int64_t>(queue.rows().size());
  if (!limits_.lets_act(worker, due, report.database_time)) return;
  {
    Admitted admitted = limits_.admit_from_queue(worker);
    queue.rows().add(crew_.move(worker, std::move(admitted.rows)));
  }
  limits_.leave_queue(report);
}

TickReport PairEngine::work_off_upcoming() {
  const auto now = job_.shared->server_clock.at(job_.clock.now());
  auto due = now ? upcoming_.pop(*now - job_.holdoff()) : std::vector<Candidate>{};
  TickReport report;
  if (!due.empty())
    report = crew_.lead([&](Worker& worker) {
      if (limits_.lets_act(worker, static_cast<std::int64_t>(due.size()), *now))
        work_off(worker, std::move(due));
      else
        upcoming_.replace({}, upcoming_.complete_until());
    });
  report.database_time = now.value_or(UnixMillis{});
  return report;
}

// True: all of them were moved.
bool PairEngine::work_off(Worker& worker, std::vector<Candidate> rows) {
  const auto wanted = worker.report().processed + static_cast<std::int64_t>(rows.size());
  Admitted admitted = limits_.admit(worker, std::move(rows));
  crew_.move(worker, std::move(admitted.rows));
  return worker.report().processed == wanted && !job_.options.dry_run;
}

Backlog PairEngine::backlog(std::int64_t cap) {
  job_.begin_tick({});
  limits_.begin_tick();
  Worker worker(job_, crew_.connection());
  job_.find_partitions(worker.connection());
  ask_first(job_, worker);
  // Of a table that is walked through, as many rows as are counted at most: it may have any number.
  Walker from_the_start;
  const bool walks = reconciler().walk.has_value();
  auto slices = walks ? from_the_start.next(job_, worker.connection(), cap) : whole(job_.groups);
  const Seen seen = cursor_.read(worker, std::move(slices), kBacklogHorizon);
  Backlog backlog = count_due(job_, worker.connection(), seen.slices, cap);
  for (const Candidate& row : seen.coming) keep_earlier(backlog.next_due, row.due_at + job_.holdoff());
  const bool to_the_end = !walks || from_the_start.at_end();
  backlog.capped = backlog.capped || !to_the_end;
  if (reconciler().foreseen && seen.oldest_of_many.empty() && to_the_end && !worker.report().failure)
    backlog.known_until =
        seen.cut_off ? *seen.cut_off + job_.holdoff() : backlog.database_time + kBacklogHorizon;
  return backlog;
}

Engine::Engine(const Reconciler& reconciler, const Scope& scope, pg::Pool& pool, const Clock& clock,
               ForkJoin& fork_join) {
  shared_->rate_limit.set_rate(limit_of(scope.settings, kMaxRowsPerSecond));
  const auto add = [&](const Reconciler& pair) {
    const auto number = static_cast<int>(pairs_.size());
    pairs_.push_back(
        std::make_unique<PairEngine>(pair, scope, pool, clock, fork_join, number, shared_, *hold_limit_));
  };
  add(reconciler);
  for (const Reconciler& companion : reconciler.companions) add(companion);
}

Engine::Engine(Engine&&) noexcept = default;
Engine::~Engine() = default;

const Reconciler& Engine::reconciler() const {
  return pairs_.front()->reconciler();
}

const Scope& Engine::scope() const {
  return pairs_.front()->scope();
}

void Engine::set_scope(const Scope& scope) {
  const Scope& before = this->scope();
  if (scope.settings != before.settings || !(scope.filter == before.filter)) forget_hold();
  shared_->rate_limit.set_rate(limit_of(scope.settings, kMaxRowsPerSecond));
  for (const auto& pair : pairs_) pair->set_scope(scope);
}

// Where the database is away, or does not answer, all wait for the next tick. After any other failure the companions go on:
// it may be of one pair alone, and for ever.
TickReport Engine::tick(const TickOptions& options) {
  bool is_away = false;
  const auto tick = [&](PairEngine& pair, const TickOptions& its) {
    TickReport report = pair.tick(its);
    is_away = report.failure && is_of_all(*report.failure);
    return report;
  };
  hold_limit_->begin_tick();
  TickReport report = tick(*pairs_.front(), options);
  bool all_had_their_turn = true;
  std::optional<UnixMillis> known_until = UnixMillis::max();
  TickOptions theirs = options;
  theirs.scan_ahead = options.companions_scan_ahead;
  for (const auto& companion : std::span(pairs_).subspan(1)) {
    if (!companion->is_wanted()) continue;
    all_had_their_turn = !is_away && !hold_limit_->holds_back() && !options.stop.stop_requested();
    if (!all_had_their_turn) break;
    const bool is_shortcut = companion->reconciler().is_shortcut;
    PairEngine& whose = is_shortcut ? pair_behind(*companion, pairs_) : *companion;
    if (is_shortcut && !whose.may_show_late()) {
      companion->skip_tick();
      continue;
    }
    theirs.scan = is_shortcut ? options.shortcuts_scan : options.companions_scan;
    TickReport its = tick(*companion, theirs);
    if (is_shortcut) {
      whose.adopt_upcoming_of(*companion);
    } else {
      known_until = std::min(known_until, its.known_until);
      if (its.complete) report.companions_more = report.companions_more.value_or(false) || its.more;
    }
    report.add_companion(std::move(its));
  }
  if (all_had_their_turn) {
    report.all_known_until = std::min(report.known_until, known_until);
    if (known_until != UnixMillis::max()) report.companions_known_until = known_until;
  }
  report.hold = hold_limit_->hold();
  report.finish();
  return report;
}

TickReport Engine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  TickReport report = pairs_.front()->tick_one(execution, options);
  for (const auto& companion : std::span(pairs_).subspan(1))
    if (!report.failure && !companion->reconciler().is_shortcut && companion->is_wanted())
      report.add_companion(companion->tick_one(execution, options));
  report.finish();
  return report;
}

Backlog Engine::backlog(std::int64_t cap) {
  Backlog all = pairs_.front()->backlog(cap);
  for (const auto& companion : std::span(pairs_).subspan(1))
    // What a shortcut finds is counted already.
    if (!companion->reconciler().is_shortcut && companion->is_wanted()) all.add(companion->backlog(cap));
  return all;
}

}  // namespace ff::reconcile
