#include "supervisor/runner.hpp"

#include <spdlog/spdlog.h>

#include "base/log_scope.hpp"
#include "supervisor/random.hpp"

namespace ff::supervisor {
namespace {

using namespace std::chrono_literals;
constexpr Milliseconds kRepeatedErrorEvery = 60s;

std::string outcomes_text(const reconcile::TickReport& report) {
  std::string text;
  for (const auto& [outcome, count] : report.outcomes) text += " " + outcome + "=" + std::to_string(count);
  for (const auto& [skip, count] : report.skipped)
    text += " " + std::string(name(skip)) + "=" + std::to_string(count);
  return text;
}

}  // namespace

Runner::Runner(std::string name, bool takes_leases, Pace pace, Tick tick, Observer& observer,
               const Clock& clock)
    : name_(std::move(name)),
      takes_leases_(takes_leases),
      tick_(std::move(tick)),
      observer_(observer),
      clock_(clock),
      pace_(pace) {}

Pace Runner::pace() const {
  const std::lock_guard lock(mutex_);
  return pace_;
}

void Runner::change(Pace pace, std::function<void()> apply) {
  const std::lock_guard lock(mutex_);
  pace_ = pace;
  apply_ = std::move(apply);
}

void Runner::take_over_changes() {
  std::function<void()> apply;
  {
    const std::lock_guard lock(mutex_);
    apply.swap(apply_);
  }
  if (apply) apply();
}

Runner::Step Runner::step(SteadyTime planned, const std::stop_token& stop) {
  take_over_changes();
  const LogScope scope(next_log_id());
  const Milliseconds interval = pace().interval;
  const SteadyTime started = clock_.now();
  reconcile::TickReport report;
  try {
    report = tick_({.deadline = started + kTickBudget, .stop = stop, .look_ahead = interval});
  } catch (const std::exception& error) {
    // Not the database but we ourselves are at fault: count it, say it, and go on with the other rows next
    // time.
    ++report.errors["internal"];
    report.failure.emplace(pg::Error::Kind::server, std::string("internal error: ") + error.what());
  }
  const SteadyTime finished = clock_.now();
  consecutive_failures_ = report.failure ? consecutive_failures_ + 1 : 0;
  log(report);

  const auto late = std::max(started - planned, SteadyTime::duration::zero());
  observer_.tick_finished({.reconciler = name_,
                           .report = report,
                           .start_delay = late,
                           .duration = finished - started,
                           .missed = late / std::max<Milliseconds>(interval, 1ms),
                           .consecutive_failures = consecutive_failures_});

  LastRun last{started, finished, report.more, consecutive_failures_, {}};
  if (report.next_due) last.next_due = started + (*report.next_due - report.database_time);
  const bool doubtful =
      report.failure && (report.failure->connection_lost() || report.failure->not_writable());
  return {next_run(interval, last, random_share()), doubtful};
}

// An idle tick says nothing; a failure that repeats is said once and then counted once a minute.
void Runner::log(const reconcile::TickReport& report) {
  if (report.processed > 0 || report.error_count() > 0)
    spdlog::info("{}: scanned={} processed={} errors={}{}", name_, report.scanned, report.processed,
                 report.error_count(), outcomes_text(report));
  else if (report.scanned > 0)
    spdlog::debug("{}: scanned={}{}", name_, report.scanned, outcomes_text(report));
  if (!report.failure) {
    if (!last_failure_.empty()) spdlog::info("{}: works again", name_);
    last_failure_.clear();
    return;
  }
  const std::string failure = report.failure->what();
  const SteadyTime now = clock_.now();
  if (failure == last_failure_) {
    ++failures_unlogged_;
    if (now - last_failure_logged_ < kRepeatedErrorEvery) return;
    spdlog::error("{}: tick failed {} more times: {}", name_, failures_unlogged_, failure);
  } else {
    spdlog::error("{}: tick failed: {}", name_, failure);
  }
  last_failure_ = failure;
  last_failure_logged_ = now;
  failures_unlogged_ = 0;
}

}  // namespace ff::supervisor
