#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.hpp"

namespace ff::daemon::page {

/// What one reconciler did in the last quarter of an hour, in steps of 15 s. Takes 1 KB, however much happens.
/// Not thread-safe.
class History {
 public:
  static constexpr std::size_t kSteps = 60;
  static constexpr Milliseconds kStep{15'000};

  struct Step {
    std::int64_t moved = 0;  ///< rows
    Milliseconds late{0};    ///< the latest row that was moved or left over
  };
  using Steps = std::array<Step, kSteps>;

  /// A moment before the last one counts as the last one.
  void add(SteadyTime at, std::int64_t moved, Milliseconds late);
  /// Oldest first; the last is the one under way.
  Steps until(SteadyTime now) const;

 private:
  Steps ring_{};
  std::int64_t newest_ = 0;  // which step since the clock's beginning; its place is the remainder by kSteps
};

}  // namespace ff::daemon::page
