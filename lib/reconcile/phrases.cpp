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

std::string append_completion_events(std::string_view outcome, std::string_view source) {
  return "INSERT INTO ff_completion_event\n"
         "    (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)\n"
         "  SELECT partition_key, execution_id, flow_id, '" +
         std::string(outcome) + "', name_space, instance_tag, now_ms FROM " + std::string(source);
}

}  // namespace ff::reconcile::phrases
