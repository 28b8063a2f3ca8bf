// index_repair: an execution that is to go on with its attempt names one that is there, and is not said to run.
//
// Rows     1. ff_exec_core, `suspended` or `runnable` and `attempt_interrupted`, with attempts, but none at its
//          attempt_index: FlowFabric's typed claims leave that one ahead, and so do suspensions, delays and waits for
//          children after them. Then claim_resumed_execution and issue_grant_and_claim are refused for ever, and claim
//          begins another attempt. 2. `runnable` and `running_attempt`, with attempts, but no lease: a signal has met what
//          it waited for before while it ran, and then the lease went. No typed claim takes it.
//          Those whose lease the newest lease events say was given up come first; a companion
//          walks through all who wait for the others, who were released while no daemon was there, or an older version.
//          Nothing tells since when it is so: a row is due since a scan has seen it, to half a minute.
// Changes  attempt_index, and with it the count that FlowFabric's SDK claims by, to the attempt that it continues; who was
//          said to run is interrupted, and without an owner. No event: nothing else of it changes.
// Others   Whoever resumes, claims or ends it writes the core row, which has to be as this statement has seen it; so its
//          attempts are those that this statement sees. Other reconcilers that give it back write the same index.
// Repeat   Afterwards the attempt is there, so the row is not found again.

#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT l.partition_key, l.execution_id, {lately} AS due_at_ms
    FROM {lately_released} l
    JOIN {core_of:l} c ON true
    JOIN {attempts_of:c} a ON true
   WHERE {is_astray:c, a} AND {filter:c})sql";

// Those that the first pair finds are left to it: each is shown once.
constexpr std::string_view kRoundScan = R"sql(
  SELECT c.partition_key, c.execution_id, {lately} AS due_at_ms
    FROM {by_lane:'suspended', 'runnable'} c
    JOIN {attempts_of:c} a ON true
   WHERE {is_astray:c, a} AND {filter:c}
     AND (c.partition_key, c.execution_id) NOT IN (SELECT l.partition_key, l.execution_id
                                                      FROM {lately_released} l
                                                     WHERE l.execution_id IS NOT NULL))sql";

constexpr std::string_view kAct = R"sql(
ahead AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, {lately} AS due_at_ms, {current_attempt:c} AS next_attempt
    FROM key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    {as_seen:c}
    JOIN {attempts_of:c} a ON true
   WHERE {in_partitions:c} AND {is_astray:c, a} AND {filter:c}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
repaired AS (
  UPDATE {schema}.ff_exec_core c
     SET attempt_index = a.next_attempt, attempt_state = 'attempt_interrupted',
         ownership_state = CASE WHEN c.ownership_state = 'leased' AND c.attempt_state = 'running_attempt'
                                THEN 'unowned' ELSE c.ownership_state END,
         raw_fields = {object:c.raw_fields} || {attempt_count:a.next_attempt}
    FROM ahead a
   WHERE {in_partitions:c} AND {same_execution:c, a}
),
moved AS (SELECT partition_key, execution_id, due_at_ms, 'repaired' AS outcome FROM ahead))sql";

std::vector<Fragment> own_fragments() {
  return {
      {"is_astray(core, attempts)",
       R"sql(({core}.lifecycle_phase IN ('suspended', 'runnable') AND {core}.attempt_state = 'attempt_interrupted'
      AND NOT {attempts}.has_its
      OR {core}.lifecycle_phase = 'runnable' AND {core}.attempt_state = 'running_attempt'
      AND NOT {attempts}.is_leased))sql"},
      // Looked up execution by execution. Without any attempt both are null: there is none to go on with.
      {"attempts_of(core)",
       R"sql(LATERAL (SELECT bool_or(i.attempt_index = {core}.attempt_index) AS has_its,
                          bool_or(i.lease_expires_at_ms IS NOT NULL) AS is_leased
                     FROM {schema}.ff_attempt i
                    WHERE {in_partitions:i} AND {same_execution:i, {core}}
                   OFFSET 0))sql"}};
}

}  // namespace

Reconciler index_repair() {
  using namespace std::chrono_literals;
  Reconciler released{
      .name = "index_repair",
      .summary = "Lets an execution go on with the attempt that it has, after a typed claim left it ahead.",
      .no_rows = "the attempt that it goes on with is there, or it begins one",
      .outcomes = {"repaired"},
      .key = {{"execution_id", "uuid"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = own_fragments(),
      .privileges = {{"ff_exec_core", "SELECT, UPDATE"},
                     {"ff_attempt", "SELECT"},
                     {"ff_lease_event", "SELECT"}},
      .interval = 1s,
      .is_dated = false,
      .holdoff = [](const Settings&) { return Milliseconds{0}; },
      .announced = [](const Settings&) { return std::optional(Announcement{kLeaseChannel}); }};
  Reconciler round = released;
  round.scan = kRoundScan;
  round.interval = 5s;
  round.walk = {
      {.table = "ff_exec_core", .key = "execution_id", .rows = 4000, .phases = "'suspended', 'runnable'"}};
  released.companions = {round};
  return released;
}

}  // namespace ff::reconcile
