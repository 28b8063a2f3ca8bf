#pragma once

#include <boost/uuid/random_generator.hpp>
#include <random>

#include "demo/simulation/budget.hpp"
#include "demo/simulation/workload.hpp"

namespace ff::simulation {

/// Makes a few budgets with short periods and spends from them until their limit is breached, over and over.
/// Used by the thread that made it.
class BudgetSpender {
 public:
  BudgetSpender(Workload& workload, pg::Connection& connection)
      : workload_(workload), connection_(connection) {}

  /// Until the workload finishes. After that each budget is to be reset once more, and not again.
  void live();

 private:
  static const std::vector<Budget>& budgets();

  Workload& workload_;
  pg::Connection& connection_;
  boost::uuids::random_generator new_uuid_;
  std::mt19937_64 generator_{std::random_device{}()};
};

}  // namespace ff::simulation
