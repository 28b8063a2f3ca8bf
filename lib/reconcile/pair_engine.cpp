#include "reconcile/pair_engine.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "pg/transaction.hpp"
#include "reconcile/find_holders.hpp"
#include "reconcile/pager.hpp"

namespace ff::reconcile {
namespace {

/// The partitions of each group that have much due, the group that has waited longest first, but begun anywhere and
/// gone round: so that replicas that meet the same backlog do not meet at each group.
std::vector<Partitions> by_group(const Groups& groups, std::vector<Candidate> oldest) {
  std::ranges::sort(oldest, {}, &Candidate::due_at);
  std::vector<Partitions> found;
  std::map<std::size_t, std::size_t> place_of;
  for (const Candidate& row : oldest) {
    const auto [place, is_new] = place_of.emplace(groups.of(row.key.partition), found.size());
    if (is_new) found.emplace_back();
    found[place->second].push_back(row.key.partition);
  }
  static thread_local std::minstd_rand random{std::random_device{}()};
  if (!found.empty())
    std::rotate(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(random() % found.size()),
                found.end());
  return found;
}

Slice slice_of(const std::vector<GroupSlice>& slices, std::size_t group) {
  const auto found = std::ranges::find(slices, group, &GroupSlice::group);
  return found == slices.end() ? Slice{} : found->slice;
}

}  // namespace

PairEngine::PairEngine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock,
                       ForkJoin& fork_join, int number, std::shared_ptr<SharedByPairs> shared)
    : asker_{std::string(reconciler.name), number},
      job_(std::make_unique<Job>(reconciler, std::move(scope), clock, std::move(shared))),
      crew_(std::make_unique<Crew>(*job_, pool, fork_join)),
      pool_(pool),
      cursor_(*job_) {}

void PairEngine::set_scope(Scope scope) {
  // What it believes to be settled is so for the partitions that it had.
  if (job_->prelude && scope.partitions != job_->scope.partitions) job_->prelude = reconciler().prelude();
  job_->scope = std::move(scope);
  job_->groups = Groups(job_->scope.partitions);
  job_->batch_size.start_over(job_->most_in_batch());
  upcoming_.clear();
  cursor_.end_rest();
  queue_.stop();
}

std::optional<UnixMillis> PairEngine::all_known_until(const TickReport& its) const {
  return reconciler().foreseen ? its.known_until : std::nullopt;
}

void PairEngine::adopt_upcoming_of(PairEngine& shortcut) {
  if (reconciler().searches) upcoming_.add(shortcut.upcoming_.pop());
}

TickReport PairEngine::tick(const TickOptions& options, const Allowance& allowance) {
  begin_tick(options);
  const bool scan = (options.scan || is_time_to_ask_again()) && (queue_.is_in_use() || !cursor_.rests());
  TickReport report = scan ? with_worker([&](Worker& worker) { scan_and_work_off(worker, allowance); })
                           : work_off_upcoming(allowance);
  if (const auto next = upcoming_.next()) report.next_due = *next + job_->holdoff();
  if (job_->told && job_->told->ask_again) report.next_due = *job_->told->ask_again + job_->holdoff();
  // Not before 1970, where nothing is known: a holdoff may reach back as long as there is time.
  if (!cursor_.reads_a_part())
    report.known_until = std::max(upcoming_.complete_until() + job_->holdoff(), UnixMillis{});
  end_tick(report);
  cursor_.end_tick(report);
  return report;
}

TickReport PairEngine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  begin_tick(options);
  TickReport report = with_worker([&](Worker& worker) {
    ask_first(worker);
    job_->still_rows.begin_scan(job_->clock.now());
    auto rows = rows_of(*job_, worker, execution);
    leave_restless(worker.report(), rows);
    for (const Candidate& row : rows) {
      if (row.due && worker.report().scanned++ == 0) worker.report().oldest_due = row.due_at;  // oldest first
      worker.move_rows({&row, 1});
    }
  });
  end_tick(report);
  return report;
}

void PairEngine::begin_tick(const TickOptions& options) {
  job_->options = options;
  job_->deadline = options.deadline;
  job_->quarantine.forget_old(job_->clock.now());
  job_->suspects.start_over();
  job_->one_group_each = false;
  job_->allowance = std::numeric_limits<std::int64_t>::max();
  job_->held_rows.begin_tick();
  begin_storm();
  crew_->begin_tick();
}

void PairEngine::end_tick(TickReport& report) {
  if (const auto error = job_->suspects.error_of_all()) {
    if (!report.failure) report.failure = error;
  } else {
    for (const auto& [row, its] : job_->suspects.rows()) quarantine(*job_, row, its, report);
  }
  end_held_rows(*job_, report);
  if (report.more) report.wait = std::max(report.wait, job_->rest());
  end_storm(report);
  report.quarantined = job_->quarantine.size();
  if (report.quarantined == 0) return;
  report.quarantine_rows = job_->quarantine.told(job_->clock.now());
  for (QuarantinedRow& row : report.quarantine_rows) row.pair = &job_->reconciler;
}

TickReport PairEngine::with_worker(const std::function<void(Worker&)>& work) {
  try {
    return crew_->alone(pool_.acquire(job_->familiar()), work);
  } catch (const pg::Error& error) {
    TickReport report;
    report.failure = error;
    return report;
  }
}

void PairEngine::scan_and_work_off(Worker& worker, const Allowance& allowance) {
  auto known = job_->reconciler.searches ? upcoming_.pop() : std::vector<Candidate>{};
  upcoming_.clear();
  find_partitions(worker.connection());
  const TickOptions& options = job_->options;
  if (!ask_first(worker)) {
    worker.report().complete = true;
    upcoming_.replace({}, worker.report().database_time - job_->holdoff() + options.scan_ahead);
    return;
  }
  if (queue_.is_in_use()) return work_off_queue(worker, allowance);
  const SteadyTime before = job_->clock.now();
  const auto slices = cursor_.next(worker.connection());
  job_->still_rows.begin_scan(before);
  Seen seen = sort_out(scan(worker, slices, cursor_.ahead()), cursor_.depth());
  const auto took = job_->clock.now() - before;
  if (options.deadline != SteadyTime::max()) job_->deadline = options.deadline + took;
  TickReport& report = worker.report();
  report.complete = !report.failure;
  // Also of those that the tick does not come to; how long a row has been due is not known before it has stood still.
  if (job_->reconciler.still_for <= Milliseconds{0}) {
    for (const auto& [partition, due_at] : seen.oldest_due_in)
      report.oldest_due = std::min(report.oldest_due.value_or(due_at), due_at);
    report.oldest_due_in = std::move(seen.oldest_due_in);
  }
  const UnixMillis due_now = report.database_time - job_->holdoff();
  const UnixMillis scanned_up_to = due_now + cursor_.ahead();
  if (!may_act(worker, allowance, !seen.few.empty() || !seen.oldest_of_many.empty())) {
    upcoming_.replace({}, scanned_up_to);
    return;
  }
  // Of a partition that shows many there may be any number more.
  auto due = static_cast<std::int64_t>(seen.few.size() + kScanDepth * seen.oldest_of_many.size());
  if (!seen.oldest_of_many.empty()) due = std::max(due, Breaker::kLeastLeases);
  if (!storm_lets_act(worker, due, report.database_time)) {
    upcoming_.replace({}, scanned_up_to);
    return;
  }
  keep_coming(seen, std::move(known), scanned_up_to);
  report.paged = !seen.oldest_of_many.empty();
  work_off(worker, std::move(seen.few));
  work_off_pages(worker, seen.oldest_of_many, slices);
  if (!report.more && !report.failure && !job_->reconciler.walk)
    for (const GroupSlice& read : slices) job_->still_rows.end_scan(job_->groups.all()[read.group]);
  cursor_.end_scan(report, slices, took,
                   seen.cut_off ? std::optional(*seen.cut_off - due_now) : std::nullopt);
  if (job_->prelude && !report.failure && !report.more && !options.dry_run &&
      !report.skipped.contains(Skip::locked))
    job_->prelude->settled();
  find_holders(*job_, worker.connection());
}

// Of what a search does not show, a shortcut may have shown some: those are `known`.
void PairEngine::keep_coming(Seen& seen, std::vector<Candidate> known, UnixMillis scanned_up_to) {
  upcoming_.replace(std::move(seen.coming), seen.cut_off.value_or(scanned_up_to));
  if (!seen.cut_off) return;
  std::erase_if(known, [&](const Candidate& row) { return row.due_at <= *seen.cut_off; });
  upcoming_.add(std::move(known));
}

TickReport PairEngine::work_off_upcoming(const Allowance& allowance) {
  const auto now = job_->shared->server_clock.at(job_->clock.now());
  auto due = now ? upcoming_.pop(*now - job_->holdoff()) : std::vector<Candidate>{};
  TickReport report;
  if (!due.empty())
    report = with_worker([&](Worker& worker) {
      if (may_act(worker, allowance, true) &&
          storm_lets_act(worker, static_cast<std::int64_t>(due.size()), *now))
        work_off(worker, std::move(due));
      else
        upcoming_.replace({}, upcoming_.complete_until());
    });
  report.database_time = now.value_or(UnixMillis{});
  return report;
}

void PairEngine::work_off_pages(Worker& worker, const std::vector<Candidate>& oldest,
                                const std::vector<GroupSlice>& slices) {
  const std::vector<Partitions> groups = by_group(job_->groups, oldest);
  crew_->for_each(worker, groups.size(), [&](Worker& any, std::size_t i) {
    Pager pager(*job_, groups[i], slice_of(slices, job_->groups.of(groups[i].front())));
    for (bool all_moved = true;
         !pager.done() && !allowance_is_spent(any) && !job_->short_of_tokens && !any.out_of_time();)
      all_moved = work_off(any, pager.next(any, all_moved));
  });
}

// In batches, one group after the other, with others where they are many. True: all of them were moved.
bool PairEngine::work_off(Worker& worker, std::vector<Candidate> rows) {
  const auto wanted = worker.report().processed + static_cast<std::int64_t>(rows.size());
  auto due = to_be_tried(worker, std::move(rows));
  keep_to_allowance(worker, due);
  const std::int64_t given_back = worker.report().given_back;
  const std::int64_t tokens = keep_to_rate(worker, due);
  // What has failed before goes alone: most of it fails again, and would cost the others of a batch their first try.
  const auto failed = std::stable_partition(
      due.begin(), due.end(), [&](const Candidate& row) { return !job_->quarantine.contains(row.key); });
  const Candidates fresh(due.begin(), failed);
  const std::size_t most_groups = job_->one_group_each ? 1
                                                       : std::min(job_->statements.lock.groups_together(),
                                                                  job_->statements.act.groups_together());
  std::mutex mutex;
  std::size_t from = 0;
  const auto next = [&](Worker& any) -> Candidates {
    const std::lock_guard lock(mutex);
    if (from == fresh.size() || (from == 0 ? !any.may_begin_one() : any.out_of_time())) return {};
    const std::size_t begin = from;
    from = end_of_batch(fresh, begin, job_->batch_size.now(), job_->groups, most_groups);
    return fresh.subspan(begin, from - begin);
  };
  const auto work = [&](Worker& any) {
    for (Candidates batch = next(any); !batch.empty(); batch = next(any)) any.move_rows(batch);
  };
  const std::size_t whole_batches = fresh.size() / job_->batch_size.now();
  if (whole_batches > 1 && !job_->reconciler.rows_meet)
    crew_->together(worker, whole_batches - 1, work);
  else
    work(worker);
  std::vector<Candidate> untried;
  for (const Candidate& row : Candidates(failed, due.end()))
    if (worker.out_of_time())
      untried.push_back(row);
    else
      worker.move_rows({&row, 1});
  if (paid_) {
    untried.insert(untried.end(), fresh.begin() + static_cast<std::ptrdiff_t>(from), fresh.end());
    queue_.rows().add(std::move(untried));
  }
  if (tokens > 0) job_->storm()->put_back(tokens - (worker.report().given_back - given_back));
  return worker.report().processed == wanted && !job_->options.dry_run;
}

// Those that may still be moving are none of the due ones yet. One that an earlier scan saw coming is seen as it was then.
void PairEngine::leave_restless(TickReport& report, std::vector<Candidate>& rows) {
  if (job_->reconciler.still_for <= Milliseconds{0}) return;
  const auto left = std::erase_if(
      rows, [&](const Candidate& row) { return !job_->still_rows.has_stood(row, job_->still_for()); });
  report.watched += static_cast<std::int64_t>(left);
  for (Candidate& row : rows) {
    row.due_at = std::max(row.due_at, job_->could_be_taken(row.key));
    UnixMillis& oldest = report.oldest_due_in.try_emplace(row.key.partition, row.due_at).first->second;
    oldest = std::min(oldest, row.due_at);
  }
}

// Those that are not in quarantine, sorted by group.
std::vector<Candidate> PairEngine::to_be_tried(Worker& worker, std::vector<Candidate> rows) {
  TickReport& report = worker.report();
  leave_restless(report, rows);
  leave_held(worker, rows);
  report.scanned += static_cast<std::int64_t>(rows.size());
  if (job_->options.progress) job_->options.progress->scanned += static_cast<std::int64_t>(rows.size());
  for (const Candidate& row : rows)
    if (!report.oldest_due || row.due_at < *report.oldest_due) report.oldest_due = row.due_at;
  if (!job_->quarantine.empty()) {
    const auto now = job_->clock.now();
    const auto held =
        std::erase_if(rows, [&](const Candidate& row) { return job_->quarantine.holds(row.key, now); });
    if (held > 0) report.skipped[Skip::quarantined] += static_cast<std::int64_t>(held);
  }
  std::ranges::stable_sort(rows, {}, [&](const Candidate& row) {
    return std::pair(job_->groups.of(row.key.partition), row.key.partition);
  });
  return rows;
}

}  // namespace ff::reconcile
