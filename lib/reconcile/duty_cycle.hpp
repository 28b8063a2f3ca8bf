#pragma once

#include <algorithm>
#include <optional>

#include "base/time.hpp"

namespace ff::reconcile {

/// Keeps what is done again and again to a share of the time: after each run comes a rest, the longer the longer the run
/// took. Not thread-safe.
class DutyCycle {
 public:
  /// A rest is so many times as long as a run, but `longest` at most.
  DutyCycle(int rest_to_run, Milliseconds longest) : rest_to_run_(rest_to_run), longest_(longest) {}

  bool rests(SteadyTime now) const { return now < rests_until_; }

  /// A run has ended. One that was long by itself may have had something to do once, as a session that plans has: the rest
  /// goes by the shorter one of the last two, and there is none after the first.
  void ran(SteadyTime ended, SteadyTime::duration took);

  /// The rest ends then, if it would not have ended sooner.
  void rest_at_most_until(SteadyTime end) { rests_until_ = std::min(rests_until_, end); }
  void end_rest() { rests_until_ = {}; }

  /// Whether the rest after another run like the last one would be longer than that, or nobody can tell yet.
  bool may_rest_longer_than(SteadyTime::duration rest) const;

 private:
  int rest_to_run_;
  Milliseconds longest_;
  std::optional<SteadyTime::duration> last_run_;
  SteadyTime rests_until_{};
};

}  // namespace ff::reconcile
