// quota_concurrency: a quota's count of those at work becomes the number of its admissions where it is above.
//
// FlowFabric adds 1 with each admission that has a cap and takes 1 off with release_admission alone, which is for
// admissions that could not be used: who ends is never counted down, so that in the end nobody is admitted any more.
//
// Rows     1. ff_quota_policy whose active_concurrency is above the number of its admissions (guards in
//             ff_quota_admitted) that have not been over for a minute: the clocks of two hosts differ.
//          2. Other guards that have: of quotas that are counted right, or not at all, with a policy or without.
//          Quotas have a partition space of their own and belong to no execution: no filter.
// Changes  1. Guards that have been over for a minute are deleted, some 10,000 a statement, so that none holds its quotas for
//             long (the others are deleted by the second pair); active_concurrency becomes the number of those that are left, over or not: only what is gone can no
//             longer be released, and a release takes 1 off. Never upwards, because admissions without a cap have a guard
//             and are not counted. 2. The guard is deleted.
// Others   An admission (SERIALIZABLE) holds the policy's row while it adds a guard; so the row is locked first (and waited
//          for: one admission after the other holds that of a busy quota), and the guards are counted in a second
//          statement, which sees all that were added. A release deletes its guard, then
//          takes 1 off: whoever waits for our lock takes it off our number, in which the guard still counts. A lock alone
//          costs an admission nothing; what is written refuses those that began before it once (40001). A guard that an
//          admission or a release holds is left, and counts.
// Repeat   1. The count is no longer above. 2. The guard is gone.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT q.partition_key, q.quota_policy_id, {lately} AS due_at_ms
    FROM {schema}.ff_quota_policy q
   CROSS JOIN LATERAL (SELECT count(*) AS admitted
                         FROM (SELECT
                                 FROM {schema}.ff_quota_admitted g
                                WHERE {in_partitions:g} AND g.partition_key = q.partition_key
                                  AND g.quota_policy_id = q.quota_policy_id AND g.expires_at_ms + 0 >= {long_ago}
                                LIMIT greatest(q.active_concurrency, 0)) g
                       OFFSET 0) a
   WHERE {in_partitions:q} AND q.active_concurrency > 0 AND q.active_concurrency > a.admitted)sql";

constexpr std::string_view kLock = R"sql(
locked AS MATERIALIZED (
  SELECT q.partition_key, q.quota_policy_id
    FROM clock, key
    JOIN {schema}.ff_quota_policy q ON q.partition_key = key.partition_key
                                   AND q.quota_policy_id = key.quota_policy_id
   WHERE {in_partitions:q} AND q.active_concurrency > 0
     FOR UPDATE OF q SKIP LOCKED
))sql";

constexpr std::string_view kAct = R"sql(
expired AS MATERIALIZED (
  SELECT g.*
    FROM key
   CROSS JOIN LATERAL (SELECT g.partition_key, g.quota_policy_id, g.execution_id
                         FROM {schema}.ff_quota_admitted g
                        WHERE {in_partitions:g} AND g.partition_key = key.partition_key
                          AND g.quota_policy_id = key.quota_policy_id AND g.expires_at_ms + 0 < {long_ago}
                        LIMIT greatest(10000 / (SELECT count(*) FROM key), 100)
                          FOR UPDATE OF g SKIP LOCKED) g
),
tally AS MATERIALIZED (
  SELECT partition_key, quota_policy_id, sum(guards)::bigint AS admitted, count(*) > 1 AS has_expired
    FROM (SELECT key.partition_key, key.quota_policy_id, a.guards
            FROM key
           CROSS JOIN LATERAL (SELECT count(*) AS guards
                                 FROM {schema}.ff_quota_admitted g
                                WHERE {in_partitions:g} AND g.partition_key = key.partition_key
                                  AND g.quota_policy_id = key.quota_policy_id
                               OFFSET 0) a
           UNION ALL
          SELECT partition_key, quota_policy_id, -1 FROM expired) counted
   GROUP BY partition_key, quota_policy_id
),
policy AS MATERIALIZED (
  SELECT q.partition_key, q.quota_policy_id, {lately} AS due_at_ms, clock.now_ms, t.admitted, t.has_expired,
         q.active_concurrency > t.admitted AND {in_sight:ff_quota_admitted} AS is_above
    FROM clock, tally t
    JOIN {schema}.ff_quota_policy q ON q.partition_key = t.partition_key AND q.quota_policy_id = t.quota_policy_id
   WHERE {in_partitions:q}
),
corrected AS (
  UPDATE {schema}.ff_quota_policy q
     SET active_concurrency = p.admitted, updated_at_ms = p.now_ms
    FROM policy p
   WHERE {in_partitions:q} AND p.is_above AND q.partition_key = p.partition_key
     AND q.quota_policy_id = p.quota_policy_id
),
{delete_expired},
moved AS (
  SELECT partition_key, quota_policy_id, due_at_ms,
         CASE WHEN is_above THEN 'corrected' ELSE 'guards_expired' END AS outcome
    FROM policy
   WHERE is_above OR has_expired
))sql";

// Nothing that falls due later is shown: guards expire all the time, and to take each at its moment is not worth a
// transaction.
constexpr std::string_view kGuardScan = R"sql(
  SELECT g.partition_key, g.quota_policy_id, g.execution_id, g.expires_at_ms AS due_at_ms
    FROM {schema}.ff_quota_admitted g
   WHERE {in_partitions:g} AND g.expires_at_ms < {long_ago})sql";

constexpr std::string_view kGuardAct = R"sql(
expired AS MATERIALIZED (
  SELECT g.partition_key, g.quota_policy_id, g.execution_id, {lately} AS due_at_ms
    FROM key
    JOIN {schema}.ff_quota_admitted g ON g.partition_key = key.partition_key
                                     AND g.quota_policy_id = key.quota_policy_id
                                     AND g.execution_id = key.execution_id
   WHERE {in_partitions:g} AND g.expires_at_ms + 0 < {long_ago}
     FOR UPDATE OF g SKIP LOCKED
),
{delete_expired},
moved AS (
  SELECT partition_key, quota_policy_id, execution_id, due_at_ms, 'guards_expired' AS outcome FROM expired
))sql";

std::vector<Fragment> own_fragments() {
  return {{"long_ago", "(SELECT now_ms - 60000 FROM clock)"},
          {"delete_expired",
           R"sql(deleted AS (
  DELETE FROM {schema}.ff_quota_admitted g
   USING expired e
   WHERE {in_partitions:g} AND g.partition_key = e.partition_key AND g.quota_policy_id = e.quota_policy_id
     AND g.execution_id = e.execution_id
))sql"}};
}

constexpr Outcome kExpired{"guards_expired", Effect::deleted, "the admission's window was over for a minute"};

Reconciler other_guards(Reconciler quotas) {
  using namespace std::chrono_literals;
  quotas.outcomes = {kExpired};
  quotas.key = {{"quota_policy_id", "text"}, {"execution_id", "text"}};
  quotas.scan = kGuardScan;
  quotas.lock = {};
  quotas.queues_in = {};
  quotas.act = kGuardAct;
  quotas.interval = 1min;
  quotas.holdoff = [](const Settings&) { return Milliseconds{60s}; };
  return quotas;
}

}  // namespace

Reconciler quota_concurrency() {
  using namespace std::chrono_literals;
  Reconciler quotas{
      .name = "quota_concurrency",
      .summary =
          "Corrects a quota's count of those at work that has drifted upwards, and deletes admissions "
          "whose window is over.",
      .outcomes = {"corrected", kExpired},
      .key = {{"quota_policy_id", "text"}},
      .partition_count = "SELECT num_quota_partitions FROM {schema}.ff_partition_config",
      .scan = kScan,
      .act = kAct,
      .lock = kLock,
      .queues_in = "ff_quota_policy",
      .fragments = own_fragments(),
      .privileges = {{"ff_quota_admitted", "SELECT, UPDATE, DELETE"},
                     {"ff_quota_policy", "SELECT, UPDATE"},
                     {"ff_partition_config", "SELECT"}},
      .leads = {{"ff_quota_admitted", "ff_quota_admitted_expires_idx"}},
      .interval = 30s,
      .batch_size = 100,
      .filterable = false,
      .is_dated = false,
      .foreseen = false,
      .holdoff = [](const Settings&) { return Milliseconds{0}; }};
  quotas.companions = {other_guards(quotas)};
  return quotas;
}

}  // namespace ff::reconcile
