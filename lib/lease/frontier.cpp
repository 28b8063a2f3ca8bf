#include "lease/frontier.hpp"

namespace ff::lease {

bool Frontier::is_new(std::int64_t newest) const {
  const Fingerprint& last = waiting_.empty() ? settled_ : waiting_.back().event;
  return newest > last.event_id && waiting_.size() < kMostWaiting;
}

Writers Frontier::awaited() const {
  Writers all;
  for (const Waiting& each : waiting_) all.insert(each.writers.begin(), each.writers.end());
  return all;
}

void Frontier::note(const Sighting& sighting, SteadyTime at) {
  if (!sighting.writers) return;
  const Writers& writers = *sighting.writers;
  for (Waiting& each : waiting_)
    std::erase_if(each.writers, [&](const auto& writer) { return writers.count(writer) == 0; });
  if (is_new(sighting.newest.event_id)) waiting_.push_back({sighting.newest, writers, at});
  while (!waiting_.empty() && waiting_.front().writers.empty()) {
    settled_ = waiting_.front().event;
    waiting_.pop_front();
  }
}

std::optional<SteadyTime> Frontier::held_since() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().seen_at;
}

Writers Frontier::in_the_way() const {
  return waiting_.empty() ? Writers{} : waiting_.front().writers;
}

}  // namespace ff::lease
