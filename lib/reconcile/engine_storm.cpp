// How an engine keeps to storm control: see Storm.
#include <algorithm>

#include "reconcile/engine.hpp"
#include "reconcile/lease_census.hpp"
#include "reconcile/pager.hpp"

namespace ff::reconcile {
namespace {

// While the breaker is open, it is looked at least so often.
constexpr Milliseconds kCheckEvery{10'000};
constexpr Milliseconds kCheckSooner{1000};
// A row may be written so long after the moment at which it falls due, and is then still read into the queue.
constexpr Milliseconds kWrittenLater{5000};

// So much longer than it took to read what has fallen due since: where no index leads to it, that is long.
constexpr int kRestAfterReading = 4;

}  // namespace

void Engine::begin_storm() {
  Storm* const storm = job_->storm();
  const bool asked = storm != nullptr && storm->is_on() && !job_->options.dry_run;
  if (!asked) job_->options.storm = nullptr;
  if (!asked || !job_->gives_back) {
    queue_.clear();
    queue_read_until_.reset();
  }
  job_->asks_whose = asked && ((job_->reconciler.takes_leases && storm->breaks()) || queue_read_until_);
  job_->short_of_tokens = false;
  held_after_.reset();
}

// Whoever has taken all that it could has drained what was held.
void Engine::end_storm(const TickReport& report) {
  Storm* const storm = job_->storm();
  if (storm == nullptr) return;
  const std::string_view name = job_->reconciler.name;
  if (job_->short_of_tokens && !queue_read_until_) queue_read_until_ = UnixMillis::min();
  if (queue_told_ && !queue_read_until_) {
    storm->queued(name, 0);
    queue_told_ = false;
  }
  if (!job_->reconciler.takes_leases || held_after_) return;
  if (report.more)
    storm->held(name);
  else if (report.complete)
    storm->drained(name);
}

// Before any lease is taken: whether the breaker is, or must be, open. Where all that has lapsed is counted, it is by its
// holders, and over both reconcilers that take leases.
bool Engine::storm_lets_act(Worker& worker, std::int64_t lapsed, UnixMillis database_now) {
  Storm* const storm = job_->storm();
  if (storm == nullptr || !job_->reconciler.takes_leases) return true;
  Storm::Verdict verdict = storm->verdict(database_now);
  const auto after =
      job_->gives_back && !verdict.held_after ? storm->to_be_counted(lapsed) : std::optional<UnixMillis>();
  if (after) {
    const SteadyTime began = job_->clock.now();
    const LeasesOf found =
        count_lapsed(worker.connection(), job_->groups, job_->scope.filter, job_->holdoff(), *after,
                     [&](const LeasesOf& some) { return storm->would_trip(some); });
    storm->judge(found, job_->clock.now() - began);
    verdict = storm->verdict(database_now);
  }
  held_after_ = verdict.held_after;
  if (!held_after_ || lapsed == 0) return true;
  storm->held(job_->reconciler.name);
  worker.report().more = true;
  // Those that have been held before are taken all the same.
  const bool all = *held_after_ == UnixMillis::min();
  worker.report().wait = std::min(verdict.open_for, all ? kCheckEvery : kCheckSooner);
  if (!all) return true;
  queue_.clear();
  queue_read_until_.reset();
  worker.report().scanned += lapsed;
  return false;
}

// Of those that have lapsed since the breaker last let all go.
void Engine::leave_held(Worker& worker, std::vector<Candidate>& rows) const {
  if (!held_after_) return;
  const auto held = std::erase_if(rows, [&](const Candidate& row) { return row.due_at > *held_after_; });
  worker.report().scanned += static_cast<std::int64_t>(held);
}

// Returns how many tokens it has taken for the rows that are left.
std::int64_t Engine::keep_to_rate(Worker& worker, std::vector<Candidate>& rows) {
  Storm* const storm = job_->storm();
  if (storm == nullptr || !job_->gives_back || rows.empty()) return 0;
  const auto wanted = static_cast<std::int64_t>(rows.size());
  if (paid_) return 0;
  const std::int64_t taken = storm->take(job_->reconciler.name, wanted);
  if (taken == wanted) return taken;
  rows.resize(static_cast<std::size_t>(taken));
  job_->short_of_tokens = true;
  storm->queued(job_->reconciler.name, wanted - taken);
  queue_told_ = true;
  TickReport& report = worker.report();
  report.more = true;
  return taken;
}

// While more is due than may be given back, all of it is read once, and then what has fallen due since; each namespace
// has its turn.
void Engine::work_off_queue(Worker& worker) {
  Storm* const storm = job_->storm();
  TickReport& report = worker.report();
  read_into_queue(worker);
  const std::string_view name = job_->reconciler.name;
  if (report.database_time == UnixMillis{})
    report.database_time = job_->server_clock.at(job_->clock.now()).value_or(*queue_read_until_);
  upcoming_.replace({}, report.database_time - job_->holdoff());
  report.complete = true;
  report.paged = true;
  report.oldest_due = queue_.oldest();
  const auto due = static_cast<std::int64_t>(queue_.size());
  if (!may_act(worker, due > 0) || !storm_lets_act(worker, due, report.database_time)) return;
  const std::int64_t given_back = report.given_back;
  const std::int64_t granted = storm->take(name, due);
  paid_ = true;
  work_off(worker, queue_.take(static_cast<std::size_t>(granted)));
  paid_ = false;
  storm->put_back(granted - (report.given_back - given_back));
  const auto left = static_cast<std::int64_t>(queue_.size());
  storm->queued(name, left);
  queue_told_ = true;
  report.scanned += left;
  report.more = true;
  if (left > 0)
    report.wait = storm->next_helping();
  else
    queue_read_until_.reset();
}

void Engine::read_into_queue(Worker& worker) {
  const UnixMillis from = *queue_read_until_;
  const SteadyTime began = job_->clock.now();
  if (!queue_.empty() && began < queue_read_again_at_) return;
  const bool anew = from == UnixMillis::min();
  for (const Partitions& group : job_->groups.all()) {
    Pager pager(*job_, group, {}, from);
    while (!pager.done() && !(anew && queue_.is_full())) queue_.add(pager.next(worker, false));
  }
  const SteadyTime ended = job_->clock.now();
  queue_read_again_at_ = ended + kRestAfterReading * (ended - began);
  queue_read_until_ = worker.report().database_time - job_->holdoff() - kWrittenLater;
}

}  // namespace ff::reconcile
