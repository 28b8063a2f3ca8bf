#include "sandbox/budget_spender.hpp"

namespace ff::sandbox {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 150ms;
constexpr std::int64_t kLimit = 100;
constexpr const char* kDimensions[] = {"tokens", "cost"};

const std::string kNowMs = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

// In every statement: $1 partition key, $2 budget.

// $3 period in ms
const std::string kMake = R"sql(
  INSERT INTO ff_budget_policy
      (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, scope_type, enforcement_mode,
       next_reset_at_ms)
  SELECT $1, $2, jsonb_build_object('reset_interval_ms', $3), now_ms, now_ms, 'lane', 'advisory', now_ms + $3
    FROM (SELECT )sql" + kNowMs +
                          " AS now_ms) AS clock";

// $3 dimension, $4 amount
const std::string kSpend = R"sql(
  INSERT INTO ff_budget_usage AS u (partition_key, budget_id, dimensions_key, current_value, updated_at_ms)
  VALUES ($1, $2, $3, $4, )sql" +
                           kNowMs + R"sql()
  ON CONFLICT (partition_key, budget_id, dimensions_key)
  DO UPDATE SET current_value = u.current_value + excluded.current_value, updated_at_ms = excluded.updated_at_ms
  RETURNING current_value)sql";

// $3 dimension
const std::string kBreach =
    "UPDATE ff_budget_policy SET breach_count = breach_count + 1, last_breach_at_ms = " + kNowMs +
    R"sql(, last_breach_dim = $3
   WHERE partition_key = $1 AND budget_id = $2)sql";

constexpr std::string_view kEnd = R"sql(
  UPDATE ff_budget_policy SET policy_json = policy_json - 'reset_interval_ms'
   WHERE partition_key = $1 AND budget_id = $2)sql";

}  // namespace

const std::vector<BudgetSpender::Budget>& BudgetSpender::budgets() {
  static const std::vector<Budget> all = {
      {"demo-day", {0}, 1500ms}, {"demo-week", {1}, 2500ms}, {"demo-month", {2}, 4000ms}};
  return all;
}

void BudgetSpender::live() {
  for (const Budget& budget : budgets()) make(budget);
  std::uniform_int_distribution<std::int64_t> amount(1, 8);
  while (!workload_.finishing_) {
    for (const Budget& budget : budgets())
      for (const char* dimension : kDimensions) spend(budget, dimension, amount(generator_));
    if (!workload_.pause(kBetween)) return;
  }
  for (const Budget& budget : budgets()) end(budget);
}

void BudgetSpender::make(const Budget& budget) {
  connection_.execute(kMake,
                      pg::Params::of(budget.partition, budget.id, std::int64_t{budget.period.count()}));
}

void BudgetSpender::spend(const Budget& budget, const char* dimension, std::int64_t amount) {
  const auto its = [&] { return pg::Params::of(budget.partition, budget.id, dimension); };
  pg::Transaction transaction(connection_);
  const auto before_and_this = transaction.execute(kSpend, its().add(amount)).one().get<std::int64_t>(0);
  const bool breaches = before_and_this > kLimit && before_and_this - amount <= kLimit;
  if (breaches) transaction.execute(kBreach, its());
  transaction.commit();
  if (breaches)
    workload_.tell("the budget " + budget.id + " ran out of " + dimension + " until its next reset");
}

void BudgetSpender::end(const Budget& budget) {
  connection_.execute(kEnd, pg::Params::of(budget.partition, budget.id));
}

}  // namespace ff::sandbox
