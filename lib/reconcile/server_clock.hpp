#pragma once

#include <mutex>
#include <optional>

#include "base/time.hpp"

namespace ff::reconcile {

/// What the database's clock said at some moment between two of ours.
struct TimeReading {
  SteadyTime sent;
  SteadyTime answered;
  UnixMillis said;
};

/// What the database's clock says now, told from what it said before: it is never ahead of it, and behind by
/// no more than the best of the last minute's statements took. Decides when a row is tried, never whether it
/// is due; where the server's clock was set by less than kStep, rows are tried too early or too late for that minute.
/// Safe from any thread.
class ServerClock {
 public:
  /// Further away from ours than so the database's clock does not get by itself.
  static constexpr Milliseconds kStep{5000};

  /// True: the clock was set forward by more than kStep since it was last read.
  bool learn(const TimeReading& reading);

  /// Nothing before anything was learned.
  std::optional<UnixMillis> at(SteadyTime moment) const;

 private:
  struct Reading {
    SteadyTime answered;
    SteadyTime::duration took;
    UnixMillis said;
  };
  mutable std::mutex mutex_;
  std::optional<Reading> best_;  // guarded by mutex_
};

}  // namespace ff::reconcile
