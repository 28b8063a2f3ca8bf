#include "audit/check.hpp"

namespace ff::audit {
namespace {

// The groups of those that have not begun, with what their edges say. Nothing is said of a group while an end is still to
// be passed on to it, nor once its downstream was replayed, which sets counts to nought. Only where nobody is told of an
// end is it known by the rows that it should have been.
constexpr std::string_view kGroups = R"sql(
SELECT p.problem, g.partition_key, g.downstream_eid::text AS key, concat_ws(',', g.xmin, c.seen, t.seen) AS seen,
       format('%s success, %s failed, %s skipped, %s running of %s edges: %s, %s, %s, %s of the upstreams, %s',
              g.success_count, g.fail_count, g.skip_count, g.running_count, t.edges, t.success, t.fail, t.skip, t.running,
              coalesce(g.policy->>'kind', 'all_of')) AS what,
       g.flow_id, t.success, t.fail, t.skip, t.running
  FROM {schema}.ff_edge_group g
  JOIN {core:g, downstream_eid} c ON true
 CROSS JOIN LATERAL (
   SELECT count(*) AS edges, count(*) FILTER (WHERE u.word = 'success') AS success,
          count(*) FILTER (WHERE u.word = 'fail') AS fail, count(*) FILTER (WHERE u.word = 'skip') AS skip,
          count(*) FILTER (WHERE u.word = 'running') AS running, count(*) FILTER (WHERE u.word IS NULL) AS unknown,
          coalesce(bool_or(u.is_new), false) AS is_new, coalesce(bool_or(u.replayed), false) AS replayed,
          string_agg(concat_ws('.', d.xmin, u.seen), ',' ORDER BY d.edge_id) AS seen
     FROM {schema}.ff_edge d
     LEFT JOIN {upstream:d} u ON true
    WHERE {in_partitions:d} AND d.partition_key = g.partition_key AND d.flow_id = g.flow_id
      AND d.downstream_eid = g.downstream_eid AND {is_applied:d}
 ) t
 CROSS JOIN LATERAL (SELECT g.success_count::bigint AS success, g.fail_count::bigint + g.skip_count AS bad,
                            g.success_count::bigint + g.fail_count + g.skip_count + g.running_count AS in_all,
                            {policy_of:g}) n
 -- What group_recount mends, once nobody lives, or where it decides the group and no end of a former run can be in the
 -- counts. Of anything else: right
 -- counts alone wake no parent whose children they decide while one of these lives, as its event has passed.
 CROSS JOIN LATERAL (
   SELECT t.edges > t.running AND g.running_count > t.running
            AND (t.running = 0
                 OR NOT t.replayed AND g.success_count <= t.success AND g.fail_count <= t.fail
                    AND g.skip_count <= t.skip AND {is_decided:n, t.success, (t.fail + t.skip), t.running}
                    AND NOT {is_decided:n, n.success, n.bad, g.running_count}) AS is_lost,
          CASE WHEN c.blocking_reason IS DISTINCT FROM 'waiting_for_children'
                    OR c.eligibility_state <> 'blocked_by_dependencies' OR t.running = 0 THEN 'group_miscounted'
               WHEN n.kind = 'all_of' AND t.fail + t.skip > 0 THEN 'children_failed'
               WHEN n.kind <> 'all_of' AND {satisfied:n, t.success, t.edges}
                    AND NOT {satisfied:n, n.success, n.in_all} THEN 'children_miscounted'
               ELSE 'group_miscounted' END AS problem
 ) m
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN least(g.success_count, g.fail_count, g.skip_count, g.running_count) < 0 THEN 'group_below_nought'
     WHEN g.policy->>'kind' NOT IN ('all_of', 'any_of', 'quorum') THEN 'group_of_no_kind'
     WHEN t.unknown > 0 OR t.is_new OR NOT {not_replayed:c} THEN NULL
     WHEN m.is_lost AND NOT g.cancel_siblings_pending_flag AND c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
       THEN 'group_waits_for_ended'
     WHEN n.in_all <> t.edges OR g.running_count < t.running AND NOT t.replayed OR g.running_count > t.running
       THEN m.problem
     -- What a replayed upstream counted in its former run stands there while it runs again.
     WHEN (g.success_count, g.fail_count, g.skip_count, g.running_count) <> (t.success, t.fail, t.skip, t.running) THEN
       CASE WHEN NOT (t.replayed AND t.running > 0) THEN m.problem END
     -- From here on it counts what its upstreams say.
     WHEN c.lifecycle_phase NOT IN ('submitted', 'runnable', 'blocked') THEN NULL
     -- A flow may still be built: its policy is set before its first edge, and edges come one by one.
     WHEN n.in_all = 0 THEN
       CASE WHEN c.created_at_ms < {now} - 3600000
                 AND (c.lifecycle_phase = 'blocked' OR c.eligibility_state = 'blocked_by_dependencies')
                 AND NOT {has_staged:g} THEN 'blocked_without_edges' END
     WHEN c.blocking_reason = 'waiting_for_children' AND c.eligibility_state = 'blocked_by_dependencies' THEN
       CASE WHEN g.running_count = 0 AND {waits_long:c} THEN 'children_ended' END
     -- Of all_of, an edge that is only staged may be one more.
     -- What asks for none is satisfied by the first end.
     WHEN n.in_all > g.running_count AND {satisfied:n, n.success, n.in_all} THEN
       CASE WHEN (c.lifecycle_phase = 'blocked' OR c.eligibility_state = 'blocked_by_dependencies')
                 AND NOT (n.kind = 'all_of' AND {has_staged:g}) THEN 'satisfied_but_blocked' END
     -- One failure is enough for all_of. Else what runs decides it when it ends, and an edge may still come.
     WHEN {impossible:n, n.success, n.bad, g.running_count} AND c.started_at_ms IS NULL
          AND (n.kind = 'all_of' OR g.running_count = 0 AND NOT {has_staged:g}) THEN 'impossible_but_waiting'
   END AS problem
 ) p
 WHERE {in_partitions:g} AND {has_not_ended:c} AND p.problem IS NOT NULL)sql";

// One that has an edge is to get its group back (edge_without_group), or its edge applied (edge_never_applied), and not to
// begin before its upstream.
constexpr std::string_view kWithoutGroup = R"sql(
SELECT 'blocked_without_group' AS problem, c.partition_key, c.execution_id::text AS key, c.xmin::text AS seen,
       concat_ws(', ', 'flow ' || coalesce(c.flow_id::text, 'none'), c.blocking_reason) AS what
  FROM {living}
 WHERE (c.lifecycle_phase = 'blocked' OR c.lifecycle_phase IN ('submitted', 'runnable')
                                         AND c.eligibility_state = 'blocked_by_dependencies')
   AND NOT EXISTS (SELECT
                     FROM {schema}.ff_edge_group g
                    WHERE {in_partitions:g} AND g.partition_key = c.partition_key AND g.flow_id = c.flow_id
                      AND g.downstream_eid = c.execution_id)
   AND NOT EXISTS (SELECT
                     FROM {schema}.ff_edge d
                    WHERE {in_partitions:d} AND d.partition_key = c.partition_key AND d.flow_id = c.flow_id
                      AND d.downstream_eid = c.execution_id))sql";

constexpr std::string_view kCancels = R"sql(
SELECT p.problem, g.partition_key, g.downstream_eid::text AS key, g.xmin::text AS seen,
       format('flag %s, %s members', g.cancel_siblings_pending_flag, cardinality(g.cancel_siblings_pending_members))
         AS what,
       g.flow_id
  FROM {schema}.ff_edge_group g
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN NOT g.cancel_siblings_pending_flag THEN 'cancel_list_left'
     WHEN NOT EXISTS (SELECT
                        FROM {schema}.ff_pending_cancel_groups q
                       WHERE {in_partitions:q} AND q.partition_key = g.partition_key AND q.flow_id = g.flow_id
                         AND q.downstream_eid = g.downstream_eid) THEN 'cancel_forgotten'
   END AS problem
 ) p
 WHERE {in_partitions:g} AND (g.cancel_siblings_pending_flag OR g.cancel_siblings_pending_members <> '{}')
   AND p.problem IS NOT NULL)sql";

constexpr std::string_view kPending = R"sql(
SELECT CASE WHEN g.cancel_siblings_pending_flag THEN 'cancel_overdue' ELSE 'cancel_entry_left' END AS problem,
       q.partition_key, q.downstream_eid::text AS key, concat_ws(',', q.xmin, g.xmin) AS seen,
       format('enqueued_at_ms %s, group %s', q.enqueued_at_ms,
              CASE WHEN g.xmin IS NULL THEN 'missing'
                   ELSE 'with ' || cardinality(g.cancel_siblings_pending_members) || ' members' END) AS what
  FROM {schema}.ff_pending_cancel_groups q
  LEFT JOIN LATERAL (SELECT i.xmin, i.cancel_siblings_pending_flag, i.cancel_siblings_pending_members
                       FROM {schema}.ff_edge_group i
                      WHERE {in_partitions:i} AND i.partition_key = q.partition_key AND i.flow_id = q.flow_id
                        AND i.downstream_eid = q.downstream_eid
                     OFFSET 0) g ON true
 WHERE {in_partitions:q} AND q.enqueued_at_ms < {long_ago})sql";

std::vector<Check> of_groups() {
  const std::string recount =
      "UPDATE ff_edge_group SET success_count = {$success}, fail_count = {$fail}, skip_count = {$skip}, "
      "running_count = "
      "{$running} {of_group};";
  const std::string recount_and_look = recount + " -- then audit again: the counts may decide it";
  return {
      {"group_below_nought", "a count of its fan-in is below nought", recount_and_look},
      {"group_of_no_kind",
       "the policy of its fan-in is of a kind that nobody knows: it waits for all, whatever was meant",
       "UPDATE ff_edge_group SET policy = policy || '{\"kind\": \"all_of\"}' {of_group}; -- as it is decided "
       "now; or with the kind that is meant"},
      {"group_miscounted",
       "its fan-in counts otherwise than its edges and how their upstreams ended: one ended twice or was "
       "replayed, or counts were lost",
       recount_and_look},
      {"children_miscounted",
       "it waits for its children, and its fan-in counts otherwise than they ended: enough of them have "
       "succeeded, and nobody wakes it while others live",
       recount + " {core:{eligible}}"},
      {"children_failed",
       "it waits for its children, and its fan-in counts otherwise than they ended: one has failed, and "
       "nobody ends it while others live",
       recount + " -- then cancel it (FlowFabric's cancel_execution): all are needed"},
      {"group_waits_for_ended",
       "its fan-in counts upstreams as running that have ended and were passed on, as an edge that is "
       "applied too late does",
       "{tick:group_recount}"},
      {"children_ended", "its children have ended, and nobody has woken it", "{tick:dependency}"},
      {"blocked_without_edges",
       "it has waited for others for more than an hour, but no edge says for whom: it waits for ever",
       "{core:{eligible}}"},
      {"satisfied_but_blocked", "what it waits for has happened, and nobody has made it eligible",
       "{core:{eligible}}"},
      {"impossible_but_waiting", "what it waits for cannot happen any more, and nobody has ended it",
       "WITH ended AS ({core_set:public_state = 'skipped', lifecycle_phase = 'terminal', {ended}} RETURNING "
       "*) "
       "INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, occurred_at_ms) "
       "SELECT "
       "partition_key, execution_id, flow_id, 'skipped', terminal_at_ms FROM ended;"}};
}

}  // namespace

std::vector<Sweep> sweeps_of_fan_ins() {
  return {
      {.sql = std::string(kGroups), .checks = of_groups()},
      {.sql = std::string(kWithoutGroup),
       .checks = {{"blocked_without_group",
                   "it waits for others, but no fan-in is there that could end that: it waits for ever",
                   "{core:{eligible}}"}}},
      {.sql = std::string(kCancels),
       .checks =
           {{"cancel_list_left", "its fan-in lists siblings to cancel, but does not say that they are to be",
             "UPDATE ff_edge_group SET cancel_siblings_pending_members = '{}' {of_group};"},
            {"cancel_forgotten",
             "siblings that its fan-in no longer needs are to be cancelled, but no entry leads anybody there",
             "INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms) "
             "VALUES "
             "({$partition_key}, '{$flow_id}', '{$key}', floor(extract(epoch FROM clock_timestamp()) * "
             "1000)::bigint) ON CONFLICT DO NOTHING; -- edge_cancel_dispatcher does the rest"}}},
      {.sql = std::string(kPending),
       .checks = {
           {"cancel_overdue",
            "siblings that its fan-in no longer needs have waited to be cancelled for more than a minute",
            "{tick:edge_cancel_dispatcher}"},
           {"cancel_entry_left", "a request to cancel siblings that no fan-in makes any more",
            "{tick:edge_cancel_reconciler}"}}}};
}

}  // namespace ff::audit
