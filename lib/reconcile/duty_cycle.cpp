#include "reconcile/duty_cycle.hpp"

namespace ff::reconcile {

void DutyCycle::ran(SteadyTime ended, SteadyTime::duration took) {
  const auto usual = std::min(took, last_run_.value_or(SteadyTime::duration{}));
  last_run_ = took;
  rests_until_ = ended + std::min<SteadyTime::duration>(rest_to_run_ * usual, longest_);
}

bool DutyCycle::may_rest_longer_than(SteadyTime::duration rest) const {
  return !last_run_ || rest_to_run_ * *last_run_ > rest;
}

}  // namespace ff::reconcile
