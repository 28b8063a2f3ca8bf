#include "reconcile/group_plan.hpp"

#include <algorithm>

namespace ff::reconcile {

GroupPlan::GroupPlan(const Reconciler& reconciler, const Partitions& partitions)
    : partitions_(partitions), statements_(reconciler, partitions) {}

bool GroupPlan::covers(const Partitions& partitions) const {
  return std::all_of(partitions.begin(), partitions.end(), [this](PartitionKey each) {
    return std::find(partitions_.begin(), partitions_.end(), each) != partitions_.end();
  });
}

}  // namespace ff::reconcile
