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

// All is read anew so seldom: what was locked, had failed or found no room is not in the queue, and what others have taken
// meanwhile is.
constexpr Milliseconds kReadAnewEvery{30'000};
constexpr int kRestAfterReadingAll = 20;
constexpr std::size_t kMostRead = 150'000;

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
  if (job_->short_of_tokens && !queue_read_until_) queue_read_until_ = UnixMillis::min();
  if (!queue_read_until_) storm->queued(asker(), 0);
  if (!job_->reconciler.takes_leases || held_after_) return;
  if (report.more)
    storm->held(asker());
  else if (report.complete)
    storm->drained(asker());
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
  storm->held(asker());
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
  storm->queued(asker(), wanted - taken);
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
  if (report.database_time == UnixMillis{})
    report.database_time = job_->server_clock.at(job_->clock.now()).value_or(*queue_read_until_);
  upcoming_.replace({}, report.database_time - job_->holdoff());
  report.complete = true;
  report.paged = true;
  report.oldest_due = queue_.oldest();
  const auto due = static_cast<std::int64_t>(queue_.size());
  if (!may_act(worker, due > 0) || !storm_lets_act(worker, due, report.database_time)) return;
  work_off_paid(worker, storm->take(job_->reconciler.name, due));
  const auto left = static_cast<std::int64_t>(queue_.size() + queue_.left_out());
  storm->queued(asker(), left);
  report.scanned += left;
  report.more = true;
  if (!queue_.empty())
    report.wait = storm->next_helping();
  else
    queue_read_until_.reset();
}

// Of the queue as many rows as there are tokens. Whatever happens, those that nobody has used are put back.
void Engine::work_off_paid(Worker& worker, std::int64_t tokens) {
  const std::int64_t given_back = worker.report().given_back;
  const auto settle = [&] {
    paid_ = false;
    job_->storm()->put_back(tokens - (worker.report().given_back - given_back));
  };
  paid_ = true;
  try {
    work_off(worker, queue_.pop(static_cast<std::size_t>(tokens)));
  } catch (...) {
    settle();
    throw;
  }
  settle();
}

// Whatever does not end within one reading begins elsewhere the next time.
void Engine::read_into_queue(Worker& worker) {
  const SteadyTime began = job_->clock.now();
  const bool anew = *queue_read_until_ == UnixMillis::min() || began >= queue_read_anew_at_;
  if (!anew && !queue_.empty() && began < queue_read_again_at_) return;
  const UnixMillis from = anew ? UnixMillis::min() : *queue_read_until_;
  if (anew) queue_.clear();
  const std::vector<Partitions>& groups = job_->groups.all();
  std::size_t read = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Pager pager(*job_, groups[(queue_first_group_ + i) % groups.size()], {}, from);
    while (!pager.done() && read < kMostRead && !job_->options.stop.stop_requested()) {
      auto rows = pager.next(worker, false);
      read += rows.size();
      queue_.add(std::move(rows));
    }
  }
  const SteadyTime ended = job_->clock.now();
  if (anew) {
    ++queue_first_group_;
    queue_read_anew_at_ =
        ended + std::max<SteadyTime::duration>(kReadAnewEvery, kRestAfterReadingAll * (ended - began));
  }
  queue_read_again_at_ = ended + kRestAfterReading * (ended - began);
  if (job_->deadline != SteadyTime::max()) job_->deadline += ended - began;
  queue_read_until_ = worker.report().database_time - job_->holdoff() - kWrittenLater;
}

}  // namespace ff::reconcile
