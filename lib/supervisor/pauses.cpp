#include "supervisor/pauses.hpp"

#include <algorithm>

namespace ff::supervisor {

void Pauses::learn(std::vector<pause::Pause> in_force, UnixMillis database_time) {
  std::vector<Known> known;
  for (pause::Pause& pause : in_force) {
    std::optional<SteadyTime> end;
    if (pause.until) end = clock_.now() + std::min(*pause.until - database_time, pause::kLongest);
    known.push_back({std::move(pause), end});
  }
  const std::lock_guard lock(mutex_);
  known_ = std::move(known);
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
  return std::ranges::any_of(
      known_, [&](const Known& known) { return known.pause.covers(reconciler) && !is_over(known); });
}

}  // namespace ff::supervisor
