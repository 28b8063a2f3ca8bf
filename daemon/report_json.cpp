#include "report_json.hpp"

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "way_to_lift.hpp"

namespace ff::daemon {
namespace {

/// What some terminals obey, or turn a line by, and JSON lets stand as it is. `json` is well-formed UTF-8, as dump() makes it.
std::string with_controls_escaped(std::string_view json) {
  std::string text;
  while (!json.empty()) {
    const std::string_view character = json.substr(0, utf8_sequence_length(json));
    if (is_printable(character)) {
      text += character;
    } else {
      const std::string quoted = nlohmann::json(character).dump(-1, ' ', true);
      text.append(quoted, 1, quoted.size() - 2);
    }
    json.remove_prefix(character.size());
  }
  return text;
}

}  // namespace

nlohmann::ordered_json execution_json(const std::optional<ExecutionId>& execution) {
  return execution ? nlohmann::ordered_json(to_string(*execution)) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json key_json(const reconcile::Reconciler& pair, const reconcile::RowKey& key) {
  auto json = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < key.columns.size(); ++i) {
    const auto& column = pair.key[i];
    const bool number = column.type == "integer" || column.type == "bigint";
    json[std::string(column.name)] =
        number ? nlohmann::ordered_json(std::stoll(key.columns[i])) : nlohmann::ordered_json(key.columns[i]);
  }
  return json;
}

nlohmann::ordered_json counts_json(const reconcile::TickReport& report) {
  nlohmann::ordered_json skipped;
  for (const reconcile::Skip skip : reconcile::kSkips) {
    const auto found = report.skipped.find(skip);
    skipped[std::string(name(skip))] = found == report.skipped.end() ? 0 : found->second;
  }
  auto outcomes = nlohmann::ordered_json::object();
  for (const auto& [outcome, count] : report.outcomes) outcomes[outcome] = count;
  return {{"scanned", report.scanned},
          {"processed", report.processed},
          {"skipped", skipped},
          {"errors", report.error_count()},
          {"outcomes", outcomes}};
}

nlohmann::ordered_json time_json(const std::optional<UnixMillis>& at) {
  return at ? nlohmann::ordered_json(count(*at)) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json hold_json(std::string_view reconciler, const std::optional<reconcile::Hold>& hold) {
  if (!hold) return {};
  return {{"above", hold->above},
          {"since_ms", count(hold->since)},
          {"released", hold->released},
          {"next", way_to_release(reconciler)}};
}

nlohmann::ordered_json coverage_json(const Coverage& coverage) {
  return {{"count", coverage.count},
          {"covered", format_partitions(coverage.covered)},
          {"left_out", format_partitions(coverage.left_out)},
          {"not_there", format_partitions(coverage.not_there)}};
}

nlohmann::ordered_json pauses_json(const std::vector<pause::Pause>& pauses) {
  auto all = nlohmann::ordered_json::array();
  for (const pause::Pause& each : pauses)
    all.push_back({{"reconciler", each.reconciler},
                   {"by", each.by},
                   {"reason", each.reason},
                   {"since_ms", count(each.since)},
                   {"until_ms", time_json(each.until)},
                   {"next", way_to_lift(each.reconciler)}});
  return all;
}

std::string dump(const nlohmann::ordered_json& json) {
  return with_controls_escaped(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace ff::daemon
