#pragma once

#include <string>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/connection.hpp"

/// Budgets as FlowFabric's clients make and use them. They live in a partition space of their own.
namespace ff::simulation {

struct Budget {
  std::string id;
  PartitionKey partition;
  Milliseconds period;
  std::int64_t limit;  ///< of each dimension: `tokens` and `cost`
};

inline constexpr const char* kBudgetDimensions[] = {"tokens", "cost"};

void create_budget(pg::Connection& connection, const Budget& budget, const std::string& lane);

enum class Spent { fully, refused, refused_again };
/// Spends for an execution, unless that would exceed the limit. Refused: the first since the last reset. Throws
/// pg::Error.
Spent spend(pg::Connection& connection, const Budget& budget, const Uuid& execution,
            const std::string& dimension, std::int64_t amount);

}  // namespace ff::simulation
