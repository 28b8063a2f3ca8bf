#include "audit/check.hpp"

namespace ff::audit {
namespace {

constexpr std::string_view kBudgets = R"sql(
SELECT p.problem, b.partition_key, format('budget %s (partition %s)', b.budget_id, b.partition_key) AS key,
       b.xmin::text AS seen,
       format('next_reset_at_ms %s, reset_interval_ms %s', coalesce(b.next_reset_at_ms::text, 'none'), i.interval_ms)
         AS what,
       b.budget_id, i.interval_ms
  FROM {schema}.ff_budget_policy b
 CROSS JOIN LATERAL (SELECT {whole_number:b.policy_json->'reset_interval_ms'} AS interval_ms) i
 CROSS JOIN LATERAL (
   SELECT CASE WHEN b.next_reset_at_ms < {long_ago} THEN 'budget_reset_overdue'
               WHEN b.next_reset_at_ms IS NULL AND i.interval_ms > 0 THEN 'budget_never_reset' END AS problem
 ) p
 WHERE {in_partitions:b} AND p.problem IS NOT NULL)sql";

// Usage that is reported without an execution has no ledger: so the usage may be above, but never below it.
constexpr std::string_view kUsage = R"sql(
SELECT p.problem, u.partition_key, format('budget %s (partition %s)', u.budget_id, u.partition_key) AS key,
       concat_ws(',', u.xmin, l.seen) AS seen,
       format('%s: %s used, %s in the ledger of executions', u.dimensions_key, u.current_value, coalesce(l.total, 0)) AS what,
       u.budget_id, u.dimensions_key, coalesce(l.total, 0) AS total, u.last_reset_at_ms
  FROM {schema}.ff_budget_usage u
  LEFT JOIN LATERAL (SELECT sum(i.delta_total) AS total, min(i.updated_at_ms) AS oldest,
                            string_agg(i.xmin::text, ',' ORDER BY i.execution_id) AS seen
                       FROM {schema}.ff_budget_usage_by_exec i
                      WHERE {in_partitions:i} AND i.partition_key = u.partition_key AND i.budget_id = u.budget_id
                        AND i.dimensions_key = u.dimensions_key
                     OFFSET 0) l ON true
 CROSS JOIN LATERAL (
   SELECT CASE WHEN u.current_value < 0 THEN 'usage_below_nought'
               WHEN l.oldest < u.last_reset_at_ms THEN 'ledger_of_before'
               WHEN l.total > u.current_value THEN 'usage_below_ledger' END AS problem
 ) p
 WHERE {in_partitions:u} AND p.problem IS NOT NULL)sql";

// An admission counts until it is deleted, a minute after its window, and the count is corrected twice a minute; an
// execution that is admitted anew counts twice over one guard.
constexpr std::string_view kQuotas = R"sql(
SELECT p.problem, q.partition_key, format('quota %s (partition %s)', q.quota_policy_id, q.partition_key) AS key,
       q.xmin::text AS seen,
       format('active_concurrency %s, %s admitted', q.active_concurrency, a.admitted) AS what, q.quota_policy_id, a.admitted
  FROM {schema}.ff_quota_policy q
 CROSS JOIN LATERAL (SELECT count(*) AS admitted
                       FROM {schema}.ff_quota_admitted i
                      WHERE {in_partitions:i} AND i.partition_key = q.partition_key
                        AND i.quota_policy_id = q.quota_policy_id AND i.expires_at_ms >= {long_ago} - 60000
                     OFFSET 0) a
 CROSS JOIN LATERAL (
   SELECT CASE WHEN q.active_concurrency < 0 THEN 'quota_below_nought'
               WHEN q.active_concurrency > a.admitted AND q.updated_at_ms < {long_ago} THEN 'quota_above_admitted' END AS problem
 ) p
 WHERE {in_partitions:q} AND p.problem IS NOT NULL)sql";

constexpr std::string_view kWorkers = R"sql(
SELECT 'worker_overdue' AS problem, w.partition_key, 'worker ' || w.worker_instance_id AS key, w.xmin::text AS seen,
       format('namespace %s, last_heartbeat_ms %s, liveness_ttl_ms %s', w.namespace, w.last_heartbeat_ms,
              w.liveness_ttl_ms) AS what
  FROM {schema}.ff_worker_registry w
 WHERE {in_partitions:w} AND w.last_heartbeat_ms::numeric + w.liveness_ttl_ms < {long_ago} - 60000)sql";

constexpr std::string_view kOfUsage =
    "WHERE partition_key = {$partition_key} AND budget_id = '{$budget_id}' AND dimensions_key = "
    "'{$dimensions_key}'";

}  // namespace

std::vector<Sweep> sweeps_of_counters() {
  const std::string of_usage(kOfUsage);
  const std::string of_quota =
      "WHERE partition_key = {$partition_key} AND quota_policy_id = '{$quota_policy_id}';";
  return {
      {.space = Space::budgets,
       .of_executions = false,
       .sql = std::string(kBudgets),
       .checks =
           {{"budget_reset_overdue",
             "its period was over more than a minute ago, and its usage was not reset",
             "ff-reconcilerd tick budget_reset"},
            {"budget_never_reset", "it has a period, but no next reset: what is used up stays so for ever",
             "UPDATE ff_budget_policy SET next_reset_at_ms = floor(extract(epoch FROM clock_timestamp()) * "
             "1000)::bigint + {$interval_ms} WHERE partition_key = {$partition_key} AND budget_id = "
             "'{$budget_id}';"}}},
      {.space = Space::budgets,
       .of_executions = false,
       .sql = std::string(kUsage),
       .checks = {{"usage_below_nought",
                   "less than nothing is used of it: more is let through than its limit",
                   "UPDATE ff_budget_usage SET current_value = {$total} " + of_usage + ";"},
                  {"ledger_of_before",
                   "what executions spent before its last reset stands in their ledger still, and a release "
                   "would give it "
                   "back",
                   "DELETE FROM ff_budget_usage_by_exec " + of_usage +
                       " AND updated_at_ms < {$last_reset_at_ms};"},
                  {"usage_below_ledger",
                   "less is counted as used than its executions have spent: it lets too much through",
                   "UPDATE ff_budget_usage SET current_value = {$total} " + of_usage + ";"}}},
      {.space = Space::quotas,
       .of_executions = false,
       .sql = std::string(kQuotas),
       .checks = {{"quota_below_nought",
                   "fewer than nobody are at work by its count: more are admitted than its limit",
                   "UPDATE ff_quota_policy SET active_concurrency = {$admitted} " + of_quota},
                  {"quota_above_admitted",
                   "more are at work by its count than are admitted, as FlowFabric never counts down who "
                   "ends: in the end "
                   "nobody is admitted any more",
                   "ff-reconcilerd tick quota_concurrency"}}},
      {.space = Space::workers,
       .of_executions = false,
       .sql = std::string(kWorkers),
       .checks = {{"worker_overdue",
                   "it has been silent for more than two minutes beyond its time, and is registered still",
                   "ff-reconcilerd tick worker_registry_ttl"}}}};
}

}  // namespace ff::audit
