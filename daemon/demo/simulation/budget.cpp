#include "demo/simulation/budget.hpp"

#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition key, $2 budget.

// $3 period in ms, $4 limit, $5 lane. One that is there stays as it is.
const std::string kCreate = R"sql(
  INSERT INTO ff_budget_policy
      (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, scope_type, scope_id,
       enforcement_mode, next_reset_at_ms)
  SELECT $1, $2,
         jsonb_build_object('hard_limits', jsonb_build_object('tokens', $4, 'cost', $4),
                            'soft_limits', jsonb_build_object('tokens', 0, 'cost', 0),
                            'reset_interval_ms', $3, 'on_hard_limit', 'fail', 'on_soft_limit', 'warn'),
         now_ms, now_ms, 'lane', $5, 'strict', now_ms + $3
    FROM (SELECT )sql" + kNowMs +
                            R"sql( AS now_ms) AS clock
  ON CONFLICT DO NOTHING)sql";

// Whoever spends takes turns; says whether it has been exceeded since its last reset.
constexpr std::string_view kLock = R"sql(
  SELECT last_breach_at_ms IS NOT NULL FROM ff_budget_policy
   WHERE partition_key = $1 AND budget_id = $2
     FOR NO KEY UPDATE)sql";

// $3 dimension, $4 amount, $5 limit. Makes the row where it is missing, and leaves it where that would exceed.
const std::string kUsage = R"sql(
  INSERT INTO ff_budget_usage AS u (partition_key, budget_id, dimensions_key, current_value, updated_at_ms)
  SELECT $1, $2, $3, CASE WHEN $4 <= $5 THEN $4 ELSE 0 END, )sql" +
                           kNowMs + R"sql(
  ON CONFLICT (partition_key, budget_id, dimensions_key) DO UPDATE
     SET current_value = u.current_value + $4, updated_at_ms = excluded.updated_at_ms
   WHERE u.current_value + $4 <= $5
  RETURNING current_value >= $4)sql";

// $3 dimension
const std::string kBreach = R"sql(
  UPDATE ff_budget_policy
     SET breach_count = breach_count + 1, last_breach_at_ms = now_ms, last_breach_dim = $3, updated_at_ms = now_ms
    FROM (SELECT )sql" + kNowMs +
                            R"sql( AS now_ms) AS clock
   WHERE partition_key = $1 AND budget_id = $2)sql";

// $3 dimension, $4 amount, $5 execution
const std::string kLedger = R"sql(
  INSERT INTO ff_budget_usage_by_exec AS l
      (partition_key, budget_id, execution_id, dimensions_key, delta_total, updated_at_ms)
  VALUES ($1, $2, $5, $3, $4, )sql" +
                            kNowMs + R"sql()
  ON CONFLICT (partition_key, budget_id, execution_id, dimensions_key) DO UPDATE
     SET delta_total = l.delta_total + excluded.delta_total, updated_at_ms = excluded.updated_at_ms)sql";

}  // namespace

void create_budget(pg::Connection& connection, const Budget& budget, const std::string& lane) {
  connection.execute(kCreate,
                     pg::Params::of(budget.partition, budget.id, in_ms(budget.period), budget.limit, lane));
}

Spent spend(pg::Connection& connection, const Budget& budget, const Uuid& execution,
            const std::string& dimension, std::int64_t amount) {
  const auto its = [&] { return pg::Params::of(budget.partition, budget.id); };
  pg::Transaction transaction(connection);
  const bool exceeded_before = transaction.execute(kLock, its()).one().get<bool>(0);
  const pg::Result used = transaction.execute(kUsage, its().add(dimension).add(amount).add(budget.limit));
  const bool fits = !used.empty() && used.one().get<bool>(0);
  if (fits)
    transaction.execute(kLedger, its().add(dimension).add(amount).add(execution));
  else
    transaction.execute(kBreach, its().add(dimension));
  transaction.commit();
  if (fits) return Spent::fully;
  return exceeded_before ? Spent::refused_again : Spent::refused;
}

}  // namespace ff::simulation
