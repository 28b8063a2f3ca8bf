#include "audit/remedy.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/quoted.hpp"

namespace ff::audit {

std::string filled_in(const std::string& remedy,
                      const std::function<std::string(std::string_view column)>& value) {
  std::string text;
  std::string_view left = remedy;
  for (auto at = left.find("{$"); at != std::string_view::npos; at = left.find("{$")) {
    const auto end = left.find('}', at);
    const std::string_view column = left.substr(at + 2, end - at - 2);
    text.append(left.substr(0, at));
    const bool is_quoted = text.ends_with('\'') && left.substr(end + 1).starts_with('\'');
    if (is_quoted) text.pop_back();
    text += is_quoted ? sql_literal(value(column)) : value(column);
    left.remove_prefix(end + (is_quoted ? 2 : 1));
  }
  return text.append(left);
}

std::string insert_event_of_end(std::string_view word, std::string_view where) {
  return "INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, "
         "instance_tag, "
         "occurred_at_ms) SELECT partition_key, execution_id, flow_id, nullif('" +
         std::string(word) +
         "', ''), raw_fields->>'namespace', raw_fields->'tags'->>'cairn.instance_id', "
         "coalesce(terminal_at_ms, "
         "created_at_ms) FROM ff_exec_core " +
         std::string(where) + ";";
}

const Check& check_named(std::string_view name) {
  for (const Sweep& sweep : sweeps())
    if (const auto its = std::ranges::find(sweep.checks, name, &Check::name); its != sweep.checks.end())
      return *its;
  throw std::out_of_range("there is no check " + std::string(name));
}

}  // namespace ff::audit
