#include "support/twin.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

#include "support/rows.hpp"

namespace ff::test {
namespace {

constexpr const char* kMaskedTables[] = {"ff_exec_core",
                                         "ff_attempt",
                                         "ff_flow_core",
                                         "ff_edge",
                                         "ff_edge_group",
                                         "ff_pending_cancel_groups",
                                         "ff_suspension_current",
                                         "ff_waitpoint_pending",
                                         "ff_claim_grant",
                                         "ff_completion_event",
                                         "ff_lease_event",
                                         "ff_signal_event",
                                         "ff_operator_event",
                                         "ff_lane_registry",
                                         "ff_budget_policy",
                                         "ff_budget_usage",
                                         "ff_budget_usage_by_exec",
                                         "ff_worker_registry",
                                         "ff_worker_registry_event",
                                         "ff_suspend_dedup",
                                         "ff_budget_usage_dedup"};

// Rounded, so that a slow machine makes no difference; the tests use lengths that are far apart.
std::string class_of(std::int64_t time_ms, std::int64_t now_ms) {
  constexpr double kGrain = 30'000;
  const auto grains = static_cast<std::int64_t>(std::llround(static_cast<double>(time_ms - now_ms) / kGrain));
  return grains == 0 ? "now" : "now+" + std::to_string(grains * 30) + "s";
}

bool is_time(std::int64_t value, std::int64_t now_ms) {
  constexpr std::int64_t kDay = 86'400'000;
  return value > now_ms - kDay && value < now_ms + kDay;
}

std::string masked(std::string text, std::int64_t now_ms) {
  static const std::regex grant_key("^pg:.*");
  static const std::regex uuid("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
  static const std::regex hash("[0-9a-f]{64}");
  static const std::regex digits("[0-9]{13}");
  if (std::regex_match(text, digits) && is_time(std::stoll(text), now_ms))
    return "text " + class_of(std::stoll(text), now_ms);
  text = std::regex_replace(text, grant_key, "<grant>");
  text = std::regex_replace(text, uuid, "<uuid>");
  return std::regex_replace(text, hash, "<hash>");
}

void mask(Json& value, std::int64_t now_ms) {
  if (value.is_string())
    value = masked(value.get<std::string>(), now_ms);
  else if (value.is_number_integer() && is_time(value.get<std::int64_t>(), now_ms))
    value = class_of(value.get<std::int64_t>(), now_ms);
  else if (value.is_structured())
    for (Json& part : value) mask(part, now_ms);
}

}  // namespace

std::vector<std::string> masked_rows(pg::Connection& db) {
  const std::int64_t now = now_ms(db);
  std::vector<std::string> lines;
  for (const std::string table : kMaskedTables) {
    std::vector<Json> rows;
    for (const pg::Row found : db.execute("SELECT row_to_json(t)::text FROM " + table + " t"))
      rows.push_back(Json::parse(found.get<std::string>(0)));
    std::ranges::sort(rows, {}, [](const Json& row) { return row.value("event_id", std::int64_t{0}); });
    std::vector<std::string> of_table;
    int number = 0;
    for (Json& row : rows) {
      // Numbers of a sequence: their order is all that counts.
      if (row.contains("event_id")) row["event_id"] = ++number;
      mask(row, now);
      of_table.push_back(table + ' ' + row.dump());
    }
    std::ranges::sort(of_table);
    lines.insert(lines.end(), of_table.begin(), of_table.end());
  }
  return lines;
}

std::vector<std::string> differences(const std::function<void(RealSide&)>& real,
                                     const std::function<void(SimulatedSide&)>& simulated) {
  std::vector<std::string> theirs;
  {
    RealSide side;
    real(side);
    theirs = masked_rows(side.db());
  }
  SimulatedSide side;
  simulated(side);
  return diff(theirs, masked_rows(side.db()));
}

Subject RealSide::create(Json more) {
  Json arguments = {
      {"partition", 3},      {"namespace", "ns"},       {"tags", {{"cairn.instance_id", "i-1"}}},
      {"kind", "simulated"}, {"creator", "simulation"}, {"runnable", "pending_first_attempt"}};
  arguments.update(more);
  const Json made = call("create_execution", arguments);
  return {{PartitionKey{made.at("partition").get<std::int16_t>()},
           parse_uuid(made.at("uuid").get<std::string>()).value()},
          made.at("execution")};
}

Subject RealSide::claimed(Json more) {
  const Subject subject = create(std::move(more));
  claim();
  return subject;
}

Json RealSide::claim() {
  return call("claim", {{"as", "h"}, {"worker", "w1"}});
}

ExecutionId SimulatedSide::create(simulation::NewExecution like) {
  if (!like.flow) like.partition = {3};
  like.name_space = "ns";
  like.instance_tag = "i-1";
  return simulation::create(db_, like);
}

simulation::Claim SimulatedSide::claimed(const simulation::NewExecution& like) {
  return worker.claim_one(create(like)).value();
}

}  // namespace ff::test
