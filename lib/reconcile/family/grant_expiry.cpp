// grant_expiry: what the scheduler has promised to a worker that did not come can be claimed again.
//
// Rows     ff_claim_grant, of both kinds, that ended more than `grace` ago; one that ends at 0 never does. A companion
//          finds those that wait for the claim of a grant that is not there, which no index leads to: it looks through
//          the runnable executions of each lane.
// Changes  the grant is deleted. An execution that waits for its claim, with no other grant that lives, becomes
//          eligible_now, and loses the copy of the grant in raw_fields. Its public_state stays, it may be resumable. No
//          event: nothing was leased. A claim of another execution only loses the grant: claim_execution reads any one
//          grant, and refuses when that is an old one.
// Others   Every claim of FlowFabric's writes the core row that it takes, and so does the scheduler with each grant: a
//          core row that is as this statement has seen it has the grants that this statement sees. lease_expiry and
//          attempt_timeout leave a lease alone while a grant to reclaim it lives; those are not touched here.
// Repeat   The grant is gone afterwards, and the execution does not wait for it any more.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT g.partition_key, g.grant_id, g.execution_id, g.expires_at_ms AS due_at_ms{whose:c, NULL}
    FROM {schema}.ff_claim_grant g
    LEFT JOIN {core_of:g} c ON true
   WHERE {in_partitions:g} AND g.expires_at_ms > 0 AND {filter:c})sql";

// The core row is locked before its grants, as FlowFabric's claims do. It may be missing.
constexpr std::string_view kAct = R"sql(
granted AS MATERIALIZED (
  SELECT DISTINCT g.partition_key, g.execution_id
    FROM key
    JOIN {schema}.ff_claim_grant g ON g.partition_key = key.partition_key AND g.grant_id = key.grant_id
   WHERE {in_partitions:g}
),
with_core AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, {waits_for_its_claim:c} AND NOT {has_grant:c, {lives:i}} AS is_abandoned
    FROM granted g
    JOIN {schema}.ff_exec_core c ON {same_execution:c, g}
    {as_seen:c}
   WHERE {in_partitions:c} AND {filter:c} AND {in_sight:ff_attempt}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
of_whom AS MATERIALIZED (
  SELECT * FROM with_core
   UNION ALL
  SELECT g.partition_key, g.execution_id, false
    FROM granted g
   WHERE {no_filter} AND {has_no_core:g}
),
ended AS MATERIALIZED (
  SELECT g.partition_key, g.grant_id, g.execution_id, g.expires_at_ms AS due_at_ms, g.kind, o.is_abandoned
    FROM of_whom o
    JOIN {schema}.ff_claim_grant g ON {same_execution:g, o}
   WHERE {in_partitions:g} AND NOT {lives:g}
     -- As a value it is hashed, and no join.
     AND ((g.partition_key, g.grant_id) IN (SELECT partition_key, grant_id FROM key)) IS TRUE
     FOR UPDATE OF g SKIP LOCKED
),
-- An execution is returned once, whatever grants it has.
judged AS MATERIALIZED (
  SELECT partition_key, grant_id, execution_id, due_at_ms,
         CASE WHEN is_abandoned AND kind = 'claim'
                   AND row_number() OVER (PARTITION BY partition_key, execution_id, kind
                                              ORDER BY due_at_ms DESC, grant_id) = 1
              THEN 'returned' ELSE 'expired' END AS outcome
    FROM ended
),
returned AS (
  UPDATE {schema}.ff_exec_core c
     SET {made_eligible}
    FROM judged j
   WHERE j.outcome = 'returned'
     AND {in_partitions:c} AND {same_execution:c, j}
),
deleted AS (
  DELETE FROM {schema}.ff_claim_grant g
   USING judged j
   WHERE {in_partitions:g} AND g.partition_key = j.partition_key AND g.grant_id = j.grant_id
),
moved AS (SELECT partition_key, grant_id, execution_id, due_at_ms, outcome FROM judged))sql";

constexpr std::string_view kSlowScan = R"sql(
  SELECT c.partition_key, c.execution_id, {copy_ends:c} AS due_at_ms{whose:c, NULL}
    FROM {runnable_by_lane} c
   WHERE {waits_for_its_claim:c} AND NOT {has_grant:c, true} AND {filter:c})sql";

constexpr std::string_view kSlowAct = R"sql(
abandoned AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, {copy_ends:c} AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    {as_seen:c}
   WHERE {in_partitions:c} AND {copy_ends:c} + 0 <= clock.due_ms
     AND {waits_for_its_claim:c} AND NOT {has_grant:c, true} AND {filter:c} AND {in_sight:ff_claim_grant}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
returned AS (
  UPDATE {schema}.ff_exec_core c
     SET {made_eligible}
    FROM abandoned a
   WHERE {in_partitions:c} AND {same_execution:c, a}
),
moved AS (SELECT partition_key, execution_id, due_at_ms, 'returned' AS outcome FROM abandoned))sql";

std::vector<Fragment> own_fragments() {
  return {
      // A suspension writes `released`, and a signal leaves it. `leased` without a lease is left by a revoke, or a lapse,
      // of what a signal had met at work.
      {"waits_for_its_claim(core)",
       R"sql({core}.lifecycle_phase = 'runnable' AND {core}.eligibility_state = 'pending_claim'
     AND ({core}.ownership_state IN ('unowned', 'released')
          OR {core}.ownership_state = 'leased'
             AND (SELECT bool_and(l.lease_expires_at_ms IS NULL)
                    FROM {schema}.ff_attempt l
                   WHERE {in_partitions:l} AND {same_execution:l, {core}}) IS TRUE))sql"},
      {"lives(grant)",
       "({grant}.expires_at_ms <= 0 OR {grant}.expires_at_ms + 0 > (SELECT due_ms FROM clock))"},
      // "The execution of this row has a grant to claim it, of which that holds": they are looked up by the execution.
      {"has_grant(row, that)",
       R"sql((SELECT true
               FROM {schema}.ff_claim_grant i
              WHERE {in_partitions:i} AND {same_execution:i, {row}} AND i.kind = 'claim' AND {that}
              LIMIT 1) IS NOT NULL)sql"},
      // When the grant ended that is not there, by its copy; where there is none, nobody comes with it. Eighteen digits
      // always fit a bigint.
      {"copy_ends(core)",
       R"sql(CASE WHEN {core}.raw_fields->'claim_grant'->>'expires_at_ms' ~ '^[1-9][0-9]{0,17}$'
              THEN ({core}.raw_fields->'claim_grant'->>'expires_at_ms')::bigint
              ELSE {not_later:{core}.created_at_ms} END)sql"},
      {"made_eligible",
       R"sql(eligibility_state = 'eligible_now',
         ownership_state = CASE WHEN c.ownership_state = 'leased' THEN 'unowned' ELSE c.ownership_state END,
         raw_fields = {object:c.raw_fields} - 'claim_grant')sql"}};
}

}  // namespace

Reconciler grant_expiry() {
  using namespace std::chrono_literals;
  Reconciler grants{
      .name = "grant_expiry",
      .summary = "Returns an execution that was promised to a worker that did not come.",
      .no_rows = "it has no grant that ends, and waits for none",
      .outcomes = {{"returned", Effect::given_back},
                   {"expired", Effect::deleted, "the grant had ended, and nobody waited for it"}},
      .key = {{"grant_id", "bytea"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = own_fragments(),
      .privileges = {{"ff_claim_grant", "SELECT, UPDATE, DELETE"},
                     {"ff_exec_core", "SELECT, UPDATE"},
                     {"ff_attempt", "SELECT"}},
      .interval = 1s,
      .settings = {{.name = "grace",
                    .kind = SettingDecl::Kind::duration,
                    .fallback = 1000,
                    .least = 0,
                    .most = Milliseconds{24h}.count(),
                    .summary = "how long after its end a grant is still left alone"}},
      .holdoff = [](const Settings& own) { return Milliseconds{*own.at("grace")} + 1ms; }};
  Reconciler without = grants;
  without.outcomes = {{"returned", Effect::given_back}};
  without.key = {{"execution_id", "uuid"}};
  without.scan = kSlowScan;
  without.act = kSlowAct;
  without.interval = 30s;
  without.groups_a_scan = 4;
  without.searches = true;
  without.foreseen = false;
  grants.companions = {without};
  return grants;
}

}  // namespace ff::reconcile
