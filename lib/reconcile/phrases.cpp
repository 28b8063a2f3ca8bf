#include "reconcile/phrases.hpp"

namespace ff::reconcile::phrases {
namespace {

std::string replaced(std::string text, std::string_view mark, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += with.size())
    text.replace(at, mark.size(), with);
  return text;
}

}  // namespace

std::string core_of(std::string_view row, std::string_view execution) {
  return replaced(
      "LATERAL (SELECT * FROM ff_exec_core e WHERE e.partition_key = ANY($1)"
      " AND e.partition_key = row.partition_key AND e.execution_id = row." +
          std::string(execution) + " OFFSET 0)",
      "row.", std::string(row) + ".");
}

std::string current_attempt(std::string_view core) {
  return replaced(
      "(SELECT i.attempt_index FROM ff_attempt i"
      " WHERE i.partition_key = ANY($1)"
      " AND i.partition_key = core.partition_key AND i.execution_id = core.execution_id"
      " ORDER BY (core.lifecycle_phase = 'active' AND i.lease_expires_at_ms IS NOT NULL) DESC, "
      "i.attempt_index DESC"
      " LIMIT 1)",
      "core.", std::string(core) + ".");
}

std::string as_seen(std::string_view core) {
  return replaced(
      "JOIN ff_exec_core seen ON seen.partition_key = ANY($1)"
      " AND seen.partition_key = core.partition_key AND seen.execution_id = core.execution_id"
      " AND seen.xmin = core.xmin",
      "core.", std::string(core) + ".");
}

std::string next_attempt(std::string_view core) {
  return replaced("CASE WHEN core.attempt_state = 'attempt_interrupted' THEN coalesce(" +
                      current_attempt(core) + ", core.attempt_index) ELSE core.attempt_index END",
                  "core.", std::string(core) + ".");
}

std::string attempt_count(std::string_view next_attempt) {
  return "jsonb_build_object('total_attempt_count', (" + std::string(next_attempt) + ")::text)";
}

std::string promised(std::string_view row) {
  // Neither a join nor a search by time, whatever the planner believes about the grants: they are looked up by the
  // execution, row by row.
  return replaced(
      "(SELECT true FROM ff_claim_grant g WHERE g.partition_key = ANY($1)"
      " AND g.partition_key = row.partition_key AND g.execution_id = row.execution_id"
      " AND g.kind = 'reclaim' AND g.expires_at_ms + 0 > (SELECT now_ms FROM clock) LIMIT 1) IS NOT NULL",
      "row.", std::string(row) + ".");
}

std::string core_matches(std::string_view core) {
  // A tag is compared as JSON text: the number 5 is not the text "5", as for FlowFabric's own filter.
  return replaced(
      "($2 IS NULL OR core.raw_fields->>'namespace' = $2)"
      " AND ($3 IS NULL OR core.raw_fields->'tags'->$3 = to_jsonb($4))",
      "core.", std::string(core) + ".");
}

std::string no_core_matches() {
  return "$2 IS NULL AND $3 IS NULL";
}

std::string event_origin(std::string_view core) {
  return replaced(
      "core.raw_fields->>'namespace' AS name_space,"
      " core.raw_fields->'tags'->>'cairn.instance_id' AS instance_tag",
      "core.", std::string(core) + ".");
}

std::string whole_number(std::string_view json, std::string_view otherwise) {
  // Ten digits always fit a bigint, so the cast cannot fail; 3.0 and 1e400 are JSON numbers but no digits
  // only.
  return replaced(
      "CASE WHEN jsonb_typeof(json) = 'number' AND (json)::text ~ '^[0-9]{1,10}$'"
      " AND (json)::text::bigint <= 4294967295 THEN (json)::text::bigint ELSE " +
          std::string(otherwise) + " END",
      "json)", std::string(json) + ")");
}

std::string uuid(std::string_view text) {
  return replaced("CASE WHEN text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (text)::uuid END",
                  "text", std::string(text));
}

std::string object(std::string_view json) {
  return replaced("CASE WHEN jsonb_typeof(json) = 'object' THEN (json) ELSE '{}'::jsonb END", "json)",
                  std::string(json) + ")");
}

std::string runnable_by_lane() {
  return R"sql((
    WITH RECURSIVE lane AS (
      SELECT p.partition_key, (SELECT l.lane_id
                                 FROM ff_exec_core l
                                WHERE l.partition_key = ANY($1) AND l.partition_key = p.partition_key
                                ORDER BY l.lane_id
                                LIMIT 1) AS lane_id
        FROM unnest($1) AS p(partition_key)
       UNION ALL
      SELECT p.partition_key, (SELECT l.lane_id
                                 FROM ff_exec_core l
                                WHERE l.partition_key = ANY($1) AND l.partition_key = p.partition_key
                                  AND l.lane_id > p.lane_id
                                ORDER BY l.lane_id
                                LIMIT 1)
        FROM lane p
       WHERE p.lane_id IS NOT NULL
    ),
    -- One row a partition: it is looked for once for each of them.
    lanes AS MATERIALIZED (SELECT partition_key, array_agg(lane_id) AS lane_ids FROM lane GROUP BY partition_key)
    SELECT lanes.partition_key, r.execution_id, r.flow_id, r.eligibility_state, r.public_state, r.blocking_reason,
           r.created_at_ms, r.raw_fields
      FROM lanes
     CROSS JOIN LATERAL (SELECT *
                           FROM ff_exec_core r
                          WHERE r.partition_key = ANY($1) AND r.partition_key = lanes.partition_key
                            AND r.lane_id = ANY (lanes.lane_ids) AND r.lifecycle_phase = 'runnable'
                         OFFSET 0) r
  ))sql";
}

std::string in_slice(std::string_view row, std::string_view key) {
  const std::string place =
      "(" + std::string(row) + ".partition_key, " + std::string(row) + "." + std::string(key) + ")";
  return place + " > ($5, $6) AND " + place + " <= ($7, $8)";
}

std::string append_completion_events(std::string_view outcome, std::string_view source) {
  return "INSERT INTO ff_completion_event\n"
         "    (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)\n"
         "  SELECT partition_key, execution_id, flow_id, '" +
         std::string(outcome) + "', name_space, instance_tag, now_ms FROM " + std::string(source);
}

}  // namespace ff::reconcile::phrases
