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
  if (plan.kind != Plan::Kind::hang && plan.kind != Plan::Kind::crash) plans_.erase(found);
  return plan;
}

}  // namespace ff::simulation
