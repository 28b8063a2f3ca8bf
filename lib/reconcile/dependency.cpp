// dependency: the end of an execution is passed on to the executions that wait for it.
//
// Rows     ff_completion_event that nobody has dispatched for stale_threshold. The filter is matched on the
//          event's own columns, and on its execution for what these leave out.
// Changes  every edge group downstream of the execution (for each applied edge one less running and one more
//          success, skip or failure), and by the group's policy the downstream execution. The event by which its
//          fan-in is satisfied makes it eligible where it still waits, and no later event touches it; one that
//          waits for its children is woken as well by the event that leaves nobody running. Where the fan-in has
//          become impossible it is ended as skipped, whatever it is doing, with its lease, suspension and
//          waitpoints, and a completion event of its own carries the cascade on. An any_of or quorum that has
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
// in whatever order they come.

#include "reconcile/ending.hpp"
#include "reconcile/phrases.hpp"
#include "reconcile/registry.hpp"
#include "reconcile/waiting_children.hpp"

namespace ff::reconcile {
namespace {

using phrases::event_origin;

std::string of_execution(const std::string& column) {
  return "(SELECT " + column +
         R"sql(
          FROM ff_exec_core c
         WHERE c.partition_key = ANY($1) AND c.partition_key = e.partition_key AND c.execution_id = e.execution_id))sql";
}

// What an event does not say of itself, its execution's row does: FlowFabric writes most events without a namespace
// and a tag. That row is looked up only where the filter asks for what the event lacks.
const std::string kIsOurs = R"sql(e.dispatched_at_ms IS NULL
     AND ($2 IS NULL OR coalesce(e.namespace, )sql" +
                            of_execution("c.raw_fields->>'namespace'") +
                            R"sql() = $2)
     AND ($3 IS NULL OR coalesce(to_jsonb(e.instance_tag), )sql" +
                            of_execution("c.raw_fields->'tags'->$3") + R"sql() = to_jsonb($4)))sql";

const std::string kScan = R"sql(
  SELECT e.partition_key, e.event_id, e.execution_id, e.committed_at_ms AS due_at_ms
    FROM ff_completion_event e
   WHERE e.partition_key = ANY($1)
     AND )sql" + kIsOurs;

// "The group with these counts is satisfied" and "… can never be".
std::string satisfied(std::string_view success, std::string_view n) {
  const std::string s(success);
  return "CASE t.kind WHEN 'any_of' THEN " + s + " >= 1 WHEN 'quorum' THEN " + s + " >= t.k ELSE " + s +
         " = " + std::string(n) + " AND " + std::string(n) + " > 0 END";
}

const std::string kAct = R"sql(
event AS MATERIALIZED (
  SELECT e.partition_key, e.event_id, e.execution_id, e.flow_id, e.outcome, e.committed_at_ms AS due_at_ms, clock.now_ms
    FROM clock, key
    JOIN ff_completion_event e ON e.partition_key = key.partition_key AND e.event_id = key.event_id
   WHERE e.partition_key = ANY($1) AND e.committed_at_ms + 0 <= clock.due_ms
     AND )sql" + kIsOurs +
                         R"sql(
     FOR NO KEY UPDATE OF e SKIP LOCKED
),
meets AS MATERIALIZED (
  SELECT e.partition_key, e.event_id, e.flow_id, d.downstream_eid, e.execution_id, e.outcome,
         count(*)::integer AS edges
    FROM event e
    JOIN ff_edge d ON d.partition_key = e.partition_key AND d.flow_id = e.flow_id AND d.upstream_eid = e.execution_id
   WHERE d.partition_key = ANY($1)
     -- One that is only staged is in no group's counts.
     AND d.policy->>'edge_state' IS DISTINCT FROM 'pending'
     -- Who was resumed has not ended.
     AND e.outcome <> 'resumable'
   GROUP BY e.partition_key, e.event_id, e.flow_id, d.downstream_eid, e.execution_id, e.outcome
),
edge_group AS MATERIALIZED (
  SELECT m.*, g.policy, g.success_count, g.fail_count, g.skip_count, g.running_count
    FROM meets m
    JOIN ff_edge_group g ON g.partition_key = m.partition_key AND g.flow_id = m.flow_id
                        AND g.downstream_eid = m.downstream_eid
   WHERE g.partition_key = ANY($1)
   ORDER BY g.downstream_eid
     FOR NO KEY UPDATE OF g SKIP LOCKED
),
doomed AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, )sql" +
                         phrases::current_attempt("c") +
                         R"sql( AS attempt_index, c.flow_id, clock.now_ms, )sql" + event_origin("c") + R"sql(,
         'skipped' AS public_state, 'attempt_terminal' AS attempt_state, 'cancelled' AS attempt_outcome,
         'revoked' AS lease_event, c.cancellation_reason, c.cancelled_by,
         '{}'::jsonb AS raw_patch
    FROM clock, (SELECT DISTINCT partition_key, downstream_eid FROM edge_group) g
    JOIN ff_exec_core c ON c.partition_key = g.partition_key AND c.execution_id = g.downstream_eid
    )sql" + phrases::as_seen("c") +
                         R"sql(
   WHERE c.partition_key = ANY($1) AND c.lifecycle_phase NOT IN ('terminal', 'cancelled')
     FOR NO KEY UPDATE OF c SKIP LOCKED
),)sql" + ending::hold_doomed() +
                         R"sql(
held_up AS MATERIALIZED (
  SELECT partition_key, event_id
    FROM (SELECT m.partition_key, m.event_id, m.downstream_eid
            FROM meets m
            JOIN ff_edge_group g ON g.partition_key = m.partition_key AND g.flow_id = m.flow_id
                                AND g.downstream_eid = m.downstream_eid
           WHERE g.partition_key = ANY($1)
          EXCEPT
          SELECT partition_key, event_id, downstream_eid FROM edge_group) group_held
   UNION
  SELECT g.partition_key, g.event_id
    FROM edge_group g
    JOIN ff_exec_core c ON c.partition_key = g.partition_key AND c.execution_id = g.downstream_eid
   WHERE c.partition_key = ANY($1) AND c.lifecycle_phase NOT IN ('terminal', 'cancelled')
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
         c.success_count + c.success AS success,
         c.skip_count + c.skip AS skip,
         c.fail_count + c.edges - c.success - c.skip AS fail,
         greatest(c.running_count - c.edges, 0) AS running,
         coalesce(c.policy->>'kind', 'all_of') AS kind,
         )sql" + phrases::whole_number("c.policy->'k'", "1") +
                         R"sql( AS k,
         c.policy->>'on_satisfied' IS NOT DISTINCT FROM 'let_run' AS let_run
    FROM change c
),
verdict AS MATERIALIZED (
  SELECT t.*,
         -- Nobody waits for less than one: what asks for none is satisfied by the first end.
         t.counted_before > 0 AND )sql" +
                         satisfied("t.success_before", "t.n_before") +
                         R"sql( AS was_satisfied,
         )sql" + satisfied("t.success", "(t.success + t.fail + t.skip + t.running)") +
                         R"sql( AS satisfied,
         CASE t.kind
              WHEN 'any_of' THEN t.fail + t.skip >= t.success + t.fail + t.skip + t.running
                             AND t.success + t.fail + t.skip + t.running > 0
              WHEN 'quorum' THEN t.success + t.running < t.k
              ELSE t.fail + t.skip > 0 END AS impossible
    FROM tally t
),
settled AS MATERIALIZED (
  SELECT v.*,
         (SELECT array_agg(DISTINCT c.execution_id::text)
            FROM ff_edge d
            JOIN ff_exec_core c ON c.partition_key = d.partition_key AND c.execution_id = d.upstream_eid
           WHERE d.partition_key = ANY($1) AND c.partition_key = ANY($1)
             AND d.partition_key = v.partition_key AND d.flow_id = v.flow_id AND d.downstream_eid = v.downstream_eid
             AND v.satisfied AND NOT v.was_satisfied AND v.kind IN ('any_of', 'quorum') AND NOT v.let_run
             AND c.lifecycle_phase NOT IN ('terminal', 'cancelled') AND c.public_state <> 'skipped'
             AND c.execution_id <> ALL (v.upstreams)) AS to_cancel
    FROM verdict v
),
counted AS (
  UPDATE ff_edge_group g
     SET success_count = v.success, fail_count = v.fail, skip_count = v.skip, running_count = v.running,
         cancel_siblings_pending_flag = g.cancel_siblings_pending_flag OR v.to_cancel IS NOT NULL,
         cancel_siblings_pending_members = coalesce(v.to_cancel, g.cancel_siblings_pending_members)
    FROM settled v
   WHERE g.partition_key = ANY($1) AND g.partition_key = v.partition_key AND g.flow_id = v.flow_id
     AND g.downstream_eid = v.downstream_eid
),
pending AS (
  INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
  SELECT v.partition_key, v.flow_id, v.downstream_eid, clock.now_ms
    FROM settled v, clock
   WHERE v.to_cancel IS NOT NULL
  ON CONFLICT DO NOTHING
),
ending AS MATERIALIZED (
  SELECT d.*
    FROM endable d
   WHERE (d.partition_key, d.execution_id) NOT IN (
           SELECT partition_key, downstream_eid FROM edge_group
           EXCEPT
           SELECT partition_key, downstream_eid FROM verdict WHERE impossible AND NOT satisfied)
),)sql" + ending::end_executions() +
                         R"sql(
eligible AS (
  UPDATE ff_exec_core c
     SET lifecycle_phase = CASE WHEN c.lifecycle_phase = 'blocked' THEN 'runnable' ELSE c.lifecycle_phase END,
         )sql" + waiting_children::made_eligible() +
                         R"sql(
    FROM verdict v
   WHERE (v.satisfied AND NOT v.was_satisfied
          -- Satisfied long before, it has run and waits for the rest of those that it depends on.
          OR v.running = 0 AND )sql" +
                         waiting_children::condition("c") + R"sql()
     AND c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
     -- On its way already, or with a time of its own.
     AND c.public_state <> 'resumable' AND c.eligibility_state NOT IN ('pending_claim', 'not_eligible_until_time')
     AND (v.partition_key, v.downstream_eid) NOT IN (SELECT partition_key, execution_id FROM ending)
     AND c.partition_key = ANY($1) AND c.partition_key = v.partition_key AND c.execution_id = v.downstream_eid
),
dispatched AS (
  UPDATE ff_completion_event e
     SET dispatched_at_ms = r.now_ms
    FROM ready r
   WHERE e.partition_key = ANY($1) AND e.partition_key = r.partition_key AND e.event_id = r.event_id
),
moved AS (
  SELECT partition_key, event_id, due_at_ms, 'advanced' AS outcome FROM ready
   UNION ALL
  SELECT e.partition_key, e.event_id, e.committed_at_ms, 'noop'
    FROM key
   CROSS JOIN LATERAL (SELECT *
                         FROM ff_completion_event e
                        WHERE e.partition_key = ANY($1) AND e.partition_key = key.partition_key
                          AND e.event_id = key.event_id
                       OFFSET 0) e
   WHERE e.dispatched_at_ms IS NOT NULL
))sql";

}  // namespace

Reconciler dependency() {
  using namespace std::chrono_literals;
  Reconciler events{
      .name = "dependency",
      .summary = "Passes the end of an execution on to those that wait for it.",
      .outcomes = {"advanced", "noop"},
      .left_alone = {"noop"},
      .key = {{"event_id", "bigint"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .privileges = ending::privileges({{"ff_completion_event", "SELECT, UPDATE"},
                                        {"ff_edge", "SELECT"},
                                        {"ff_edge_group", "SELECT, UPDATE"},
                                        {"ff_pending_cancel_groups", "INSERT"}}),
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
  events.companions = {waiting_children::woken(events)};
  return events;
}

}  // namespace ff::reconcile
