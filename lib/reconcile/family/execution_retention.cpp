// execution_retention: executions that have ended, and whole flows, go once they are old enough. Off by default.
//
// Rows     An execution without a flow, or a flow of which every member has ended, older than their age: that of the policy's
//          stream_policy.retention_ttl_ms, else of the namespace (`ages`), else `age`. It counts from the latest sign: of
//          the row and its attempts by their writers' clocks, of its newest completion event by the database's. Nothing is
//          due while an attempt has a lease, an end is undispatched, or a cancel is under way. No index leads there: both
//          tables are walked through. Companions take rows by which callers' repetitions are known.
// Changes  the rows of the execution go in all tables that are found by it (see remains.cpp), those of the flow with its last
//          members, its own row last. Events that know their execution as text only are left to outbox_retention.
// Others   All that is locked is asked again in a second statement. Flow, members and attempts are locked, and whatever
//          else goes; where one is not to be had, the unit stays. The flow's row holds off new members and edges. A large
//          flow goes in slices, each of which asks for all of it: a replay in between saves what is left.
// Repeat   The rows are gone afterwards. Who was killed between two slices has left a flow with fewer members.

#include <limits>

#include "reconcile/family/registry.hpp"
#include "reconcile/family/remains.hpp"
#include "reconcile/hold.hpp"
#include "reconcile/rate_limit.hpp"

namespace ff::reconcile {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kScan = R"sql(
  SELECT c.partition_key, c.execution_id, {due:c, s} AS due_at_ms
    FROM {schema}.ff_exec_core c
    JOIN {signs:c} s ON true
   WHERE {in_partitions:c} AND {in_slice:c} AND {is_alone:c} AND {filter:c}
     AND {due_by_core:c} <= (SELECT due_ms FROM clock) AND NOT s.is_needed)sql";

constexpr std::string_view kLock = R"sql(
core AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id
    FROM key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
   WHERE {in_partitions:c} AND {is_alone:c}
     FOR UPDATE OF c SKIP LOCKED
),
{hold_remains},
locked AS (
  SELECT partition_key, execution_id FROM core
   WHERE (partition_key, execution_id) NOT IN (SELECT partition_key, execution_id FROM withheld)
))sql";

constexpr std::string_view kAct = R"sql(
doomed AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.flow_id, {due:c, s} AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    JOIN {signs:c} s ON true
   WHERE {in_partitions:c} AND {is_alone:c} AND {filter:c} AND NOT s.is_needed AND {due:c, s} <= clock.due_ms
     AND {remains_in_sight}
),
{remove_doomed},
weight AS (SELECT {removed} AS rows),
moved AS (
  SELECT partition_key, execution_id, due_at_ms, 'executions_deleted' AS outcome FROM gone
   UNION ALL
  SELECT partition_key, execution_id, due_at_ms, 'unfinished' FROM kept
))sql";

// One that lives is given up at its first member that does, before anything else is asked of them.
constexpr std::string_view kFlowScan = R"sql(
  SELECT f.partition_key, f.flow_id, greatest({due_by_flow:f}, m.due_at_ms) AS due_at_ms
    FROM {schema}.ff_flow_core f
    JOIN {members_of:f} m ON true
   WHERE {in_partitions:f} AND {in_slice:f} AND {due_by_flow:f} <= (SELECT due_ms FROM clock)
     AND {lives:f} IS NULL AND {is_over:f, m})sql";

// What is of the flow and not of a member goes with the last of these, and is held only then: one more than a slice tells
// whether they are. A flow that had lost them all would have nothing left by which a filter could know it.
constexpr std::string_view kFlowLock = R"sql(
flow AS MATERIALIZED (
  SELECT f.partition_key, f.flow_id
    FROM key
    JOIN {schema}.ff_flow_core f ON f.partition_key = key.partition_key AND f.flow_id = key.flow_id
   WHERE {in_partitions:f}
     FOR UPDATE OF f SKIP LOCKED
),
wanted AS MATERIALIZED ({next_members:{slice} + 1}),
core AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id
    FROM wanted w
    JOIN {schema}.ff_exec_core c ON {same_execution:c, w}
   WHERE {in_partitions:c}
     FOR UPDATE OF c SKIP LOCKED
),
{hold_remains},
closing AS MATERIALIZED (
  SELECT partition_key, flow_id FROM flow
   WHERE (partition_key, flow_id) NOT IN (
           SELECT partition_key, flow_id FROM wanted GROUP BY partition_key, flow_id HAVING count(*) > {slice})
),
{hold:closing, flow_id, ff_edge, edge_id},
{hold:closing, flow_id, ff_edge_group, downstream_eid},
{hold:closing, flow_id, ff_pending_cancel_groups, downstream_eid},
incomplete AS MATERIALIZED (
  SELECT partition_key, flow_id
    FROM wanted
   WHERE (partition_key, execution_id) NOT IN (
           SELECT partition_key, execution_id FROM core
           EXCEPT SELECT partition_key, execution_id FROM withheld)
   UNION ALL SELECT * FROM ff_edge_missed
   UNION ALL SELECT * FROM ff_edge_group_missed
   UNION ALL SELECT * FROM ff_pending_cancel_groups_missed
),
locked AS (
  SELECT partition_key, flow_id FROM flow
   WHERE (partition_key, flow_id) NOT IN (SELECT partition_key, flow_id FROM incomplete)
))sql";

constexpr std::string_view kFlowAct = R"sql(
flow AS MATERIALIZED (
  SELECT f.partition_key, f.flow_id, greatest({due_by_flow:f}, m.due_at_ms) AS due_at_ms, m.members
    FROM clock, key
    JOIN {schema}.ff_flow_core f ON f.partition_key = key.partition_key AND f.flow_id = key.flow_id
    JOIN {members_of:f} m ON true
   WHERE {in_partitions:f} AND {is_over:f, m} AND greatest({due_by_flow:f}, m.due_at_ms) <= clock.due_ms
     AND {remains_in_sight} AND {flow_in_sight}
),
doomed AS MATERIALIZED ({next_members:{slice}}),
{remove_doomed},
shrunk AS MATERIALIZED (
  SELECT partition_key, flow_id, due_at_ms, members = count(*) AS is_whole
    FROM gone
   GROUP BY partition_key, flow_id, due_at_ms, members
),
whole AS MATERIALIZED (
  SELECT partition_key, flow_id, due_at_ms FROM shrunk WHERE is_whole
   UNION ALL
  SELECT partition_key, flow_id, due_at_ms FROM flow WHERE members = 0
),
{remove_of_flow:ff_edge},
{remove_of_flow:ff_edge_group},
{remove_of_flow:ff_pending_cancel_groups},
{remove_of_flow:ff_cancel_backlog_member},
{remove_of_flow:ff_flow_summary},
{remove_of_flow:ff_flow_core},
weight AS (SELECT {removed} + {removed_of_flow} AS rows),
moved AS (
  SELECT partition_key, flow_id, due_at_ms, 'flows_deleted' AS outcome FROM whole
   UNION ALL
  SELECT partition_key, flow_id, due_at_ms, 'executions_deleted' FROM shrunk WHERE NOT is_whole
   UNION ALL
  SELECT partition_key, flow_id, due_at_ms, 'unfinished' FROM flow
   WHERE members > 0 AND (partition_key, flow_id) NOT IN (SELECT partition_key, flow_id FROM shrunk)
))sql";

constexpr std::string_view kUsageScan = R"sql(
  SELECT d.partition_key, d.dedup_key, d.expires_at_ms AS due_at_ms
    FROM {schema}.ff_budget_usage_dedup d
   WHERE {in_partitions:d})sql";

constexpr std::string_view kUsageAct = R"sql(
old AS MATERIALIZED (
  SELECT d.partition_key, d.dedup_key, d.expires_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_budget_usage_dedup d ON d.partition_key = key.partition_key AND d.dedup_key = key.dedup_key
   WHERE {in_partitions:d} AND d.expires_at_ms + 0 <= clock.due_ms
     FOR UPDATE OF d SKIP LOCKED
),
deleted AS (
  DELETE FROM {schema}.ff_budget_usage_dedup d
   USING old o
   WHERE {in_partitions:d} AND d.partition_key = o.partition_key AND d.dedup_key = o.dedup_key
),
weight AS (SELECT count(*) AS rows FROM old),
moved AS (SELECT partition_key, dedup_key, due_at_ms, 'dedup_rows_deleted' AS outcome FROM old))sql";

constexpr std::string_view kSuspendScan = R"sql(
  SELECT mine.partition_key, d.idempotency_key, d.created_at_ms AS due_at_ms
    FROM unnest({partitions}) AS mine(partition_key)
    JOIN {schema}.ff_suspend_dedup d ON d.partition_key = mine.partition_key)sql";

constexpr std::string_view kSuspendAct = R"sql(
old AS MATERIALIZED (
  SELECT d.partition_key, d.idempotency_key, d.created_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_suspend_dedup d ON d.partition_key = key.partition_key
                                    AND d.idempotency_key = key.idempotency_key
   WHERE d.created_at_ms + 0 <= clock.due_ms
     FOR UPDATE OF d SKIP LOCKED
),
deleted AS (
  DELETE FROM {schema}.ff_suspend_dedup d
   USING old o
   WHERE d.partition_key = o.partition_key AND d.idempotency_key = o.idempotency_key
),
weight AS (SELECT count(*) AS rows FROM old),
moved AS (SELECT partition_key, idempotency_key, due_at_ms, 'dedup_rows_deleted' AS outcome FROM old))sql";

/// The default age, the namespaces that have one of their own, and those.
pg::Params ages_of(const Settings& own) {
  constexpr std::string_view kAges = "ages.";
  std::vector<std::string> names;
  std::vector<std::int64_t> ages;
  for (auto at = own.lower_bound(kAges); at != own.end() && at->first.starts_with(kAges); ++at) {
    names.push_back(at->first.substr(kAges.size()));
    ages.push_back(at->second.value_or(std::numeric_limits<std::int64_t>::max()));
  }
  return pg::Params::of(*own.at("age"), names, ages);
}

constexpr Outcome kUnfinished{"unfinished", Effect::moved, {}, /*it_goes_on=*/true};

Reconciler of_flows(Reconciler pair) {
  pair.outcomes = {{"flows_deleted", Effect::deleted, "all of the flow was older than its age"},
                   {"executions_deleted", Effect::deleted, "its whole flow was older than its age",
                    /*it_goes_on=*/true},
                   kUnfinished};
  pair.key = {{"flow_id", "uuid"}};
  pair.execution_column = {};
  pair.scan = kFlowScan;
  pair.lock = kFlowLock;
  pair.act = kFlowAct;
  pair.most_a_batch = 16;
  pair.walk = Walk{.table = "ff_flow_core", .key = "flow_id"};
  return pair;
}

Reconciler of_dedup(Reconciler pair, const KeyColumn& key, std::string_view scan, std::string_view act) {
  pair.outcomes = {{"dedup_rows_deleted", Effect::deleted, "nobody repeats what was said so long ago"}};
  pair.key = {key};
  pair.execution_column = {};
  pair.scan = scan;
  pair.lock = {};
  pair.act = act;
  pair.fragments = {};
  pair.walk.reset();
  pair.filterable = false;
  pair.foreseen = true;
  pair.own_parameters = {};
  pair.parameters = [](const Settings&, const Family&) { return pg::Params{}; };
  return pair;
}

Reconciler of_usage(const Reconciler& alone) {
  Reconciler pair = of_dedup(alone, {"dedup_key", "text"}, kUsageScan, kUsageAct);
  pair.partition_count = "SELECT num_budget_partitions FROM {schema}.ff_partition_config";
  pair.holdoff = [](const Settings&) { return Milliseconds{1h} + 1ms; };
  return pair;
}

// No index goes by time: some partitions a scan.
Reconciler of_suspensions(const Reconciler& alone) {
  Reconciler pair = of_dedup(alone, {"idempotency_key", "text"}, kSuspendScan, kSuspendAct);
  pair.groups_a_scan = 1;
  pair.searches = true;
  pair.holdoff = [](const Settings& own) { return Milliseconds{*own.at("age")} + 1ms; };
  return pair;
}

SettingDecl age(std::string_view name, SettingDecl::Kind kind, std::string_view summary) {
  return {.name = name,
          .kind = kind,
          .fallback = Milliseconds{24h * 30}.count(),
          .least = Milliseconds{1h}.count(),
          .most = Milliseconds{24h * 3650}.count(),
          .summary = summary};
}

}  // namespace

Reconciler execution_retention() {
  Reconciler alone{
      .name = "execution_retention",
      .summary = "Deletes executions that have ended, and whole flows, once they are old enough.",
      .outcomes = {{"executions_deleted", Effect::deleted, "the execution was older than its age"},
                   kUnfinished},
      .weighs = true,
      .key = {{"execution_id", "uuid"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .lock = kLock,
      .fragments = remains::fragments(),
      .privileges = remains::privileges(),
      .on_by_default = false,
      .interval = 1min,
      .settings = {age("age", SettingDecl::Kind::duration, "how old an execution gets after its end"),
                   age("ages", SettingDecl::Kind::durations, "the same by namespace"), kMaxRowsPerSecond,
                   kHoldAbove},
      .walk = Walk{.table = "ff_exec_core", .key = "execution_id"},
      .foreseen = false,
      .own_parameters = {"age", "named", "their_ages"},
      .parameters = [](const Settings& own, const Family&) { return ages_of(own); }};
  alone.companions = {of_flows(alone), of_usage(alone), of_suspensions(alone)};
  return alone;
}

}  // namespace ff::reconcile
