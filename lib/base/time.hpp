#pragma once

#include <chrono>
#include <cstdint>

namespace ff {

using Milliseconds = std::chrono::milliseconds;

/// A point on the monotonic clock: for waiting, deadlines and measuring, never for what is stored.
using SteadyTime = std::chrono::steady_clock::time_point;

/// A point in Unix time with the resolution of the database's `*_ms` columns.
using UnixMillis = std::chrono::time_point<std::chrono::system_clock, Milliseconds>;

constexpr UnixMillis unix_millis(std::int64_t count) {
  return UnixMillis{Milliseconds{count}};
}
constexpr std::int64_t count(UnixMillis at) {
  return at.time_since_epoch().count();
}
constexpr double seconds(Milliseconds d) {
  return std::chrono::duration<double>(d).count();
}
constexpr double unix_seconds(UnixMillis at) {
  return seconds(at.time_since_epoch());
}

/// Where time comes from. Everything that decides by time takes a Clock, so that tests can move it by hand.
/// What is due in the database is never decided by this clock but by the database's own.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime now() const = 0;
  virtual UnixMillis wall() const = 0;

  /// The machine's clocks. Safe from any thread.
  static const Clock& system();
};

}  // namespace ff
