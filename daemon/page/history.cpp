#include "page/history.hpp"

#include <algorithm>

namespace ff::daemon::page {
namespace {

constexpr auto kStepsKept = static_cast<std::int64_t>(History::kSteps);

std::int64_t step_of(SteadyTime at) {
  return at.time_since_epoch() / History::kStep;
}

std::size_t place_of(std::int64_t step) {
  return static_cast<std::size_t>(step % kStepsKept);
}

}  // namespace

void History::add(SteadyTime at, std::int64_t moved, Milliseconds late) {
  const std::int64_t step = std::max(step_of(at), newest_);
  for (std::int64_t passed = std::max(newest_, step - kStepsKept) + 1; passed <= step; ++passed)
    ring_[place_of(passed)] = {};
  newest_ = step;
  Step& its = ring_[place_of(step)];
  its.moved += moved;
  its.late = std::max(its.late, late);
}

History::Steps History::until(SteadyTime now) const {
  Steps steps{};
  const std::int64_t last = std::max(step_of(now), newest_);
  for (std::int64_t back = 0; back < kStepsKept; ++back) {
    const std::int64_t step = last - back;
    if (step <= newest_ && step > newest_ - kStepsKept && step >= 0)
      steps[static_cast<std::size_t>(kStepsKept - 1 - back)] = ring_[place_of(step)];
  }
  return steps;
}

}  // namespace ff::daemon::page
