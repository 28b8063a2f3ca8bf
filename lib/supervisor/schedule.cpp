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
  if (last.consecutive_failures > 0) {
    const auto longest = std::max(interval, last.database_away ? kLongestPauseWhileAway : kLongestPause);
    const auto pause = doubled(interval, last.consecutive_failures - 1, longest);
    return {last.finished + stretched(pause, 0.25 * jitter), true};
  }
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

}  // namespace ff::supervisor
