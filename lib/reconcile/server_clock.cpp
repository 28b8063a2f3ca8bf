#include "reconcile/server_clock.hpp"

namespace ff::reconcile {
namespace {

constexpr std::chrono::minutes kGoodFor{1};

}  // namespace

void ServerClock::learn(SteadyTime sent, SteadyTime answered, UnixMillis said) {
  const std::lock_guard lock(mutex_);
  const bool better = !best_ || answered - sent <= best_->took || answered - best_->answered >= kGoodFor;
  if (better) best_ = Reading{answered, answered - sent, said};
}

std::optional<UnixMillis> ServerClock::at(SteadyTime moment) const {
  const std::lock_guard lock(mutex_);
  if (!best_) return std::nullopt;
  return best_->said + std::chrono::floor<Milliseconds>(moment - best_->answered);
}

}  // namespace ff::reconcile
