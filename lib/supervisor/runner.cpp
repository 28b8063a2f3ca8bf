#include "supervisor/runner.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/log_fields.hpp"
#include "base/log_scope.hpp"
#include "supervisor/random.hpp"

namespace ff::supervisor {
namespace {

using namespace std::chrono_literals;
constexpr Milliseconds kRepeatedErrorEvery = 60s;
// One that has not been said for so long has been over in between: its tries are no further apart than a minute or two.
constexpr Milliseconds kForgottenAfter = 5min;
// So many are told apart: more than a reconciler has kinds of scans.
constexpr std::size_t kMostFailures = 8;

std::string outcomes_text(const reconcile::TickReport& report) {
  std::string text;
  for (const auto& [outcome, count] : report.outcomes) text += " " + outcome + "=" + std::to_string(count);
  for (const auto& [skip, count] : report.skipped)
    text += " " + std::string(name(skip)) + "=" + std::to_string(count);
  return text;
}

// The same, for a log of JSON.
LogFields::Numbers counts_of(const reconcile::TickReport& report) {
  LogFields::Numbers counts{
      {"scanned", report.scanned}, {"processed", report.processed}, {"errors", report.error_count()}};
  counts.insert(counts.end(), report.outcomes.begin(), report.outcomes.end());
  for (const auto& [skip, count] : report.skipped) counts.emplace_back(name(skip), count);
  return counts;
}

}  // namespace

Runner::Runner(std::string name, bool takes_leases, Timing timing, Tick tick, Unchanged unchanged,
               Observer& observer, const Clock& clock, std::string release)
    : name_(std::move(name)),
      release_(release.empty() ? "ff-reconcilerd resume " + name_ : std::move(release)),
      takes_leases_(takes_leases),
      tick_(std::move(tick)),
      unchanged_(std::move(unchanged)),
      observer_(observer),
      clock_(clock),
      timing_(std::move(timing)),
      schedule_(random_share) {}

Timing Runner::timing() const {
  const std::lock_guard lock(mutex_);
  return timing_;
}

void Runner::change(Timing timing, std::function<void()> apply) {
  const std::lock_guard lock(mutex_);
  timing_ = std::move(timing);
  apply_ = std::move(apply);
}

void Runner::take_over_changes() {
  std::function<void()> apply;
  {
    const std::lock_guard lock(mutex_);
    apply.swap(apply_);
  }
  if (!apply) return;
  apply();
  schedule_.start_over();
}

Runner::Step Runner::step(SteadyTime planned, const std::stop_token& stop) {
  take_over_changes();
  const LogScope scope(next_log_id());
  const LogFields fields(name_);
  const Timing now = timing();
  const Turn turn = schedule_.begin(now, clock_.now(), unchanged_);
  const SteadyTime started = clock_.now();
  progress_.scanned = progress_.processed = 0;
  observer_.tick_started({name_, progress_});
  const reconcile::TickReport report = tick({.deadline = started + kTickBudget,
                                             .stop = stop,
                                             .scan_ahead = turn.ahead,
                                             .scan = turn.scan,
                                             .companions_scan_ahead = turn.companions_ahead,
                                             .companions_scan = turn.companions,
                                             .shortcuts_scan = turn.shortcuts,
                                             .in_slices = true,
                                             .wary = true,
                                             .rate_limited = true,
                                             .progress = &progress_});
  const SteadyTime finished = clock_.now();
  // The database's moments, by our clock.
  const auto ours = [&](std::optional<UnixMillis> its) {
    return its ? std::optional<SteadyTime>(started + (*its - report.database_time)) : std::nullopt;
  };
  const bool away = report.failure && (report.failure->connection_lost() || report.failure->not_writable());
  const bool has_waited = report.failure && (report.failure->table_locked() || report.failure->canceled());
  const SteadyTime next = schedule_.end(now, {.turn = turn,
                                              .started = started,
                                              .finished = finished,
                                              .failed = report.failure.has_value(),
                                              .has_waited = has_waited,
                                              .database_away = away,
                                              .rested = report.rested,
                                              .companions_rested = report.companions_rested,
                                              .more = report.more,
                                              .wait = report.wait,
                                              .paged = report.paged,
                                              .found = report.scanned,
                                              .watched = report.watched,
                                              .moved = report.processed,
                                              .next_due = ours(report.next_due),
                                              .known_until = ours(report.known_until),
                                              .companions_known_until = ours(report.companions_known_until)});
  const auto late = std::max(started - planned, SteadyTime::duration::zero());
  observer_.tick_finished({.reconciler = name_,
                           .report = report,
                           .start_delay = late,
                           .duration = finished - started,
                           .missed = late / std::max<Milliseconds>(now.interval, 1ms),
                           .consecutive_failures = schedule_.failures()});
  // The refills of a storm make one line at its end.
  log(report, (turn.first || turn.companions || turn.shortcuts) && report.wait == Milliseconds{0});
  if (!report.failure) log_hold(report);
  return {next, away, report.processed > 0 ? now.wakes : std::vector<std::string_view>{}};
}

void Runner::wake() {
  schedule_.scan_at_once();
}

// Not the database but we ourselves are at fault where something else is thrown: it is counted and said, and the next
// tick goes on with the other rows.
reconcile::TickReport Runner::tick(const reconcile::TickOptions& options) const {
  try {
    return tick_(options);
  } catch (const std::exception& error) {
    reconcile::TickReport report;
    ++report.errors["internal"];
    report.failure.emplace(pg::Error::Kind::internal, std::string("internal error: ") + error.what());
    return report;
  }
}

// An idle tick says nothing; what the many small ticks between two scans, taken or skipped, have moved is said
// in one line; a failure that repeats is said once and then counted once a minute.
void Runner::log(const reconcile::TickReport& report, bool scans) {
  unlogged_.add(reconcile::TickReport(report));
  if (scans || report.error_count() > 0) {
    const LogFields fields(name_, counts_of(unlogged_));
    if (unlogged_.processed > 0 || unlogged_.error_count() > 0)
      spdlog::info("{}: scanned={} processed={} errors={}{}", name_, unlogged_.scanned, unlogged_.processed,
                   unlogged_.error_count(), outcomes_text(unlogged_));
    else if (unlogged_.scanned > 0)
      spdlog::debug("{}: scanned={}{}", name_, unlogged_.scanned, outcomes_text(unlogged_));
    unlogged_ = {};
  }
  if (report.failure) return log_failure(report.failure->what());
  if (schedule_.failures() > 0) return;  // a success of another kind of scan
  if (!failures_.empty()) spdlog::info("{}: works again", name_);
  failures_.clear();
}

// Where several kinds of scans fail, each has a failure of its own.
void Runner::log_failure(const std::string& failure) {
  const SteadyTime now = clock_.now();
  const auto [found, is_new] = failures_.try_emplace(failure, Said{now});
  Said& said = found->second;
  if (is_new || now - said.at > kForgottenAfter) {
    said = {now};
    spdlog::error("{}: tick failed: {}", name_, failure);
    if (failures_.size() > kMostFailures)
      failures_.erase(
          std::ranges::min_element(failures_, {}, [](const auto& each) { return each.second.at; }));
    return;
  }
  ++said.times_since;
  if (now - said.at < kRepeatedErrorEvery) return;
  spdlog::error("{}: tick failed {} more times: {}", name_, said.times_since, failure);
  said = {now};
}

void Runner::log_hold(const reconcile::TickReport& report) {
  const auto before = std::exchange(hold_, report.hold);
  if (reconcile::is_held(hold_) && !reconcile::is_held(before))
    spdlog::warn("{}: more than {} rows are due (hold_above), and none is moved until: {}", name_,
                 hold_->above, release_);
  if (hold_ && hold_->released && !(before && before->released))
    spdlog::warn("{}: released by an operator: all that is due is moved, until it is no more than {} rows",
                 name_, hold_->above);
  if (before && !hold_) spdlog::info("{}: its due rows are within hold_above again", name_);
}

}  // namespace ff::supervisor
