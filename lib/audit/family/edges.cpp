#include "audit/check.hpp"

namespace ff::audit {
namespace {

constexpr std::string_view kEdges = R"sql(
SELECT p.problem, d.partition_key, d.downstream_eid::text AS key, concat_ws(',', d.xmin, c.seen) AS seen,
       format('edge %s from %s in flow %s', d.edge_id, d.upstream_eid, d.flow_id) AS what,
       d.flow_id, d.edge_id
  FROM {schema}.ff_edge d
  LEFT JOIN {core:d, downstream_eid} c ON true
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN c.lifecycle_phase IS NULL THEN 'downstream_missing'
     WHEN {has_ended:c} OR NOT {applied:d} THEN NULL
     WHEN c.flow_id IS DISTINCT FROM d.flow_id THEN 'edge_of_another_flow'
     WHEN d.upstream_eid = d.downstream_eid THEN 'edge_to_itself'
     WHEN NOT EXISTS (SELECT
                        FROM {schema}.ff_edge_group g
                       WHERE {in_partitions:g} AND g.partition_key = d.partition_key AND g.flow_id = d.flow_id
                         AND g.downstream_eid = d.downstream_eid) THEN 'edge_without_group'
     WHEN NOT EXISTS (SELECT
                        FROM {schema}.ff_exec_core u
                       WHERE {in_partitions:u} AND u.partition_key = d.partition_key
                         AND u.execution_id = d.upstream_eid) THEN 'upstream_missing'
   END AS problem
 ) p
 WHERE {in_partitions:d} AND p.problem IS NOT NULL)sql";

}  // namespace

std::vector<Sweep> sweeps_of_edges() {
  const std::string delete_edge = "DELETE FROM ff_edge {of_edge};";
  const std::string uncount =
      delete_edge +
      " UPDATE ff_edge_group SET running_count = greatest(running_count - 1, 0) {of_group}; "
      "-- then audit again";
  return {
      {.sql = std::string(kEdges),
       .checks = {
           {"downstream_missing", "an edge to an execution that is not there", delete_edge},
           {"edge_of_another_flow", "an edge to it belongs to a flow that it is not in", delete_edge},
           {"edge_without_group",
            "it has an edge, but no fan-in that counts it: the end of its upstream would count for nothing",
            "INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, running_count) "
            "SELECT "
            "partition_key, flow_id, downstream_eid, '{\"kind\": \"all_of\"}', count(*) FROM ff_edge WHERE "
            "partition_key = {$partition_key} AND flow_id = '{$flow_id}' AND downstream_eid = '{$key}' AND "
            "policy->>'edge_state' IS DISTINCT FROM 'pending' GROUP BY 1, 2, 3 ON CONFLICT DO NOTHING; -- or "
            "with the policy that is meant; then audit again"},
           {"edge_to_itself", "it waits for itself, and so for ever", uncount},
           {"upstream_missing", "it waits for an execution that is not there", uncount}}}};
}

}  // namespace ff::audit
