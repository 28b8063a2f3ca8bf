#include "supervisor/schedule.hpp"

#include <algorithm>

namespace ff::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kLongestPause = 30s;
constexpr Milliseconds kBreath = 10ms;

Milliseconds doubled(Milliseconds first, int times, Milliseconds most) {
  Milliseconds value = first;
  for (int i = 0; i < times && value < most; ++i) value *= 2;
  return std::min(value, most);
}

Milliseconds stretched(Milliseconds duration, double share) {
  return std::chrono::duration_cast<Milliseconds>(duration * (1.0 + share));
}

}  // namespace

SteadyTime next_run(Milliseconds interval, const LastRun& last, double jitter) {
  if (last.consecutive_failures > 0) {
    const auto pause = doubled(interval, last.consecutive_failures - 1, std::max(interval, kLongestPause));
    return last.finished + stretched(pause, 0.25 * jitter);
  }
  if (last.more) return last.finished;
  SteadyTime next = last.started + stretched(interval, 0.1 * jitter);
  if (last.next_due) {
    const SteadyTime rested =
        last.finished + std::max<SteadyTime::duration>(last.finished - last.started, kBreath);
    next = std::min(next, std::max(*last.next_due, rested));
  }
  return std::max(next, last.finished);
}

Milliseconds reconnect_delay(int failures, double jitter) {
  const Milliseconds longest = doubled(500ms, failures - 1, kLongestPause);
  return std::chrono::duration_cast<Milliseconds>(longest * (0.5 + 0.5 * jitter));
}

}  // namespace ff::supervisor
