#include "reconcile/server_clock.hpp"

namespace ff::reconcile {
namespace {

constexpr std::chrono::minutes kGoodFor{1};

}  // namespace

bool ServerClock::learn(const TimeReading& reading) {
  const auto& [sent, answered, said] = reading;
  const std::lock_guard lock(mutex_);
  const SteadyTime::duration took = answered - sent;
  const bool set_forward = best_ && said - best_->said > answered - best_->answered + best_->took + kStep;
  const bool set_back = best_ && said - best_->said < sent - best_->answered - kStep;
  if (!best_ || set_forward || set_back || took <= best_->took || answered - best_->answered >= kGoodFor)
    best_ = Reading{answered, took, said};
  return set_forward;
}

std::optional<UnixMillis> ServerClock::at(SteadyTime moment) const {
  const std::lock_guard lock(mutex_);
  if (!best_) return std::nullopt;
  return best_->said + std::chrono::floor<Milliseconds>(moment - best_->answered);
}

}  // namespace ff::reconcile
