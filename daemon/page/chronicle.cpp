#include "page/chronicle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.hpp"
#include "page/model.hpp"

namespace ff::daemon::page {
namespace {

/// How late the latest row was: of those moved, when that was committed; of those left over, when they were scanned.
Milliseconds latest(const reconcile::TickReport& report) {
  Milliseconds late{0};
  if (!report.lateness.empty()) late = report.lateness.worst();
  if (report.complete && report.oldest_due && report.scanned > report.processed)
    late = std::max(late, waited(*report.oldest_due, report.database_time));
  return std::max(late, Milliseconds{0});
}

}  // namespace

void Chronicle::tick_finished(const supervisor::TickEvent& event) {
  const std::lock_guard lock(mutex_);
  Known& known = known_[std::string(event.reconciler)];
  known.history.add(clock_.now(), event.report.processed, latest(event.report));
  note_failures(event, known);
  if (!event.report.failure) note_quarantine(event, known);
  if (!event.report.failure) note_hold(event, known);
}

void Chronicle::note_failures(const supervisor::TickEvent& event, Known& known) {
  const auto& failure = event.report.failure;
  if (failure)
    note_locked(Severity::problem, event.reconciler, fmt::format("tick failed: {}", failure->what()));
  else if (known.failures > 0)
    note_locked(Severity::fine, event.reconciler,
                fmt::format("works again after {} failed {}", known.failures,
                            known.failures == 1 ? "tick" : "ticks"));
  known.failures = failure ? known.failures + 1 : 0;
}

void Chronicle::note_quarantine(const supervisor::TickEvent& event, Known& known) {
  const std::size_t now = event.report.quarantined;
  if (now > known.quarantined)
    note_locked(Severity::warning, event.reconciler,
                fmt::format("{} in quarantine because {}", rows_text(static_cast<std::int64_t>(now)),
                            now == 1 ? "it fails" : "they fail"));
  else if (now == 0 && known.quarantined > 0)
    note_locked(Severity::fine, event.reconciler, "no row is in quarantine any more");
  known.quarantined = now;
}

void Chronicle::note_hold(const supervisor::TickEvent& event, Known& known) {
  const auto before = std::exchange(known.hold, event.report.hold);
  const bool was_held = reconcile::is_held(before);
  if (reconcile::is_held(known.hold) && !was_held)
    note_locked(Severity::problem, event.reconciler,
                fmt::format("holds: more than {} are due", rows_text(known.hold->above)));
  if (was_held && known.hold && known.hold->released)
    note_locked(Severity::warning, event.reconciler, "goes on: an operator has released what it held");
  if (before && !known.hold)
    note_locked(Severity::fine, event.reconciler,
                fmt::format("no more than {} are due again", rows_text(before->above)));
}

void Chronicle::state_changed(supervisor::State state, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (state_ != state) state_since_ = clock_.wall();
  state_ = state;
  const Severity severity = state == supervisor::State::ready && reason.empty()       ? Severity::fine
                            : is_ready(state) || state == supervisor::State::stopping ? Severity::warning
                                                                                      : Severity::problem;
  note_locked(severity, "daemon",
              reason.empty() ? std::string(name(state)) : fmt::format("{}: {}", name(state), reason));
}

void Chronicle::pauses_changed(const std::vector<pause::Pause>& in_force) {
  const std::lock_guard lock(mutex_);
  for (const pause::Pause& now : in_force)
    if (std::ranges::find(pauses_, now) == pauses_.end())
      note_locked(Severity::warning, pause::subject_of(now), "paused " + pause::text_of(now, clock_.wall()));
  for (const pause::Pause& before : pauses_)
    if (std::ranges::find(in_force, before.reconciler, &pause::Pause::reconciler) == in_force.end())
      note_locked(Severity::fine, pause::subject_of(before), "goes on after a pause");
  pauses_ = in_force;
}

void Chronicle::pauses_unread(const std::string& why) {
  note(why.empty() ? Severity::fine : Severity::warning, "daemon",
       why.empty() ? "pauses are read again" : "pauses cannot be read: " + why);
}

void Chronicle::note(Severity severity, std::string_view subject, std::string_view text) {
  const std::lock_guard lock(mutex_);
  note_locked(severity, subject, text);
}

void Chronicle::note_locked(Severity severity, std::string_view subject, std::string_view text) {
  const UnixMillis now = clock_.wall();
  std::string shown = printable(text, kLongestText);
  const auto of_subject = [&](const Event& event) { return event.subject == subject; };
  const auto before = std::find_if(events_.rbegin(), events_.rend(), of_subject);
  if (before != events_.rend() && before->text == shown) {
    before->last = now;
    ++before->times;
    return;
  }
  events_.push_back({now, now, 1, severity, std::string(subject), std::move(shown)});
  if (events_.size() > kMostEvents) events_.pop_front();
}

History::Steps Chronicle::history(std::string_view reconciler) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(reconciler);
  return (found == known_.end() ? History{} : found->second.history).until(clock_.now());
}

std::vector<Event> Chronicle::events() const {
  const std::lock_guard lock(mutex_);
  std::vector<Event> events(events_.rbegin(), events_.rend());
  std::ranges::stable_sort(events, std::ranges::greater{}, &Event::last);
  return events;
}

UnixMillis Chronicle::state_since() const {
  const std::lock_guard lock(mutex_);
  return state_since_;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string rows_text(std::int64_t rows) {
  return grouped(rows) + (rows == 1 ? " row" : " rows");
}

}  // namespace ff::daemon::page
