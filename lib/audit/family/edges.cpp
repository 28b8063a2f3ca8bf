#include "audit/check.hpp"

namespace ff::audit {
namespace {

constexpr std::string_view kEdges = R"sql(
SELECT p.problem, d.partition_key, d.downstream_eid::text AS key, concat_ws(',', d.xmin, c.seen, u.seen) AS seen,
       format('edge %s from %s in flow %s', d.edge_id, d.upstream_eid, d.flow_id) AS what,
       d.flow_id, d.edge_id
  FROM {schema}.ff_edge d
  LEFT JOIN {core:d, downstream_eid} c ON true
  LEFT JOIN {core:d, upstream_eid} u ON true
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN c.lifecycle_phase IS NULL THEN 'downstream_missing'
     WHEN {has_ended:c} THEN NULL
     -- As for other rules, an hour is enough to build a flow.
     WHEN {staged:d} THEN
       CASE WHEN {moment:d.policy->>'staged_at_ms'} < {now} - 3600000 THEN 'edge_never_applied' END
     WHEN c.flow_id IS DISTINCT FROM d.flow_id THEN 'edge_of_another_flow'
     WHEN d.upstream_eid = d.downstream_eid THEN 'edge_to_itself'
     WHEN NOT EXISTS (SELECT
                        FROM {schema}.ff_edge_group g
                       WHERE {in_partitions:g} AND g.partition_key = d.partition_key AND g.flow_id = d.flow_id
                         AND g.downstream_eid = d.downstream_eid) THEN 'edge_without_group'
     WHEN u.lifecycle_phase IS NULL THEN 'upstream_missing'
     -- Of one that has ended, group_recount tells its fan-in.
     WHEN u.flow_id IS DISTINCT FROM d.flow_id AND {has_not_ended:u} THEN 'upstream_of_another_flow'
   END AS problem
 ) p
 WHERE {in_partitions:d} AND p.problem IS NOT NULL)sql";

// What waits for all of several is taken away from both ends, round by round, where nothing leads to it or nothing leads
// away from it; a circle stays. A flow that takes more than the bounds below is left out, and a fan-in that some upstream
// may yet satisfy alone. FlowFabric blocks nobody as it applies an edge: members stay submitted. A parent waits until all
// its children have ended, whatever their policy.
constexpr std::string_view kCircles = R"sql(
WITH RECURSIVE waiting AS MATERIALIZED (
  SELECT c.partition_key, c.flow_id, c.execution_id, concat_ws('.', c.xmin, g.xmin) AS seen
    FROM {living}
   CROSS JOIN LATERAL (SELECT i.xmin, i.running_count, {kind_of:i} AS kind
                         FROM {schema}.ff_edge_group i
                        WHERE {in_partitions:i} AND i.partition_key = c.partition_key AND i.flow_id = c.flow_id
                          AND i.downstream_eid = c.execution_id
                       OFFSET 0) g
   WHERE CASE WHEN c.eligibility_state = 'blocked_by_dependencies' AND c.blocking_reason = 'waiting_for_children'
              THEN c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
              WHEN g.kind <> 'all_of' THEN false
              WHEN c.lifecycle_phase = 'submitted' THEN g.running_count > 0
              ELSE c.lifecycle_phase = 'blocked'
                   OR c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'blocked_by_dependencies' END
),
-- Flow by flow, and not one by one: without statistics the planner takes the index of the upstreams.
edge AS MATERIALIZED (
  SELECT d.partition_key, d.flow_id, d.edge_id, d.upstream_eid, d.downstream_eid, d.xmin::text AS seen
    FROM (SELECT DISTINCT partition_key, flow_id FROM waiting) f
   CROSS JOIN LATERAL (SELECT i.*, i.xmin
                         FROM {schema}.ff_edge i
                        WHERE {in_partitions:i} AND i.partition_key = f.partition_key AND i.flow_id = f.flow_id
                          AND i.upstream_eid <> i.downstream_eid AND {is_applied:i}
                       OFFSET 0) d
   WHERE (d.partition_key, d.flow_id, d.upstream_eid) IN (SELECT partition_key, flow_id, execution_id FROM waiting)
     AND (d.partition_key, d.flow_id, d.downstream_eid) IN (SELECT partition_key, flow_id, execution_id FROM waiting)
),
round AS (
  SELECT partition_key, flow_id, array_agg(upstream_eid) AS ups, array_agg(downstream_eid) AS downs, 0::bigint AS read,
         false AS is_last
    FROM edge
   GROUP BY partition_key, flow_id
  HAVING count(*) <= 10000
   UNION ALL
  SELECT r.partition_key, r.flow_id, n.ups, n.downs, r.read + cardinality(r.ups), cardinality(n.ups) = cardinality(r.ups)
    FROM round r
   CROSS JOIN LATERAL (SELECT array_agg(e.up) AS ups, array_agg(e.down) AS downs
                         FROM unnest(r.ups, r.downs) AS e(up, down)
                        WHERE e.up IN (SELECT unnest(r.downs)) AND e.down IN (SELECT unnest(r.ups))) n
   WHERE NOT r.is_last AND r.read < 200000 AND n.ups IS NOT NULL
)
SELECT 'waits_in_circle' AS problem, r.partition_key, e.downstream_eid::text AS key, e.seen,
       format('edge %s from %s in flow %s, one of %s among those that wait for each other', e.edge_id, e.upstream_eid,
              r.flow_id, cardinality(r.ups)) AS what,
       r.flow_id, e.edge_id
  FROM round r
 CROSS JOIN LATERAL (SELECT (array_agg(i.downstream_eid ORDER BY i.edge_id DESC))[1] AS downstream_eid,
                            (array_agg(i.upstream_eid ORDER BY i.edge_id DESC))[1] AS upstream_eid,
                            (array_agg(i.edge_id ORDER BY i.edge_id DESC))[1] AS edge_id,
                            string_agg(concat_ws('.', i.seen, w.seen), ',' ORDER BY i.edge_id) AS seen
                       FROM edge i
                       JOIN waiting w ON w.partition_key = i.partition_key AND w.flow_id = i.flow_id
                                     AND w.execution_id = i.downstream_eid
                      WHERE i.partition_key = r.partition_key AND i.flow_id = r.flow_id
                        AND i.upstream_eid = ANY (r.downs) AND i.downstream_eid = ANY (r.ups)) e
 WHERE r.is_last)sql";

}  // namespace

std::vector<Sweep> sweeps_of_edges() {
  const std::string delete_edge = "DELETE FROM ff_edge {of_edge};";
  const std::string uncount =
      delete_edge +
      " UPDATE ff_edge_group SET running_count = greatest(running_count - 1, 0) {of_group}; "
      "-- then audit again";
  return {
      {.sql = std::string(kEdges),
       .checks =
           {{"downstream_missing", "an edge to an execution that is not there", delete_edge},
            {"edge_of_another_flow", "an edge to it belongs to a flow that it is not in", delete_edge},
            {"edge_never_applied",
             "an edge to it was staged more than an hour ago and never applied: nothing makes it wait for "
             "that upstream",
             "/* FlowFabric's apply_dependency_to_child applies the edge; where it is not meant: */ " +
                 delete_edge},
            {"edge_without_group",
             "it has an edge, but no fan-in that counts it: the end of its upstream would count for nothing",
             "INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, running_count) "
             "SELECT "
             "partition_key, flow_id, downstream_eid, '{\"kind\": \"all_of\"}', count(*) FROM ff_edge WHERE "
             "partition_key = {$partition_key} AND flow_id = '{$flow_id}' AND downstream_eid = '{$key}' AND "
             "policy->>'edge_state' IS DISTINCT FROM 'pending' GROUP BY 1, 2, 3 ON CONFLICT DO NOTHING; -- "
             "or "
             "with the policy that is meant; then audit again"},
            {"edge_to_itself", "it waits for itself, and so for ever", uncount},
            {"upstream_missing", "it waits for an execution that is not there", uncount},
            {"upstream_of_another_flow",
             "it waits for an execution of another flow: the end of that one is not passed on to it",
             uncount}}},
      {.sql = std::string(kCircles),
       .checks = {{"waits_in_circle",
                   "it waits for one that waits for it, by way of others or not, and so for ever",
                   uncount + "; or another edge of the circle"}}}};
}

}  // namespace ff::audit
