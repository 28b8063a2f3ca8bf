#include "reconcile/group_plan.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ff::reconcile {

GroupPlan::GroupPlan(pg::Connection& connection, const Reconciler& reconciler, const Partitions& partitions)
    : connection_(connection), partitions_(partitions), statements_(reconciler, partitions) {}

GroupPlan::~GroupPlan() {
  try {
    for (const auto* sql : {&statements_.page, &statements_.rest, &statements_.still_due, &statements_.act,
                            &statements_.forbidden})
      connection_.forget(*sql);
  } catch (const std::exception& error) {
    spdlog::warn("a prepared statement was not given back, the connection is discarded: {}", error.what());
    connection_.close();
  }
}

bool GroupPlan::covers(const Partitions& partitions) const {
  return std::all_of(partitions.begin(), partitions.end(), [this](PartitionKey each) {
    return std::find(partitions_.begin(), partitions_.end(), each) != partitions_.end();
  });
}

}  // namespace ff::reconcile
