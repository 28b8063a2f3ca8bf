// How a pair's engine keeps to its limits: to what it may try at all (see Hold), and to storm control (see Storm).
#include <algorithm>

#include "reconcile/lease_census.hpp"
#include "reconcile/pair_engine.hpp"

namespace ff::reconcile {
namespace {

// While the breaker is open, it is looked at least so often.
constexpr Milliseconds kCheckEvery{10'000};
constexpr Milliseconds kCheckSooner{1000};

}  // namespace

bool PairEngine::may_act(Worker& worker, const Allowance& allowance, bool any_due) {
  const auto rows = allowance(worker, any_due);
  job_->allowance = rows.value_or(0);
  return rows.has_value();
}

// More may have fallen due since they were counted: those wait for the next count.
void PairEngine::keep_to_allowance(Worker& worker, std::vector<Candidate>& rows) {
  std::int64_t left = job_->allowance;
  std::int64_t taken = 0;
  do {
    taken = std::min(left, static_cast<std::int64_t>(rows.size()));
  } while (!job_->allowance.compare_exchange_weak(left, left - taken));
  if (taken == static_cast<std::int64_t>(rows.size())) return;
  rows.resize(static_cast<std::size_t>(taken));
  worker.report().more = true;
}

bool PairEngine::allowance_is_spent(Worker& worker) {
  if (job_->allowance > 0) return false;
  worker.report().more = true;
  return true;
}

void PairEngine::begin_storm() {
  Storm* const storm = job_->storm();
  const bool asked = storm != nullptr && storm->is_on() && !job_->options.dry_run;
  if (!asked) job_->options.storm = nullptr;
  if (!asked || !job_->gives_back) queue_.stop();
  job_->asks_whose = asked && ((job_->reconciler.takes_leases && storm->breaks()) || queue_.is_in_use());
  job_->short_of_tokens = false;
  held_after_.reset();
}

// Whoever has taken all that it could has drained what was held.
void PairEngine::end_storm(const TickReport& report) {
  Storm* const storm = job_->storm();
  if (storm == nullptr) return;
  if (job_->short_of_tokens) queue_.start();
  if (!queue_.is_in_use()) storm->queued(asker_, 0);
  if (!job_->reconciler.takes_leases || held_after_) return;
  if (report.more)
    storm->held(asker_);
  else if (report.complete)
    storm->drained(asker_);
}

// Before any lease is taken: whether the breaker is, or must be, open. Where all that has lapsed is counted, it is by its
// holders, and over both reconcilers that take leases.
bool PairEngine::storm_lets_act(Worker& worker, std::int64_t lapsed, UnixMillis database_now) {
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
  storm->held(asker_);
  worker.report().more = true;
  // Those that have been held before are taken all the same.
  const bool all = *held_after_ == UnixMillis::min();
  worker.report().wait = std::min(verdict.open_for, all ? kCheckEvery : kCheckSooner);
  if (!all) return true;
  queue_.stop();
  worker.report().scanned += lapsed;
  return false;
}

// Of those that have lapsed since the breaker last let all go.
void PairEngine::leave_held(Worker& worker, std::vector<Candidate>& rows) const {
  if (!held_after_) return;
  const auto held = std::erase_if(rows, [&](const Candidate& row) { return row.due_at > *held_after_; });
  worker.report().scanned += static_cast<std::int64_t>(held);
}

// Returns how many tokens it has taken for the rows that are left.
std::int64_t PairEngine::keep_to_rate(Worker& worker, std::vector<Candidate>& rows) {
  Storm* const storm = job_->storm();
  if (storm == nullptr || !job_->gives_back || rows.empty()) return 0;
  const auto wanted = static_cast<std::int64_t>(rows.size());
  if (paid_) return 0;
  const std::int64_t taken = storm->take(job_->reconciler.name, wanted);
  if (taken == wanted) return taken;
  rows.resize(static_cast<std::size_t>(taken));
  job_->short_of_tokens = true;
  storm->queued(asker_, wanted - taken);
  TickReport& report = worker.report();
  report.more = true;
  return taken;
}

// While more is due than may be given back, all of it is read once, and then what has fallen due since; each namespace
// has its turn.
void PairEngine::work_off_queue(Worker& worker, const Allowance& allowance) {
  Storm* const storm = job_->storm();
  TickReport& report = worker.report();
  queue_.read(*job_, worker);
  if (report.database_time == UnixMillis{})
    report.database_time = job_->shared->server_clock.at(job_->clock.now()).value_or(queue_.read_until());
  upcoming_.replace({}, report.database_time - job_->holdoff());
  report.complete = true;
  report.paged = true;
  report.oldest_due = queue_.rows().oldest();
  const auto due = static_cast<std::int64_t>(queue_.rows().size());
  if (!may_act(worker, allowance, due > 0) || !storm_lets_act(worker, due, report.database_time)) return;
  work_off_paid(worker, storm->take(job_->reconciler.name, due));
  const auto left = static_cast<std::int64_t>(queue_.rows().size() + queue_.rows().left_out());
  storm->queued(asker_, left);
  report.scanned += left;
  report.more = true;
  if (!queue_.rows().empty())
    report.wait = storm->next_helping();
  else
    queue_.stop();
}

// Of the queue as many rows as there are tokens. Whatever happens, those that nobody has used are put back.
void PairEngine::work_off_paid(Worker& worker, std::int64_t tokens) {
  const std::int64_t given_back = worker.report().given_back;
  const auto settle = [&] {
    paid_ = false;
    job_->storm()->put_back(tokens - (worker.report().given_back - given_back));
  };
  paid_ = true;
  try {
    work_off(worker, queue_.rows().pop(static_cast<std::size_t>(tokens)));
  } catch (...) {
    settle();
    throw;
  }
  settle();
}

}  // namespace ff::reconcile
