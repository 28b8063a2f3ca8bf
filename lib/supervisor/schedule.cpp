#include "supervisor/schedule.hpp"

#include <algorithm>

namespace ff::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kLongestPause = 30s;
constexpr Milliseconds kLongestPauseWhileAway = 3s;
constexpr Milliseconds kLongestWhileAway = 1s;
constexpr Milliseconds kLongestWhileRefused = 8s;
constexpr Milliseconds kBreath = 2ms;
constexpr Milliseconds kLongestSafety = 30s;
constexpr int kRestAfterScan = 4;

Milliseconds doubled(Milliseconds first, int times, Milliseconds most) {
  Milliseconds value = first;
  for (int i = 0; i < times && value < most; ++i) value *= 2;
  return std::min(value, most);
}

Milliseconds stretched(Milliseconds duration, double share) {
  return std::chrono::duration_cast<Milliseconds>(duration * (1.0 + share));
}

// After so many failures in a row: see next_run.
Milliseconds pause_after(int failures, bool database_away, Milliseconds interval, double jitter) {
  const auto longest = std::max(interval, database_away ? kLongestPauseWhileAway : kLongestPause);
  return stretched(doubled(interval, failures - 1, longest), 0.25 * jitter);
}

}  // namespace

SteadyTime next_scan(Milliseconds interval, SteadyTime scanned, std::optional<SteadyTime> known_until,
                     double jitter) {
  const SteadyTime regular = scanned + stretched(interval, 0.1 * jitter);
  return known_until ? std::min(regular, *known_until) : regular;
}

Milliseconds safety_interval(Milliseconds interval) {
  return std::clamp(kLongestSafety, interval, 10 * interval);
}

SteadyTime rested_from_scan(Milliseconds interval, SteadyTime started, SteadyTime finished) {
  return finished + std::min<SteadyTime::duration>(kRestAfterScan * (finished - started), interval);
}

NextRun next_run(Milliseconds interval, const LastRun& last, double jitter) {
  if (last.consecutive_failures > 0)
    return {last.finished + pause_after(last.consecutive_failures, last.database_away, interval, jitter),
            true};
  if (last.more) return {last.finished + last.wait, true};
  SteadyTime wanted = last.next_scan;
  for (const auto& sooner : {last.next_due, last.companions_scan})
    if (sooner) wanted = std::min(wanted, *sooner);
  const SteadyTime rested =
      last.finished + std::max<SteadyTime::duration>(last.finished - last.started, kBreath);
  const SteadyTime at = std::max({wanted, last.finished, std::min(rested, last.started + interval)});
  return {at, at >= last.next_scan};
}

Milliseconds reconnect_delay(int failures, bool refused, double jitter) {
  const Milliseconds longest =
      doubled(500ms, failures - 1, refused ? kLongestWhileRefused : kLongestWhileAway);
  return std::chrono::duration_cast<Milliseconds>(longest * (0.5 + 0.5 * jitter));
}

Turn Schedule::begin(const Timing& timing, SteadyTime now, const Unchanged& unchanged) {
  if (!timing.companions) companions_ = {};
  if (!timing.shortcuts) shortcuts_ = {};
  const auto is_due = [&](std::optional<Milliseconds> interval, const Line& line) {
    return interval && first_.next && !line.had_turn && (!line.next || now >= *line.next);
  };
  const auto stands_still = [](const UnchangedSince& unchanged_since, const Line& line) {
    return unchanged_since && line.last && line.last->settled && unchanged_since(line.last->at);
  };
  // Where nobody knows what falls due next, no scan is skipped.
  const auto nothing_new = [&](const UnchangedSince& unchanged_since, const Line& line) {
    return line.last && line.last->known_until && stands_still(unchanged_since, line);
  };
  // As far as the next scan is away, which is further while nothing is new.
  Turn turn{.ahead = 2 * timing.interval,
            .companions_ahead = 2 * timing.companions.value_or(Milliseconds{0})};

  // Not between the tries of what fails, which would scan as if it worked again.
  turn.shortcuts = is_due(timing.shortcuts, shortcuts_) && first_.failures == 0;
  if (turn.shortcuts && stands_still(unchanged.shortcuts, shortcuts_)) {
    turn.shortcuts = false;
    shortcuts_.next = next_scan(*timing.shortcuts, now, {}, jitter_());
  }
  shortcuts_.had_turn = turn.shortcuts;
  if (turn.shortcuts) return turn;

  turn.companions = is_due(timing.companions, companions_);
  if (turn.companions && nothing_new(unchanged.companions, companions_)) {
    turn.companions_ahead += safety_interval(*timing.companions);
    if (companions_.failures == 0 && has_seen(companions_, *timing.companions, now)) {
      turn.companions = false;
      companions_.next = next_scan(*timing.companions, now, {}, jitter_());
    }
  }
  companions_.had_turn = turn.companions;
  turn.first = !turn.companions && (!first_.next || now >= *first_.next || first_.failures > 0);
  turn.scan = turn.first;
  if (turn.first && nothing_new(unchanged.first, first_)) {
    turn.ahead += safety_interval(timing.interval);
    turn.scan = !first_.next || first_.failures > 0 || !has_seen(first_, timing.interval, now);
  }
  return turn;
}

SteadyTime Schedule::end(const Timing& timing, const Run& run) {
  count_failure(run);
  note_last(run);
  note_first(timing.interval, run);
  note_companions(timing, run);
  LastRun last{.started = run.started,
               .finished = run.finished,
               .more = run.more && !run.failed,
               .wait = run.wait,
               .consecutive_failures = run.failed && line_of(run) == &first_ ? failures_to_pause_for(run) : 0,
               .database_away = run.database_away,
               .next_due = run.next_due,
               .next_scan = *first_.next};
  if (timing.companions) last.companions_scan = companions_.next.value_or(run.finished);
  if (timing.shortcuts)
    last.companions_scan =
        std::min(last.companions_scan.value_or(SteadyTime::max()), shortcuts_.next.value_or(run.finished));
  const NextRun next = next_run(timing.interval, last, jitter_());
  if (next.scan) first_.next = next.at;
  return next.at;
}

// The last scan has seen what falls due by now, and is not so long ago that somebody should make sure.
bool Schedule::has_seen(const Line& line, Milliseconds interval, SteadyTime now) {
  return now < *line.last->known_until && now < line.last->at + safety_interval(interval);
}

// Without a database all fail, whoever had the turn.
Schedule::Line* Schedule::line_of(const Run& run) {
  if (run.failed && run.database_away) return &first_;
  return run.turn.companions ? &companions_ : run.turn.shortcuts ? &shortcuts_ : &first_;
}

void Schedule::count_failure(const Run& run) {
  Line& line = *line_of(run);
  if (run.failed)
    ++line.failures;
  else if (&line != &first_ || run.turn.first)
    line.failures = 0;
}

// Waiting has been a pause already, and others may be served meanwhile.
int Schedule::failures_to_pause_for(const Run& run) {
  return run.has_waited ? 1 : line_of(run)->failures;
}

// A row that was seen coming may be of any of the scans.
void Schedule::note_last(const Run& run) {
  const bool settled = !run.paged && !run.more && !run.failed && run.moved == run.found && run.watched == 0;
  for (Line* const line : {&first_, &companions_})
    if (line->last) line->last->settled = line->last->settled && settled;
  // Who rested has only taken what was seen before.
  if (run.turn.scan && !run.rested) first_.last = {run.started, settled, run.known_until};
  if (run.turn.companions && !run.companions_rested)
    companions_.last = {run.started, settled, run.companions_known_until};
  if (run.turn.shortcuts) shortcuts_.last = {run.started, settled};
}

void Schedule::note_first(Milliseconds interval, const Run& run) {
  if (run.turn.first)
    first_.next =
        next_scan(interval, run.started, first_.last ? first_.last->known_until : std::nullopt, jitter_());
  if (run.turn.scan && run.found == 0 && !run.failed)
    first_.next = std::max(*first_.next, rested_from_scan(interval, run.started, run.finished));
}

void Schedule::note_companions(const Timing& timing, const Run& run) {
  const auto again = [&](Milliseconds interval) {
    // One of several fails, and others have more to do.
    if (run.failed && run.more) return run.finished + timing.interval;
    if (run.failed)
      return run.finished + pause_after(failures_to_pause_for(run), run.database_away, interval, jitter_());
    return std::max(next_scan(interval, run.started, {}, jitter_()),
                    rested_from_scan(interval, run.started, run.finished));
  };
  if (!run.database_away && (run.failed || !run.more)) {
    if (run.turn.companions) companions_.next = again(*timing.companions);
    if (run.turn.shortcuts) shortcuts_.next = again(*timing.shortcuts);
  }
}

int Schedule::failures() const {
  return std::max({first_.failures, companions_.failures, shortcuts_.failures});
}

void Schedule::scan_at_once() {
  first_.next.reset();
  first_.last.reset();
}

void Schedule::start_over() {
  for (Line* const line : {&first_, &companions_, &shortcuts_}) {
    line->next.reset();
    line->last.reset();
  }
}

}  // namespace ff::supervisor
