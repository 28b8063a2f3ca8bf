// group_recount: fan-ins that have lost an end: they count more upstreams as running than live.
//
// Rows     ff_edge_group whose running_count is above the number of its applied edges with a living upstream, and whose
//          downstream has not begun or waits again. Every upstream that has ended has to be told of, all of that has to be
//          dispatched, and no edge is still to be applied. They were misled: an edge that is applied after its upstream's
//          end is counted as running for ever, and so is one whose event a dispatcher marked and did not live to pass on.
//          Both look for a moment like what is being done right now (FlowFabric marks an event first, and changes groups
//          later), so a digest of all that is asked for has to stand still for a minute; of a sibling that lives only that it
//          does, for it may work for ever. While one lives, the true counts have to decide the group, and the old ones must
//          not: an end that a frozen dispatcher counts once more could else begin a downstream too early. They have to be no less than those that stand there, and no
//          upstream may ever have been replayed: an end of a former run may stand in the counts, and rightly so. Due since
//          the last of the ends.
// Changes  the counts, which become how the upstreams have ended: as the newest event of the present run of each says, or
//          where there is none and the end is so old that completion_repair does not write one any more, as its rows do;
//          and how many live. Then the downstream as dependency would: eligible where these counts satisfy the group and
//          the old ones did not, ended as skipped where they never will, and the siblings that an any_of or quorum no
//          longer needs are listed for edge_cancel_dispatcher. A group that was satisfied is never made impossible, and a
//          downstream that an operator has replayed after its fan-in had become impossible is not ended again.
// Others   Both dispatchers, whoever stages and applies edges, and replicas write the group: it is locked first, and all of
//          it asked again; with other counts it is another row. A sibling that ends meanwhile is counted behind us: its event
//          waits for the group. A downstream that an operator has replayed since an end is left alone, unless it is blocked
//          by dependencies: nothing tells which ends are meant for it. A dispatcher that is frozen for more than the minute,
//          between its mark and its effect, counts a second time.
// Repeat   No more are counted as running afterwards than live, so the row is not found again.
//
// Who has not begun may be a million: they are walked through, and the living are counted before anything dearer is asked.

#include "reconcile/family/ending.hpp"
#include "reconcile/family/fan_in.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/family/replay.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile {
namespace {

using namespace std::chrono_literals;

// Of a completion_repair that does not run.
constexpr Milliseconds kMaxAge = 24h;

constexpr std::string_view kScan = R"sql(
  -- Partition and execution are those of the core row, so that whoever asks for one reads no other's.
  SELECT c.partition_key, g.flow_id, c.execution_id AS downstream_eid, {digest:g, u} AS digest,
         {not_later:u.last_end} AS due_at_ms
    FROM {waiting_by_lane} c
    -- Looked up by its key, execution by execution.
    JOIN LATERAL (SELECT *
                    FROM {schema}.ff_edge_group g
                   WHERE {in_partitions:g} AND g.partition_key = c.partition_key AND g.flow_id = c.flow_id
                     AND g.downstream_eid = c.execution_id AND {may_be_misled:g}
                     AND g.running_count > (
                           SELECT count(*)
                             FROM {schema}.ff_edge l
                             JOIN {core_by:l, upstream_eid} u ON true
                            WHERE {in_partitions:l} AND l.partition_key = g.partition_key AND l.flow_id = g.flow_id
                              AND l.downstream_eid = g.downstream_eid AND {lives:l, u})
                  OFFSET 0) g ON true
   CROSS JOIN LATERAL ({ends_of:g}) u
   WHERE c.flow_id IS NOT NULL AND {is_misled:g, u} AND {is_not_in_other_hands:c, u} AND {filter:c})sql";

constexpr std::string_view kLock = R"sql(
locked AS MATERIALIZED (
  SELECT g.partition_key, g.flow_id, g.downstream_eid, key.digest
    FROM key
    JOIN {schema}.ff_edge_group g ON g.partition_key = key.partition_key AND g.flow_id = key.flow_id
                                 AND g.downstream_eid = key.downstream_eid
   WHERE {in_partitions:g} AND {may_be_misled:g}
     FOR NO KEY UPDATE OF g SKIP LOCKED
))sql";

constexpr std::string_view kAct = R"sql(
edge_group AS MATERIALIZED (
  SELECT g.partition_key, g.flow_id, g.downstream_eid, g.policy, g.success_count, g.fail_count, g.skip_count,
         g.running_count, key.digest, clock.due_ms
    FROM clock, key
    JOIN {schema}.ff_edge_group g ON g.partition_key = key.partition_key AND g.flow_id = key.flow_id
                                 AND g.downstream_eid = key.downstream_eid
   WHERE {in_partitions:g} AND {may_be_misled:g}
),
misled AS MATERIALIZED (
  SELECT g.*, u.success, u.fail, u.skip, u.living, u.first_end, {not_later:u.last_end} AS due_at_ms
    FROM edge_group g
   CROSS JOIN LATERAL ({ends_of:g}) u
   WHERE {is_misled:g, u} AND {digest:g, u} = g.digest AND {not_later:u.last_end} <= g.due_ms
     AND {in_sight:ff_edge, ff_exec_core, ff_flow_core, ff_completion_event, ff_attempt}
),
doomed AS MATERIALIZED (
  SELECT {doomed:c},
         'skipped' AS public_state, 'attempt_terminal' AS attempt_state, 'cancelled' AS attempt_outcome,
         'revoked' AS lease_event, c.cancellation_reason, c.cancelled_by,
         '{}'::jsonb AS raw_patch, {was_replayed:c}
    FROM clock, misled m
    JOIN {schema}.ff_exec_core c ON {found_by:c, m, downstream_eid}
    {as_seen:c}
   WHERE {in_partitions:c} AND c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
     AND {is_not_in_other_hands:c, m} AND {filter:c}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
{hold_doomed},
tally AS MATERIALIZED (
  SELECT m.partition_key, m.flow_id, m.downstream_eid, m.digest, m.due_at_ms, m.success, m.fail, m.skip, m.living AS running,
         m.success_count AS success_before, m.success_count + m.fail_count + m.skip_count AS counted_before,
         m.running_count AS running_before,
         m.success_count + m.fail_count + m.skip_count + m.running_count AS n_before,
         {policy_of:m}, {lets_run:m} AS let_run,
         -- Who lives is none of them.
         '{}'::uuid[] AS upstreams
    FROM misled m
   -- IS TRUE: a bare IN becomes a join, which compares each row with each.
   WHERE ((m.partition_key, m.downstream_eid) IN (SELECT partition_key, execution_id FROM endable)) IS TRUE
),
verdict AS MATERIALIZED (
  SELECT t.*,
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
   WHERE ((d.partition_key, d.execution_id) IN (
           SELECT partition_key, downstream_eid FROM verdict
            WHERE impossible AND NOT satisfied AND NOT was_satisfied)) IS TRUE
     AND NOT {brought_back:d}
),
{end_executions},
eligible AS (
  {make_eligible}
),
moved AS (SELECT partition_key, flow_id, downstream_eid, digest, due_at_ms, 'recounted' AS outcome FROM verdict))sql";

// One row a group: how its upstreams have ended, and how many live, once for each applied edge.
constexpr std::string_view kEndsOf = R"sql(
     SELECT coalesce(bool_and(w.lives OR w.word IS NOT NULL), false) AS all_told,
            count(*) FILTER (WHERE w.word = 'success')::integer AS success,
            count(*) FILTER (WHERE w.word = 'skipped')::integer AS skip,
            count(*) FILTER (WHERE w.word NOT IN ('success', 'skipped'))::integer AS fail,
            count(*) FILTER (WHERE w.lives)::integer AS living,
            coalesce(bool_or(e.raw_fields->>'replay_count' IS NOT NULL), false) AS any_replayed,
            min(e.terminal_at_ms) FILTER (WHERE NOT w.lives) AS first_end,
            max(e.terminal_at_ms) FILTER (WHERE NOT w.lives) AS last_end,
            {policy_of:{group}},
            string_agg(concat_ws(' ', d.edge_id, d.upstream_eid, d.policy->>'edge_state',
                                 CASE WHEN w.lives THEN 'lives'
                                      ELSE concat_ws(' ', e.lifecycle_phase, e.terminal_at_ms, w.word) END),
                       ',' ORDER BY d.edge_id) AS ends
       FROM {schema}.ff_edge d
       LEFT JOIN {core_by:d, upstream_eid} e ON true
      CROSS JOIN LATERAL (
        SELECT ({lives:d, e}) IS TRUE AS lives,
               CASE WHEN {is_over:d, e}
                    THEN coalesce({told_end:e},
                                  CASE WHEN e.terminal_at_ms < (SELECT now_ms FROM clock) - {max_age}
                                       THEN {word_of_end:e} END) END AS word
       OFFSET 0) w
      WHERE {in_partitions:d} AND d.partition_key = {group}.partition_key AND d.flow_id = {group}.flow_id
        AND d.downstream_eid = {group}.downstream_eid)sql";

std::vector<Fragment> own_fragments() {
  return with(
      fan_in::fragments(),
      {{"ends_of(group)", std::string(kEndsOf)},
       {"may_be_misled(group)", "{group}.running_count > 0 AND NOT {group}.cancel_siblings_pending_flag"},
       {"lives(edge, upstream)", "{is_applied:{edge}} AND {has_not_ended:{upstream}}"},
       // "It counts one as running that is over." While somebody lives, only where that is not the end of a former run, and
       // only where it decides the group.
       {"is_misled(group, ends)",
        R"sql(({ends}.all_told AND {ends}.last_end IS NOT NULL AND {group}.running_count > {ends}.living
          AND ({ends}.living = 0
               OR NOT {ends}.any_replayed AND {group}.success_count <= {ends}.success
                  AND {group}.fail_count <= {ends}.fail AND {group}.skip_count <= {ends}.skip
                  AND {is_decided:{ends}, {ends}.success, ({ends}.fail + {ends}.skip), {ends}.living}
                  AND NOT {is_decided:{ends}, {group}.success_count, ({group}.fail_count + {group}.skip_count),
                           {group}.running_count})))sql"},
       // "The edge is applied, its upstream has ended, and nothing that told of it is still to be passed on." Events are
       // found by ff_completion_event_lookup_idx, not by the index of what is undispatched, where a backlog stands.
       {"is_over(edge, upstream)",
        R"sql(({has_ended:{upstream}} AND {upstream}.terminal_at_ms IS NOT NULL
           AND {is_applied:{edge}}
           AND (SELECT true
                  FROM {schema}.ff_completion_event n
                 WHERE {in_partitions:n} AND {same_execution:n, {upstream}} AND n.dispatched_at_ms + 0 IS NULL
                   AND n.outcome <> 'resumable'
                 LIMIT 1) IS NULL))sql"},
       // All that has to stand still. Ten minutes after the last of the ends the growth of its
       // flow counts no more: it may go on for ever.
       {"digest(group, ends)",
        R"sql(hashtextextended(concat_ws('|', {group}.policy::text, {group}.success_count, {group}.fail_count,
                                        {group}.skip_count, {group}.running_count,
                                        (SELECT f.graph_revision
                                           FROM {schema}.ff_flow_core f
                                          WHERE {in_partitions:f} AND f.partition_key = {group}.partition_key
                                            AND f.flow_id = {group}.flow_id
                                            AND {ends}.last_end > (SELECT now_ms FROM clock) - {longest_growth}),
                                        {ends}.ends), 0)::text)sql"},
       {"longest_growth", "600000"},
       {"is_not_in_other_hands(core, ends)",
        R"sql(({core}.raw_fields->>'replay_count' IS NULL OR {core}.eligibility_state = 'blocked_by_dependencies'
         OR {replayed_at:{core}} < {ends}.first_end))sql"}});
}

}  // namespace

Reconciler group_recount() {
  return {.name = "group_recount",
          .summary = "Counts a fan-in anew that still waits for upstreams which are over.",
          .no_rows = "no fan-in of its waits for upstreams that are over",
          .outcomes = {"recounted"},
          .ends_others = "what it waited for had become impossible",
          .key = {{"flow_id", "uuid"}, {"downstream_eid", "uuid"}, {"digest", "text"}},
          .execution_column = "downstream_eid",
          .scan = kScan,
          .act = kAct,
          .lock = kLock,
          .fragments = own_fragments(),
          .privileges = ending::privileges(replay::privileges({{"ff_edge", "SELECT"},
                                                               {"ff_flow_core", "SELECT"},
                                                               {"ff_edge_group", "SELECT, UPDATE"},
                                                               {"ff_pending_cancel_groups", "INSERT"}})),
          .interval = 10s,
          .batch_size = 500,
          .still_for = 60s,
          .walk = {{.table = "ff_exec_core",
                    .key = "execution_id",
                    .rows = 4000,
                    .phases = "'submitted', 'runnable', 'blocked'"}},
          .foreseen = false,
          .holdoff = [](const Settings&) { return Milliseconds{0}; },
          .own_parameters = {"max_age"},
          .parameters =
              [](const Settings&, const Family& family) {
                const Settings* repair = family.find("completion_repair");
                return pg::Params::of(repair != nullptr ? *repair->at("max_age") : kMaxAge.count());
              }};
}

}  // namespace ff::reconcile
