#pragma once

#include <optional>

#include "base/time.hpp"

namespace ff::supervisor {

/// What the schedule has to know of a run that ended.
struct LastRun {
  SteadyTime started;
  SteadyTime finished;
  bool more = false;                   ///< it left due rows that it had not looked at
  int consecutive_failures = 0;        ///< this run included
  std::optional<SteadyTime> next_due;  ///< when the next row that it saw may be taken
};

/// When to run again. A pure function; `jitter` is a random number from 0 to 1 that keeps replicas out of
/// step.
///
///   failed     finished + min(interval * 2^(failures - 1), 30 s), stretched by up to 25% of itself
///   more       finished
///   otherwise  started + interval, stretched by up to 10% of itself, or next_due where that is earlier;
///              never before finished, and for next_due not before finished + a breath as long as the run was
///              (at least 10 ms), so that rows that fall due one by one are taken together
SteadyTime next_run(Milliseconds interval, const LastRun& last, double jitter);

/// How long to wait before a database that was away is tried again: 0.5 s, doubling, to 30 s, each between
/// half and the whole of that. `failures` counts from 1.
Milliseconds reconnect_delay(int failures, double jitter);

}  // namespace ff::supervisor
