// quota_window: what a quota remembers of admissions is deleted once nobody has been admitted for long. Off by default.
//
// Rows     ff_quota_window of policies whose newest row is older than the length of the window and a minute. An admission
//          sweeps its own policy's rows, so only idle policies keep theirs, and only those are taken. The length is the
//          caller's: the greatest of a day, what the policy says and what its guards say, for a guard may be gone.
//          Policies are found by skipping through the primary key. Quotas have a partition space of their own: no filter.
// Changes  the rows are deleted.
// Others   An admission that wakes the policy just then sweeps the same rows, and may be refused once (40001). What it
//          adds is not among ours. A row that it holds is left.
// Repeat   The rows are gone afterwards.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT w.partition_key, w.quota_policy_id, w.dimension, w.admitted_at_ms, w.execution_id,
         {lately} AS due_at_ms
    FROM (
      WITH RECURSIVE policy AS (
        SELECT p.partition_key, (SELECT w.quota_policy_id
                                   FROM {schema}.ff_quota_window w
                                  WHERE {in_partitions:w} AND w.partition_key = p.partition_key
                                  ORDER BY w.quota_policy_id
                                  LIMIT 1) AS quota_policy_id
          FROM unnest({partitions}) AS p(partition_key)
         UNION ALL
        SELECT p.partition_key, (SELECT w.quota_policy_id
                                   FROM {schema}.ff_quota_window w
                                  WHERE {in_partitions:w} AND w.partition_key = p.partition_key
                                    AND w.quota_policy_id > p.quota_policy_id
                                  ORDER BY w.quota_policy_id
                                  LIMIT 1)
          FROM policy p
         WHERE p.quota_policy_id IS NOT NULL
      ),
      idle AS MATERIALIZED (SELECT p.partition_key, p.quota_policy_id FROM policy p WHERE {is_idle:p})
      SELECT * FROM idle
    ) i
    JOIN {schema}.ff_quota_window w ON w.partition_key = i.partition_key AND w.quota_policy_id = i.quota_policy_id
   WHERE {in_partitions:w})sql";

constexpr std::string_view kAct = R"sql(
policy AS MATERIALIZED (SELECT DISTINCT partition_key, quota_policy_id FROM key),
in_use AS MATERIALIZED (SELECT p.partition_key, p.quota_policy_id FROM policy p WHERE ({is_idle:p}) IS NOT TRUE),
old AS MATERIALIZED (
  SELECT w.partition_key, w.quota_policy_id, w.dimension, w.admitted_at_ms, w.execution_id,
         {lately} AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_quota_window w ON w.partition_key = key.partition_key
                                   AND w.quota_policy_id = key.quota_policy_id AND w.dimension = key.dimension
                                   AND w.admitted_at_ms = key.admitted_at_ms AND w.execution_id = key.execution_id
   WHERE {in_partitions:w}
     AND (key.partition_key, key.quota_policy_id) NOT IN (SELECT partition_key, quota_policy_id FROM in_use)
     AND {in_sight:ff_quota_policy, ff_quota_admitted}
     FOR UPDATE OF w SKIP LOCKED
),
deleted AS (
  DELETE FROM {schema}.ff_quota_window w
   USING old o
   WHERE {in_partitions:w} AND w.partition_key = o.partition_key AND w.quota_policy_id = o.quota_policy_id
     AND w.dimension = o.dimension AND w.admitted_at_ms = o.admitted_at_ms AND w.execution_id = o.execution_id
),
moved AS (
  SELECT partition_key, quota_policy_id, dimension, admitted_at_ms, execution_id, due_at_ms,
         'window_rows_deleted' AS outcome
    FROM old
))sql";

// In numeric: a window may be as long as a bigint.
constexpr std::string_view kIsIdle = R"sql({newest:{policy}} < (SELECT now_ms - 86460000 FROM clock)
         AND {newest:{policy}} + greatest({said_length:{policy}}, {guarded_length:{policy}}, 0) + 60000
             < (SELECT now_ms FROM clock))sql";

// Dimension by dimension, the last row of each.
constexpr std::string_view kNewest = R"sql((
           WITH RECURSIVE dim AS (
             (SELECT d.dimension
                FROM {schema}.ff_quota_window d
               WHERE {in_partitions:d} AND d.partition_key = {policy}.partition_key
                 AND d.quota_policy_id = {policy}.quota_policy_id
               ORDER BY d.dimension
               LIMIT 1)
              UNION ALL
             SELECT (SELECT n.dimension
                       FROM {schema}.ff_quota_window n
                      WHERE {in_partitions:n} AND n.partition_key = {policy}.partition_key
                        AND n.quota_policy_id = {policy}.quota_policy_id AND n.dimension > d.dimension
                      ORDER BY n.dimension
                      LIMIT 1)
               FROM dim d
              WHERE d.dimension IS NOT NULL
           )
           SELECT max((SELECT l.admitted_at_ms
                         FROM {schema}.ff_quota_window l
                        WHERE {in_partitions:l} AND l.partition_key = {policy}.partition_key
                          AND l.quota_policy_id = {policy}.quota_policy_id AND l.dimension = d.dimension
                        ORDER BY l.admitted_at_ms DESC
                        LIMIT 1))::numeric
             FROM dim d))sql";

}  // namespace

Reconciler quota_window() {
  using namespace std::chrono_literals;
  return {.name = "quota_window",
          .summary = "Deletes what quotas that nobody uses remember of admissions.",
          .outcomes = {{"window_rows_deleted", Effect::deleted,
                        "nobody had been admitted for longer than the window"}},
          .key = {{"quota_policy_id", "text"},
                  {"dimension", "text"},
                  {"admitted_at_ms", "bigint"},
                  {"execution_id", "text"}},
          .partition_count = "SELECT num_quota_partitions FROM {schema}.ff_partition_config",
          .scan = kScan,
          .act = kAct,
          .fragments = {{"is_idle(policy)", std::string(kIsIdle)},
                        {"newest(policy)", std::string(kNewest)},
                        {"said_length(policy)",
                         R"sql((SELECT q.requests_per_window_seconds::numeric * 1000
                       FROM {schema}.ff_quota_policy q
                      WHERE {in_partitions:q} AND q.partition_key = {policy}.partition_key
                        AND q.quota_policy_id = {policy}.quota_policy_id))sql"},
                        {"guarded_length(policy)",
                         R"sql((SELECT max(g.expires_at_ms::numeric - g.admitted_at_ms)
                       FROM {schema}.ff_quota_admitted g
                      WHERE {in_partitions:g} AND g.partition_key = {policy}.partition_key
                        AND g.quota_policy_id = {policy}.quota_policy_id))sql"}},
          .privileges = {{"ff_quota_window", "SELECT, UPDATE, DELETE"},
                         {"ff_quota_policy", "SELECT"},
                         {"ff_quota_admitted", "SELECT"},
                         {"ff_partition_config", "SELECT"}},
          .on_by_default = false,
          .interval = 1min,
          .filterable = false,
          .is_dated = false,
          .foreseen = false,
          .holdoff = [](const Settings&) { return Milliseconds{0}; }};
}

}  // namespace ff::reconcile
