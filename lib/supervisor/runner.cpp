#include "supervisor/runner.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/log_fields.hpp"
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
               Observer& observer, const Clock& clock)
    : name_(std::move(name)),
      takes_leases_(takes_leases),
      tick_(std::move(tick)),
      unchanged_(std::move(unchanged)),
      observer_(observer),
      clock_(clock),
      timing_(std::move(timing)) {}

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
  next_scan_.reset();
  next_companions_scan_.reset();
  next_shortcuts_scan_.reset();
  last_scan_.reset();
  last_shortcuts_scan_.reset();
}

Runner::Step Runner::step(SteadyTime planned, const std::stop_token& stop) {
  take_over_changes();
  const LogScope scope(next_log_id());
  const LogFields fields(name_);
  const Timing now = timing();
  const Milliseconds interval = now.interval;
  const SteadyTime started = clock_.now();
  const Wanted turn = wanted(now, started);
  const bool scan = turn.first && !scan_is_skipped(started, interval);
  // As far as the next scan is away, which is further while nothing is announced.
  const Milliseconds scan_ahead =
      2 * interval + (is_unchanged() ? safety_interval(interval) : Milliseconds{0});
  progress_.scanned = progress_.processed = 0;
  observer_.tick_started({name_, progress_});
  const reconcile::TickReport report =
      tick({.deadline = started + kTickBudget,
            .stop = stop,
            .scan_ahead = scan_ahead,
            .scan = scan,
            .companions_scan_ahead = 2 * now.companions.value_or(Milliseconds{0}),
            .companions_scan = turn.companions,
            .shortcuts_scan = turn.shortcuts,
            .in_slices = true,
            .wary = true,
            .rate_limited = true,
            .progress = &progress_});
  const SteadyTime finished = clock_.now();
  consecutive_failures_ = report.failure ? consecutive_failures_ + 1 : 0;
  const auto late = std::max(started - planned, SteadyTime::duration::zero());
  observer_.tick_finished({.reconciler = name_,
                           .report = report,
                           .start_delay = late,
                           .duration = finished - started,
                           .missed = late / std::max<Milliseconds>(interval, 1ms),
                           .consecutive_failures = consecutive_failures_});
  // The helpings of a storm make one line at its end.
  log(report, (turn.first || turn.companions || turn.shortcuts) && report.wait == Milliseconds{0});
  if (!report.failure) log_hold(report);

  // The database's moments, by our clock.
  const auto ours = [&](std::optional<UnixMillis> its) {
    return its ? std::optional<SteadyTime>(started + (*its - report.database_time)) : std::nullopt;
  };
  const Turn ended{started, finished, turn.first, scan};
  note_scan(ended, interval, report, ours(report.known_until));
  note_companions(turn, ended, now, report);
  const bool away = report.failure && (report.failure->connection_lost() || report.failure->not_writable());
  const NextRun next = next_run(interval,
                                {.started = started,
                                 .finished = finished,
                                 .more = report.more,
                                 .wait = report.wait,
                                 .consecutive_failures = failures_to_back_off_from(report),
                                 .database_away = away,
                                 .next_due = ours(report.next_due),
                                 .next_scan = *next_scan_,
                                 .companions_scan = next_of_companions(now, finished)},
                                random_share());
  if (next.scan) next_scan_ = next.at;
  return {next.at, away, report.processed > 0 ? now.wakes : std::vector<std::string_view>{}};
}

void Runner::wake() {
  next_scan_.reset();
  last_scan_.reset();
}

// In turn, so that none waits for a backlog of another.
Runner::Wanted Runner::wanted(const Timing& timing, SteadyTime now) {
  const auto due = [&](std::optional<Milliseconds> interval, std::optional<SteadyTime> next) {
    return interval && next_scan_ && (!next || now >= *next);
  };
  Wanted turn;
  // Not between the tries of what fails, which would scan as if it worked again.
  turn.shortcuts =
      due(timing.shortcuts, next_shortcuts_scan_) && !shortcuts_had_turn_ && consecutive_failures_ == 0;
  if (turn.shortcuts && shortcuts_are_skipped()) {
    turn.shortcuts = false;
    next_shortcuts_scan_ = next_scan(*timing.shortcuts, now, {}, random_share());
  }
  shortcuts_had_turn_ = turn.shortcuts;
  if (turn.shortcuts) return turn;
  turn.companions = due(timing.companions, next_companions_scan_) && !companions_had_turn_;
  companions_had_turn_ = turn.companions;
  turn.first = !turn.companions && (!next_scan_ || now >= *next_scan_ || consecutive_failures_ > 0);
  return turn;
}

// A lock ends when it ends, and waiting for it has been a pause already.
int Runner::failures_to_back_off_from(const reconcile::TickReport& report) const {
  return report.failure && report.failure->table_locked() ? 1 : consecutive_failures_;
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

void Runner::note_scan(const Turn& turn, Milliseconds interval, const reconcile::TickReport& report,
                       std::optional<SteadyTime> known_until) {
  const bool settled = !report.paged && !report.more && !report.failure && report.processed == report.scanned;
  if (turn.scanned)
    last_scan_ = {turn.started, known_until, settled};
  else if (last_scan_)
    last_scan_->settled = last_scan_->settled && settled;
  if (turn.scan_wanted)
    next_scan_ = next_scan(interval, turn.started, last_scan_ ? last_scan_->known_until : std::nullopt,
                           random_share());
  if (turn.scanned && report.scanned == 0 && !report.failure)
    next_scan_ = std::max(*next_scan_, rested_from_scan(interval, turn.started, turn.finished));
}

void Runner::note_companions(const Wanted& scanned, const Turn& turn, const Timing& timing,
                             const reconcile::TickReport& report) {
  const auto again = [&](Milliseconds interval) {
    return std::max(next_scan(interval, turn.started, {}, random_share()),
                    rested_from_scan(interval, turn.started, turn.finished));
  };
  const bool all_seen = !report.failure && !report.more;
  if (scanned.companions && all_seen) next_companions_scan_ = again(*timing.companions);
  if (scanned.shortcuts && all_seen) next_shortcuts_scan_ = again(*timing.shortcuts);
  if (scanned.shortcuts)
    last_shortcuts_scan_ = {turn.started, {}, all_seen && report.processed == report.scanned};
}

std::optional<SteadyTime> Runner::next_of_companions(const Timing& timing, SteadyTime now) const {
  std::optional<SteadyTime> next;
  if (timing.companions) next = next_companions_scan_.value_or(now);
  if (timing.shortcuts) next = std::min(next.value_or(SteadyTime::max()), next_shortcuts_scan_.value_or(now));
  return next;
}

bool Runner::is_unchanged() const {
  return unchanged_.first && last_scan_ && unchanged_.first(last_scan_->at);
}

// However long: a shortcut sees what was announced in the last seconds only.
bool Runner::shortcuts_are_skipped() const {
  return last_shortcuts_scan_ && last_shortcuts_scan_->settled && unchanged_.shortcuts &&
         unchanged_.shortcuts(last_shortcuts_scan_->at);
}

bool Runner::scan_is_skipped(SteadyTime now, Milliseconds interval) const {
  return next_scan_ && consecutive_failures_ == 0 && last_scan_ && last_scan_->settled &&
         last_scan_->known_until && now < *last_scan_->known_until &&
         now < last_scan_->at + safety_interval(interval) && is_unchanged();
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

void Runner::log_hold(const reconcile::TickReport& report) {
  const auto before = std::exchange(hold_, report.hold);
  if (reconcile::is_held(hold_) && !reconcile::is_held(before))
    spdlog::warn(
        "{}: more than {} rows are due (hold_above), and none is moved until: ff-reconcilerd resume {}",
        name_, hold_->above, name_);
  if (hold_ && hold_->released && !(before && before->released))
    spdlog::warn("{}: released by an operator: all that is due is moved, until it is no more than {} rows",
                 name_, hold_->above);
  if (before && !hold_) spdlog::info("{}: its due rows are within hold_above again", name_);
}

}  // namespace ff::supervisor
