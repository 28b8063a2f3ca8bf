#include "demo/simulation/plans.hpp"

namespace ff::simulation {

void Plans::note(const std::function<std::map<Uuid, Plan>()>& make) {
  const std::lock_guard lock(mutex_);
  plans_.merge(make());
}

std::optional<Plan> Plans::take(const Uuid& execution) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(execution);
  if (found == plans_.end()) return std::nullopt;
  const Plan plan = found->second;
  using Kind = Plan::Kind;
  if (plan.kind != Kind::hang && plan.kind != Kind::crash && plan.kind != Kind::fall_silent)
    plans_.erase(found);
  return plan;
}

}  // namespace ff::simulation
