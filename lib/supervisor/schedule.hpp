#pragma once

#include <optional>

#include "base/time.hpp"

namespace ff::supervisor {

/// What the schedule has to know of a run that ended.
struct LastRun {
  SteadyTime started;
  SteadyTime finished;
  bool more = false;                   ///< it left due rows that it had not read
  Milliseconds wait{0};                ///< with `more`: not to be tried before
  int consecutive_failures = 0;        ///< this run included
  bool database_away = false;          ///< it failed because the connection broke, or was to a standby
  std::optional<SteadyTime> next_due;  ///< when the next row that has been seen coming may be taken
  SteadyTime next_scan{};              ///< as next_scan() said after the last run that scanned
  std::optional<SteadyTime> companions_scan{};  ///< the same for the companions, where there are any
};

struct NextRun {
  SteadyTime at;
  bool scan;  ///< scan for rows; otherwise take those that are upcoming
  friend bool operator==(const NextRun&, const NextRun&) = default;
};

/// When to scan again after a scan that began at `scanned`: an interval later, stretched by up to 10% of
/// itself, or where it did not see everything that far ahead, at `known_until`. Like next_run a pure function;
/// `jitter` is a random number from 0 to 1 that keeps replicas out of step.
SteadyTime next_scan(Milliseconds interval, SteadyTime scanned, std::optional<SteadyTime> known_until,
                     double jitter);

/// Not to scan again before, after a scan that found nothing: four times as long as it took later, at most an
/// interval. One that reads through a large backlog of which nothing is its own leaves the server to
/// those who work it off.
SteadyTime rested_from_scan(Milliseconds interval, SteadyTime started, SteadyTime finished);

/// How long an interval may become while it is certain that nothing has changed, in case it is not: ten times
/// as long, at most half a minute.
Milliseconds safety_interval(Milliseconds interval);

/// When to run again.
///
///   failed     finished + min(interval * 2^(failures - 1), 30 s), stretched by up to 25% of itself: a scan; where the
///              database was away, 3 s instead of 30 s: whoever watches it says when it is back
///   more       finished + wait: a scan
///   otherwise  the first of next_due, companions_scan and next_scan; not before finished, and where the
///              interval is not over yet, not before finished + a breath as long as the run was (at least
///              2 ms), so that rows that fall due one by one are taken together
NextRun next_run(Milliseconds interval, const LastRun& last, double jitter);

/// How long to wait before a database that was away is tried again: 0.5 s, doubling, each between half and the whole of
/// that. To 1 s, however long the outage: twice as often as it is asked while all is well, so that nobody waits for more
/// than that once it is back. To 8 s where it has `refused` who we are, which fills its log and does not pass by itself.
/// `failures` counts from 1.
Milliseconds reconnect_delay(int failures, bool refused, double jitter);

}  // namespace ff::supervisor
