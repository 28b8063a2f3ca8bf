#include "demo/simulation/budget_spender.hpp"

namespace ff::simulation {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 150ms;
constexpr std::int64_t kLimit = 100;

// $1 partition key, $2 budget. Its owner lets it run out.
constexpr std::string_view kEnd = R"sql(
  UPDATE ff_budget_policy SET policy_json = policy_json - 'reset_interval_ms'
   WHERE partition_key = $1 AND budget_id = $2)sql";

}  // namespace

const std::vector<Budget>& BudgetSpender::budgets() {
  static const std::vector<Budget> all = {{"demo-day", {0}, 1500ms, kLimit},
                                          {"demo-week", {1}, 2500ms, kLimit},
                                          {"demo-month", {2}, 4000ms, kLimit}};
  return all;
}

void BudgetSpender::live() {
  for (const Budget& budget : budgets()) create_budget(connection_, budget, workload_.options_.name);
  std::uniform_int_distribution<std::int64_t> amount(1, 8);
  const Uuid execution = new_uuid_();
  while (!workload_.finishing_) {
    for (const Budget& budget : budgets())
      for (const char* dimension : kBudgetDimensions) {
        if (spend(connection_, budget, execution, dimension, amount(generator_)) == Spent::refused)
          workload_.tell("the budget " + budget.id + " ran out of " + dimension + " until its next reset");
      }
    if (!workload_.pause(kBetween)) return;
  }
  for (const Budget& budget : budgets())
    connection_.execute(kEnd, pg::Params::of(budget.partition, budget.id));
}

}  // namespace ff::simulation
