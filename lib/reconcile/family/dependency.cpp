// dependency: the end of an execution is passed on to the executions that wait for it.
//
// Rows     ff_completion_event that nobody has dispatched for stale_threshold. The filter is matched on the
//          event's own columns, and on its execution for what these leave out.
// Changes  every edge group downstream of the execution (for each applied edge one less running and one more
//          success, skip or failure), and by the group's policy the downstream execution. The event by which its
//          fan-in is satisfied makes it eligible where it still waits, and no later event touches it; one that
//          waits for its children is woken as well by the event that leaves nobody running. Where the fan-in has
//          become impossible it is ended as skipped, whatever it is doing, with its lease, suspension and
//          waitpoints, and a completion event of its own carries the cascade on; not where it had been impossible
//          before, and an operator has replayed the execution since. An any_of or quorum that has
//          just been satisfied lists the upstreams still at work for edge_cancel_dispatcher, unless its policy
//          lets them run. Last, dispatched_at_ms. An upstream that was resumed has not ended: such an event is
//          dispatched and counts nowhere.
// Others   FlowFabric's own dispatcher and replicas claim the same events, workers the same downstreams.
//          Claim and effect are one transaction. An event is applied as a whole or not at all: when a group
//          or a downstream is held, it waits for the next tick.
// Repeat   dispatched_at_ms is set afterwards, so the event is not found again.
//
// Several events of one batch may meet in one group. Their counts are added up and judged once: of events
// that are each counted once, a group never becomes satisfied and impossible, and once either it stays so,
// in whatever order they come. A replay takes back no count: what it lets end again is counted again.

#include "reconcile/family/ending.hpp"
#include "reconcile/family/fan_in.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/family/waiting_children.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT e.partition_key, e.event_id, e.execution_id, e.committed_at_ms AS due_at_ms
    FROM {schema}.ff_completion_event e
   WHERE {in_partitions:e}
     AND e.dispatched_at_ms IS NULL AND {is_ours})sql";

// `+ 0`: an event is looked up by its key, and not in the index of those that are pending, however few it is believed to have.
constexpr std::string_view kAct = R"sql(
event AS MATERIALIZED (
  SELECT e.partition_key, e.event_id, e.execution_id, e.flow_id, e.outcome, e.committed_at_ms AS due_at_ms, clock.now_ms
    FROM clock, key
    JOIN {schema}.ff_completion_event e ON e.partition_key = key.partition_key AND e.event_id = key.event_id
   WHERE {in_partitions:e} AND e.committed_at_ms + 0 <= clock.due_ms
     AND e.dispatched_at_ms + 0 IS NULL AND {is_ours}
     AND {in_sight:ff_edge, ff_edge_group, ff_exec_core}
     FOR NO KEY UPDATE OF e SKIP LOCKED
),
-- Row by row, by ff_edge_upstream_idx: as a join the planner may look for all edges of the flow and compare them.
meets AS MATERIALIZED (
  SELECT e.partition_key, e.event_id, e.flow_id, d.downstream_eid, e.execution_id, e.outcome,
         count(*)::integer AS edges
    FROM event e
   CROSS JOIN LATERAL (SELECT d.downstream_eid
                         FROM {schema}.ff_edge d
                        WHERE {in_partitions:d} AND d.partition_key = e.partition_key AND d.flow_id = e.flow_id
                          AND d.upstream_eid = e.execution_id
                          AND {is_applied:d}
                       OFFSET 0) d
   -- Who was resumed has not ended.
   WHERE e.outcome <> 'resumable'
   GROUP BY e.partition_key, e.event_id, e.flow_id, d.downstream_eid, e.execution_id, e.outcome
),
edge_group AS MATERIALIZED (
  SELECT m.*, g.policy, g.success_count, g.fail_count, g.skip_count, g.running_count
    FROM meets m
    JOIN {schema}.ff_edge_group g ON g.partition_key = m.partition_key AND g.flow_id = m.flow_id
                                 AND g.downstream_eid = m.downstream_eid
   WHERE {in_partitions:g}
   ORDER BY g.downstream_eid
     FOR NO KEY UPDATE OF g SKIP LOCKED
),
doomed AS MATERIALIZED (
  SELECT {doomed:c},
         'skipped' AS public_state, 'attempt_terminal' AS attempt_state, 'cancelled' AS attempt_outcome,
         'revoked' AS lease_event, c.cancellation_reason, c.cancelled_by,
         '{}'::jsonb AS raw_patch, {was_replayed:c}
    FROM clock, (SELECT DISTINCT partition_key, downstream_eid FROM edge_group) g
    JOIN {schema}.ff_exec_core c ON {found_by:c, g, downstream_eid}
    {as_seen:c}
   WHERE {in_partitions:c} AND {has_not_ended:c}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
{hold_doomed},
held_up AS MATERIALIZED (
  SELECT partition_key, event_id
    FROM (SELECT m.partition_key, m.event_id, m.downstream_eid
            FROM meets m
            JOIN {schema}.ff_edge_group g ON g.partition_key = m.partition_key AND g.flow_id = m.flow_id
                                         AND g.downstream_eid = m.downstream_eid
           WHERE {in_partitions:g}
          EXCEPT
          SELECT partition_key, event_id, downstream_eid FROM edge_group) group_held
   UNION
  SELECT g.partition_key, g.event_id
    FROM edge_group g
    JOIN {schema}.ff_exec_core c ON {found_by:c, g, downstream_eid}
   WHERE {in_partitions:c} AND {has_not_ended:c}
     AND (g.partition_key, g.downstream_eid) NOT IN (SELECT partition_key, execution_id FROM endable)
),
ready AS MATERIALIZED (
  SELECT e.*
    FROM event e
   WHERE (e.partition_key, e.event_id) NOT IN (SELECT partition_key, event_id FROM held_up)
),
change AS MATERIALIZED (
  SELECT g.partition_key, g.flow_id, g.downstream_eid, g.policy, g.success_count, g.fail_count, g.skip_count,
         g.running_count, sum(g.edges)::integer AS edges,
         coalesce(sum(g.edges) FILTER (WHERE g.outcome = 'success'), 0)::integer AS success,
         coalesce(sum(g.edges) FILTER (WHERE g.outcome = 'skipped'), 0)::integer AS skip,
         array_agg(g.execution_id) AS upstreams
    FROM edge_group g
   WHERE (g.partition_key, g.event_id) NOT IN (SELECT partition_key, event_id FROM held_up)
   GROUP BY g.partition_key, g.flow_id, g.downstream_eid, g.policy, g.success_count, g.fail_count, g.skip_count,
            g.running_count
),
tally AS MATERIALIZED (
  SELECT c.partition_key, c.flow_id, c.downstream_eid, c.upstreams,
         c.success_count AS success_before,
         c.success_count + c.fail_count + c.skip_count + c.running_count AS n_before,
         c.success_count + c.fail_count + c.skip_count AS counted_before,
         c.running_count AS running_before,
         c.success_count + c.success AS success,
         c.skip_count + c.skip AS skip,
         c.fail_count + c.edges - c.success - c.skip AS fail,
         greatest(c.running_count - c.edges, 0) AS running,
         {policy_of:c},
         {lets_run:c} AS let_run
    FROM change c
),
verdict AS MATERIALIZED (
  SELECT t.*,
         -- Nobody waits for less than one: what asks for none is satisfied by the first end.
         t.counted_before > 0 AND {satisfied:t, t.success_before, t.n_before} AS was_satisfied,
         {satisfied:t, t.success, (t.success + t.fail + t.skip + t.running)} AS satisfied,
         {impossible:t, t.success, (t.fail + t.skip), t.running} AS impossible,
         {was_impossible} AS was_impossible
    FROM tally t
),
{settle},
ending AS MATERIALIZED (
  SELECT d.*
    FROM endable d
   WHERE (d.partition_key, d.execution_id) NOT IN (
           SELECT partition_key, downstream_eid FROM edge_group
           EXCEPT
           SELECT partition_key, downstream_eid FROM verdict WHERE impossible AND NOT satisfied)
     AND NOT {brought_back:d}
),
{end_executions},
eligible AS (
  {make_eligible}
),
dispatched AS (
  UPDATE {schema}.ff_completion_event e
     SET dispatched_at_ms = r.now_ms
    FROM ready r
   WHERE {in_partitions:e} AND e.partition_key = r.partition_key AND e.event_id = r.event_id
),
moved AS (
  SELECT partition_key, event_id, due_at_ms, 'advanced' AS outcome FROM ready
   UNION ALL
  SELECT e.partition_key, e.event_id, e.committed_at_ms, 'noop'
    FROM key
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}.ff_completion_event e
                        WHERE {in_partitions:e} AND e.partition_key = key.partition_key
                          AND e.event_id = key.event_id
                       OFFSET 0) e
   WHERE e.dispatched_at_ms IS NOT NULL
))sql";

std::vector<Fragment> own_fragments() {
  return with(
      fan_in::fragments(),
      {// What an event does not say of itself, its execution's row does: FlowFabric writes most events without a
       // namespace and a tag. That row is looked up only where the filter asks for what the event lacks; the tag that an
       // event has is always that of cairn.instance_id.
       {"is_ours",
        R"sql(({namespace} IS NULL
          OR coalesce(e.namespace, {of_execution:c.raw_fields->>'namespace'}) = {namespace})
     AND ({tag_key} IS NULL
          OR coalesce(CASE WHEN {tag_key} = 'cairn.instance_id' THEN to_jsonb(e.instance_tag) END,
                      {of_execution:c.raw_fields->'tags'->{tag_key}})
             = to_jsonb({tag_value})))sql"},
       {"of_execution(value)",
        R"sql((SELECT {value}
            FROM {schema}.ff_exec_core c
           WHERE {in_partitions:c} AND {same_execution:c, e}))sql"}});
}

}  // namespace

Reconciler dependency() {
  using namespace std::chrono_literals;
  Reconciler events{
      .name = "dependency",
      .summary = "Passes the end of an execution on to those that wait for it.",
      .no_rows = "no end of its is to be passed on",
      .outcomes = {"advanced", {"noop", Effect::left_alone}},
      .ends_others = "what it waited for had become impossible",
      .key = {{"event_id", "bigint"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = own_fragments(),
      .privileges = ending::privileges({{"ff_completion_event", "SELECT, UPDATE"},
                                        {"ff_lease_event", "SELECT"},
                                        {"ff_edge", "SELECT"},
                                        {"ff_edge_group", "SELECT, UPDATE"},
                                        {"ff_pending_cancel_groups", "INSERT"}}),
      .leads = {{"ff_completion_event", "ff_completion_event_pending_dispatch_idx"}},
      .interval = 1s,
      .rows_meet = true,
      .settings = {{.name = "stale_threshold",
                    .kind = SettingDecl::Kind::duration,
                    .fallback = 1000,
                    .least = 0,
                    .most = Milliseconds{1h}.count(),
                    .summary = "how long an event is left to FlowFabric's own dispatcher"}},
      .holdoff = [](const Settings& own) { return Milliseconds{*own.at("stale_threshold")} + 1ms; },
      .announced = [](const Settings&) { return std::optional(Announcement{kCompletionChannel}); }};
  events.companions = waiting_children::woken(events);
  return events;
}

}  // namespace ff::reconcile
