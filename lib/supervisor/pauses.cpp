#include "supervisor/pauses.hpp"

#include <algorithm>

namespace ff::supervisor {

bool Pauses::learn(std::vector<pause::Pause> in_force, UnixMillis database_time, SteadyTime began) {
  std::vector<Known> known;
  for (pause::Pause& pause : in_force) {
    std::optional<SteadyTime> end;
    if (pause.until) end = clock_.now() + std::min(*pause.until - database_time, pause::kLongest);
    known.push_back({std::move(pause), end});
  }
  const std::lock_guard lock(mutex_);
  const bool were_held = wants_reading();
  known_ = std::move(known);
  read_at_ = began;
  failures_ = 0;
  goes_on_ = false;
  return were_held;
}

bool Pauses::could_not_read(bool for_good) {
  const std::lock_guard lock(mutex_);
  ++failures_;
  if (goes_on_ || (!for_good && failures_ < kFailuresHeldFor)) return false;
  goes_on_ = true;
  return true;
}

bool Pauses::wants_reading() const {
  return !goes_on_ && (!read_at_ || clock_.now() - *read_at_ > kReadingCounts);
}

std::vector<pause::Pause> Pauses::in_force() const {
  const std::lock_guard lock(mutex_);
  std::vector<pause::Pause> all;
  for (const Known& known : known_)
    if (!is_over(known)) all.push_back(known.pause);
  return all;
}

bool Pauses::hold(std::string_view reconciler) const {
  const std::lock_guard lock(mutex_);
  return wants_reading() || std::ranges::any_of(known_, [&](const Known& known) {
           return known.pause.covers(reconciler) && !is_over(known);
         });
}

}  // namespace ff::supervisor
