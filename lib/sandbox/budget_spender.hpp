#pragma once

#include <random>

#include "sandbox/workload.hpp"

namespace ff::sandbox {

/// Makes a few budgets with short periods and spends from them until their limit is breached, over and over.
/// Used by the thread that made it.
class BudgetSpender {
 public:
  BudgetSpender(Workload& workload, pg::Connection& connection)
      : workload_(workload), connection_(connection) {}

  /// Until the workload finishes. After that each budget is to be reset once more, and not again.
  void live();

 private:
  struct Budget {
    std::string id;
    PartitionKey partition;
    Milliseconds period;
  };

  static const std::vector<Budget>& budgets();
  void make(const Budget& budget);
  void spend(const Budget& budget, const char* dimension, std::int64_t amount);
  void end(const Budget& budget);

  Workload& workload_;
  pg::Connection& connection_;
  std::mt19937_64 generator_{std::random_device{}()};
};

}  // namespace ff::sandbox
