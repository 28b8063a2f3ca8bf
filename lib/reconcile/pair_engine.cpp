#include "reconcile/pair_engine.hpp"

#include <algorithm>
#include <utility>

#include "reconcile/held_rows.hpp"
#include "reconcile/pager.hpp"

namespace ff::reconcile {
namespace {

// How far ahead a backlog's next due row is looked for.
constexpr Milliseconds kBacklogHorizon = std::chrono::hours{24};

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
    worker.ask_first();
    job_.still_rows.begin_scan(job_.clock.now());
    auto rows =
        job_.names_executions() ? worker.read({job_.of_execution(execution)}) : std::vector<Candidate>{};
    limits_.leave_restless(worker.report(), rows);
    for (const Candidate& row : rows) {
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
  if (!worker.ask_first()) {
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
  worker.ask_first();
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

}  // namespace ff::reconcile
