#include "lease/frontier.hpp"

namespace ff::lease {

std::int64_t Frontier::marks_above() const {
  if (waiting_.size() >= kMostMarks) return std::numeric_limits<std::int64_t>::max();
  return waiting_.empty() ? settled_ : waiting_.back().event_id;
}

void Frontier::note(const Sighting& sighting, SteadyTime at) {
  if (sighting.mark) waiting_.push_back({sighting.newest, *sighting.mark, at});
  while (!waiting_.empty() && waiting_.front().transaction <= sighting.oldest_running) {
    settled_ = waiting_.front().event_id;
    waiting_.pop_front();
  }
}

std::optional<SteadyTime> Frontier::held_since() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().seen_at;
}

}  // namespace ff::lease
