// budget_reset: a budget whose period is over starts from zero.
//
// Rows     ff_budget_policy with next_reset_at_ms reached. Budgets have a partition space of their own and
//          belong to no execution, so that the scanner filter does not apply.
// Changes  every ff_budget_usage row of the budget (zero), its ledger by execution (deleted: a later release gives
//          back nothing of the old period), the policy (last breach forgotten; the next
//          reset one interval from now, or none where policy_json.reset_interval_ms is no positive whole
//          number). Of a ledger of more than 10,000 rows so many go a time, and the rest with the reset.
// Others   Workers count usage up in the same rows, the policy locked first, and give it back, with only the ledger
//          locked first: a budget of which any row is held, or whose usage was written since this statement began,
//          waits for the next tick. Who spends takes the policy's lock in turns, and a busy budget is never free: so the
//          policy is waited for, with no other row locked, as FlowFabric's own reset waits for it.
// Repeat   next_reset_at_ms is in the future or null afterwards.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT b.partition_key, b.budget_id, b.next_reset_at_ms AS due_at_ms
    FROM {schema}.ff_budget_policy b
   WHERE {in_partitions:b} AND b.next_reset_at_ms IS NOT NULL)sql";

// Of budgets whose ledger is too long a part of it goes first. Until they are reset, their usage is only higher than what
// is in the ledger. Eighteen digits always fit a bigint, even when the time is added to them.
constexpr std::string_view kAct = R"sql(
policy AS MATERIALIZED (
  SELECT b.partition_key, b.budget_id, b.next_reset_at_ms AS due_at_ms, clock.now_ms,
         CASE WHEN jsonb_typeof(b.policy_json->'reset_interval_ms') = 'number'
               AND b.policy_json->>'reset_interval_ms' ~ '^[1-9][0-9]{0,17}$'
              THEN clock.now_ms + (b.policy_json->>'reset_interval_ms')::bigint END AS next_reset_at_ms
    FROM clock, key
    JOIN {schema}.ff_budget_policy b ON b.partition_key = key.partition_key AND b.budget_id = key.budget_id
   WHERE {in_partitions:b} AND b.next_reset_at_ms + 0 <= clock.due_ms
     AND {in_sight:ff_budget_usage, ff_budget_usage_by_exec}
     FOR NO KEY UPDATE OF b SKIP LOCKED
),
long AS MATERIALIZED (
  SELECT p.*
    FROM policy p
   WHERE EXISTS (SELECT FROM {schema}.ff_budget_usage_by_exec l
                  WHERE {in_partitions:l} AND l.partition_key = p.partition_key AND l.budget_id = p.budget_id
                 OFFSET {slice})
),
first AS MATERIALIZED (
  SELECT l.*
    FROM long p
   CROSS JOIN LATERAL (SELECT i.partition_key, i.budget_id, i.execution_id, i.dimensions_key
                         FROM {schema}.ff_budget_usage_by_exec i
                        WHERE {in_partitions:i} AND i.partition_key = p.partition_key AND i.budget_id = p.budget_id
                        LIMIT {slice}
                          FOR UPDATE OF i SKIP LOCKED) l
),
shortened AS (
  DELETE FROM {schema}.ff_budget_usage_by_exec l
   USING first f
   WHERE {in_partitions:l} AND l.partition_key = f.partition_key AND l.budget_id = f.budget_id
     AND l.execution_id = f.execution_id AND l.dimensions_key = f.dimensions_key
),
short AS MATERIALIZED (
  SELECT * FROM policy WHERE (partition_key, budget_id) NOT IN (SELECT partition_key, budget_id FROM long)
),
usage AS MATERIALIZED (
  SELECT u.partition_key, u.budget_id, u.dimensions_key
    FROM short p
    JOIN {schema}.ff_budget_usage u ON u.partition_key = p.partition_key AND u.budget_id = p.budget_id
    -- As this statement has seen it from its beginning: what was spent since it could not see in the ledger.
    JOIN {schema}.ff_budget_usage seen ON seen.partition_key = u.partition_key AND seen.budget_id = u.budget_id
                                      AND seen.dimensions_key = u.dimensions_key AND seen.xmin = u.xmin
   WHERE {in_partitions:u} AND {in_partitions:seen}
     FOR NO KEY UPDATE OF u SKIP LOCKED
),
ledger AS MATERIALIZED (
  SELECT l.partition_key, l.budget_id, l.execution_id, l.dimensions_key
    FROM short p
    JOIN {schema}.ff_budget_usage_by_exec l ON l.partition_key = p.partition_key AND l.budget_id = p.budget_id
   WHERE {in_partitions:l}
     FOR UPDATE OF l SKIP LOCKED
),
withheld AS MATERIALIZED (
  (SELECT u.partition_key, u.budget_id, u.dimensions_key
     FROM short p
     JOIN {schema}.ff_budget_usage u ON u.partition_key = p.partition_key AND u.budget_id = p.budget_id
    WHERE {in_partitions:u}
   EXCEPT
   SELECT partition_key, budget_id, dimensions_key FROM usage)
   UNION ALL
  SELECT partition_key, budget_id, dimensions_key
    FROM (SELECT l.partition_key, l.budget_id, l.execution_id, l.dimensions_key
            FROM short p
            JOIN {schema}.ff_budget_usage_by_exec l ON l.partition_key = p.partition_key AND l.budget_id = p.budget_id
           WHERE {in_partitions:l}
          EXCEPT
          SELECT partition_key, budget_id, execution_id, dimensions_key FROM ledger) spent
),
over AS MATERIALIZED (
  SELECT p.*
    FROM short p
   WHERE (p.partition_key, p.budget_id) NOT IN (SELECT partition_key, budget_id FROM withheld)
),
zeroed AS (
  UPDATE {schema}.ff_budget_usage u
     SET current_value = 0, last_reset_at_ms = o.now_ms, updated_at_ms = o.now_ms
    FROM over o
   WHERE {in_partitions:u} AND u.partition_key = o.partition_key AND u.budget_id = o.budget_id
),
forgotten AS (
  DELETE FROM {schema}.ff_budget_usage_by_exec l
   USING over o
   WHERE {in_partitions:l} AND l.partition_key = o.partition_key AND l.budget_id = o.budget_id
),
restarted AS (
  UPDATE {schema}.ff_budget_policy b
     SET last_breach_at_ms = NULL, last_breach_dim = NULL, updated_at_ms = o.now_ms,
         next_reset_at_ms = o.next_reset_at_ms
    FROM over o
   WHERE {in_partitions:b} AND b.partition_key = o.partition_key AND b.budget_id = o.budget_id
),
moved AS (
  SELECT partition_key, budget_id, due_at_ms, 'reset' AS outcome FROM over
   UNION ALL
  SELECT partition_key, budget_id, due_at_ms, 'shortened' FROM long
   WHERE (partition_key, budget_id) IN (SELECT partition_key, budget_id FROM first)
))sql";

}  // namespace

Reconciler budget_reset() {
  using namespace std::chrono_literals;
  return {.name = "budget_reset",
          .summary = "Sets the usage of a budget whose period is over to zero.",
          .outcomes = {"reset", {"shortened", Effect::moved, {}, /*it_goes_on=*/true}},
          .key = {{"budget_id", "text"}},
          .partition_count = "SELECT num_budget_partitions FROM {schema}.ff_partition_config",
          .scan = kScan,
          .act = kAct,
          .queues_in = "ff_budget_policy",
          .fragments = {{"slice", "10000"}},
          .privileges = {{"ff_budget_policy", "SELECT, UPDATE"},
                         {"ff_budget_usage", "SELECT, UPDATE"},
                         {"ff_budget_usage_by_exec", "SELECT, UPDATE, DELETE"},
                         {"ff_partition_config", "SELECT"}},
          .leads = {{"ff_budget_policy", "ff_budget_policy_reset_due_idx"}},
          .interval = 15s,
          .filterable = false,
          .holdoff = [](const Settings&) { return Milliseconds{0}; }};
}

}  // namespace ff::reconcile
