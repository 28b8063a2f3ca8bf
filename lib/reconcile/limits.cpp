#include "reconcile/limits.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "reconcile/backlog.hpp"
#include "reconcile/lease_census.hpp"

namespace ff::reconcile {
namespace {

// While the breaker is open, it is looked at least so often.
constexpr Milliseconds kCheckEvery{10'000};
constexpr Milliseconds kCheckSooner{1000};

}  // namespace

Tokens& Tokens::operator=(Tokens&& other) noexcept {
  put_back();
  storm_ = std::exchange(other.storm_, nullptr);
  worker_ = other.worker_;
  taken_ = other.taken_;
  given_back_ = other.given_back_;
  return *this;
}

void Tokens::put_back() {
  if (storm_ != nullptr) storm_->put_back(taken_ - (worker_->report().given_back - given_back_));
}

void Limits::begin_tick() {
  left_ = std::numeric_limits<std::int64_t>::max();
  short_of_tokens_ = false;
  held_after_.reset();
  Storm* const storm = job_.storm();
  const bool asked = storm != nullptr && storm->is_on() && !job_.options.dry_run;
  if (!asked) job_.options.storm = nullptr;
  if (!asked || !job_.gives_back) queue_.stop();
  job_.asks_whose = asked && ((job_.reconciler.takes_leases && storm->breaks()) || queue_.is_in_use());
}

// A pair with nothing left to take reports itself drained; when all have, the breaker closes.
void Limits::end_tick(const TickReport& report) {
  Storm* const storm = job_.storm();
  if (storm == nullptr) return;
  if (short_of_tokens_) queue_.start();
  if (!queue_.is_in_use()) storm->queued(asker_, 0);
  if (!job_.reconciler.takes_leases || held_after_) return;
  if (report.more)
    storm->held(asker_);
  else if (report.complete && !report.failure)
    storm->drained(asker_);
}

bool Limits::lets_act(Worker& worker, std::int64_t due, UnixMillis database_now) {
  const auto rows = hold_limit_.may_try(job_, worker, due > 0);
  if (!rows) return false;
  left_ = *rows;
  return breaker_lets_act(worker, due, database_now);
}

// Before any lease is taken: whether the breaker is, or must be, open. Where all that has lapsed is counted, it is by its
// holders, and over both reconcilers that take leases.
bool Limits::breaker_lets_act(Worker& worker, std::int64_t lapsed, UnixMillis database_now) {
  Storm* const storm = job_.storm();
  if (storm == nullptr || !job_.reconciler.takes_leases) return true;
  Storm::Verdict verdict = storm->verdict(database_now);
  const auto after =
      job_.gives_back && !verdict.held_after ? storm->to_be_counted(lapsed) : std::optional<UnixMillis>();
  if (after) {
    const SteadyTime began = job_.clock.now();
    const LeasesOf found =
        count_lapsed(worker.connection(), job_.groups, job_.scope.filter, job_.holdoff(), *after,
                     [&](const LeasesOf& some) { return storm->would_trip(some); });
    storm->judge(found, job_.clock.now() - began);
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

Admitted Limits::admit(Worker& worker, std::vector<Candidate> rows) {
  sift(worker, rows);
  Storm* const storm = job_.storm();
  if (storm == nullptr || !job_.gives_back || rows.empty()) return {std::move(rows)};
  const auto wanted = static_cast<std::int64_t>(rows.size());
  const std::int64_t taken = storm->take(job_.reconciler.name, wanted);
  if (taken < wanted) {
    rows.resize(static_cast<std::size_t>(taken));
    short_of_tokens_ = true;
    storm->queued(asker_, wanted - taken);
    worker.report().more = true;
  }
  return {std::move(rows), Tokens(*storm, worker, taken)};
}

bool Limits::are_spent(Worker& worker) {
  if (left_ > 0) return short_of_tokens_;
  worker.report().more = true;
  return true;
}

// One that an earlier scan saw coming is seen as it was then.
void Limits::leave_restless(TickReport& report, std::vector<Candidate>& rows) {
  if (job_.reconciler.still_for <= Milliseconds{0}) return;
  const auto left = std::erase_if(
      rows, [&](const Candidate& row) { return !job_.still_rows.has_stood(row, job_.still_for()); });
  report.watched += static_cast<std::int64_t>(left);
  for (const Candidate& row : rows) {
    const UnixMillis since = job_.late_since(row.due_at, row.key);
    UnixMillis& oldest = report.oldest_due_in.try_emplace(row.key.partition, since).first->second;
    oldest = std::min(oldest, since);
  }
}

// What may be tried whatever it costs, sorted by group. More may have fallen due since they were counted: those wait
// for the next count.
void Limits::sift(Worker& worker, std::vector<Candidate>& rows) {
  TickReport& report = worker.report();
  leave_restless(report, rows);
  report.scanned += static_cast<std::int64_t>(rows.size());
  if (held_after_) std::erase_if(rows, [&](const Candidate& row) { return row.due_at > *held_after_; });
  if (job_.options.progress) job_.options.progress->scanned += static_cast<std::int64_t>(rows.size());
  for (const Candidate& row : rows) keep_earlier(report.oldest_due, job_.late_since(row.due_at, row.key));
  if (!job_.quarantine.empty()) {
    const auto now = job_.clock.now();
    const auto held =
        std::erase_if(rows, [&](const Candidate& row) { return job_.quarantine.holds(row.key, now); });
    if (held > 0) report.skipped[Skip::quarantined] += static_cast<std::int64_t>(held);
  }
  std::ranges::stable_sort(rows, {}, [&](const Candidate& row) {
    return std::pair(job_.groups.of(row.key.partition), row.key.partition);
  });
  std::int64_t left = left_;
  std::int64_t taken = 0;
  do {
    taken = std::min(left, static_cast<std::int64_t>(rows.size()));
  } while (!left_.compare_exchange_weak(left, left - taken));
  if (taken == static_cast<std::int64_t>(rows.size())) return;
  rows.resize(static_cast<std::size_t>(taken));
  report.more = true;
}

Admitted Limits::admit_from_queue(Worker& worker) {
  Storm& storm = *job_.storm();
  const auto queued = static_cast<std::int64_t>(queue_.rows().size());
  const std::int64_t taken = storm.take(job_.reconciler.name, queued);
  Admitted admitted{queue_.rows().pop(static_cast<std::size_t>(taken)), Tokens(storm, worker, taken)};
  sift(worker, admitted.rows);
  return admitted;
}

void Limits::leave_queue(TickReport& report) {
  const auto left = static_cast<std::int64_t>(queue_.rows().size() + queue_.rows().left_out());
  job_.storm()->queued(asker_, left);
  report.scanned += left;
  report.more = true;
  if (!queue_.rows().empty())
    report.wait = job_.storm()->next_refill();
  else
    queue_.stop();
}

void Limits::drop_queue() {
  queue_.stop();
  if (job_.storm() != nullptr) job_.storm()->queued(asker_, 0);
}

}  // namespace ff::reconcile
