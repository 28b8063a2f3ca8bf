#include "support/rows.hpp"

#include <algorithm>
#include <boost/uuid/random_generator.hpp>
#include <iterator>

namespace ff::test {
namespace {

constexpr std::string_view kRowTables[] = {"ff_exec_core",
                                           "ff_flow_core",
                                           "ff_attempt",
                                           "ff_edge",
                                           "ff_claim_grant",
                                           "ff_edge_group",
                                           "ff_pending_cancel_groups",
                                           "ff_cancel_backlog",
                                           "ff_cancel_backlog_member",
                                           "ff_cancel_dispatch_outbox",
                                           "ff_suspension_current",
                                           "ff_waitpoint_pending",
                                           "ff_completion_event",
                                           "ff_lease_event",
                                           "ff_signal_event",
                                           "ff_operator_event",
                                           "ff_budget_policy",
                                           "ff_budget_usage",
                                           "ff_budget_usage_dedup",
                                           "ff_suspend_dedup",
                                           "ff_stream_frame",
                                           "ff_stream_meta",
                                           "ff_stream_summary",
                                           "ff_flow_summary",
                                           "ff_quota_policy",
                                           "ff_quota_admitted",
                                           "ff_quota_window",
                                           "ff_worker_registry",
                                           "ff_worker_registry_event"};

Json nullable(const auto& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Uuid new_uuid() {
  thread_local boost::uuids::random_generator make;
  return make();
}

std::int64_t now_ms(pg::Connection& connection) {
  return connection.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
      .one()
      .get<std::int64_t>(0);
}

State runnable() {
  return {"runnable", "unowned", "eligible_now", "waiting", "pending"};
}
State active() {
  return {"active", "leased", "not_applicable", "running", "running_attempt"};
}
State delayed() {
  return {"runnable", "unowned", "not_eligible_until_time", "delayed", "attempt_interrupted"};
}
State suspended() {
  return {"suspended", "released", "not_applicable", "suspended", "attempt_interrupted"};
}
State blocked() {
  return {"blocked", "unowned", "blocked_by_dependencies", "waiting", "pending"};
}
State submitted() {
  return {"submitted", "unowned", "blocked_by_dependencies", "waiting", "pending"};
}
State terminal(const std::string& public_state) {
  return {"terminal", "unowned", "not_applicable", public_state, "attempt_terminal"};
}
State cancelled() {
  return {"cancelled", "unowned", "not_applicable", "cancelled", "cancelled"};
}

Uuid insert_core(pg::Connection& connection, const CoreRow& row) {
  insert(connection, "ff_exec_core",
         {{"partition_key", row.partition.value},
          {"execution_id", to_string(row.execution)},
          {"flow_id", row.flow ? Json(to_string(*row.flow)) : Json(nullptr)},
          {"lane_id", row.lane},
          {"attempt_index", row.attempt_index},
          {"lifecycle_phase", row.state.lifecycle_phase},
          {"ownership_state", row.state.ownership_state},
          {"eligibility_state", row.state.eligibility_state},
          {"public_state", row.state.public_state},
          {"attempt_state", row.state.attempt_state},
          {"priority", row.priority},
          {"created_at_ms", row.created_at_ms},
          {"terminal_at_ms", nullable(row.terminal_at_ms)},
          {"deadline_at_ms", nullable(row.deadline_at_ms)},
          {"policy", row.policy},
          {"raw_fields", row.raw_fields}});
  return row.execution;
}

Uuid insert_attempt(pg::Connection& connection, const AttemptRow& row) {
  insert(connection, "ff_attempt",
         {{"partition_key", row.partition.value},
          {"execution_id", to_string(row.execution)},
          {"attempt_index", row.attempt_index},
          {"worker_id", row.worker_id},
          {"worker_instance_id", row.worker_id},
          {"lease_epoch", row.lease_epoch},
          {"lease_expires_at_ms", nullable(row.lease_expires_at_ms)},
          {"started_at_ms", nullable(row.started_at_ms)},
          {"terminal_at_ms", nullable(row.terminal_at_ms)},
          {"outcome", nullable(row.outcome)},
          {"raw_fields", row.raw_fields}});
  return row.execution;
}

Uuid insert_suspension(pg::Connection& connection, const SuspensionRow& row) {
  insert(connection, "ff_suspension_current",
         {{"partition_key", row.partition.value},
          {"execution_id", to_string(row.execution)},
          {"suspension_id", to_string(row.suspension)},
          {"suspended_at_ms", row.suspended_at_ms},
          {"timeout_at_ms", nullable(row.timeout_at_ms)},
          {"timeout_behavior", nullable(row.timeout_behavior)},
          {"condition", Json::object()},
          {"member_map", row.member_map}});
  return row.execution;
}

Uuid insert_waitpoint(pg::Connection& connection, const WaitpointRow& row) {
  insert(connection, "ff_waitpoint_pending",
         {{"partition_key", row.partition.value},
          {"waitpoint_id", to_string(row.waitpoint)},
          {"execution_id", to_string(row.execution)},
          {"token_kid", "k1"},
          {"token", "t1"},
          {"created_at_ms", 1'700'000'000'000},
          {"expires_at_ms", nullable(row.expires_at_ms)},
          {"waitpoint_key", row.waitpoint_key}});
  return row.waitpoint;
}

void insert(pg::Connection& connection, std::string_view table, const Json& columns) {
  std::string names;
  for (const auto& [name, value] : columns.items()) names += (names.empty() ? "" : ", ") + name;
  const std::string into(table);
  connection.execute("INSERT INTO " + into + " (" + names + ") SELECT " + names +
                         " FROM jsonb_populate_record(NULL::" + into + ", $1::jsonb)",
                     pg::Params::of(columns.dump()));
}

Json max_retries(std::int64_t n) {
  return {{"retry_policy", {{"max_retries", n}}}};
}

Json origin(const std::string& name_space, const std::string& instance_tag) {
  return {{"namespace", name_space}, {"tags", {{"cairn.instance_id", instance_tag}}}};
}

std::vector<std::string> snapshot(pg::Connection& connection, std::string_view table) {
  std::vector<std::string> lines;
  for (const pg::Row found :
       connection.execute("SELECT row_to_json(t)::text FROM " + std::string(table) + " t ORDER BY 1"))
    lines.push_back(found.get<std::string>(0));
  return lines;
}

std::vector<std::string> snapshot(pg::Connection& connection) {
  std::vector<std::string> lines;
  for (const std::string_view table : kRowTables) {
    for (const auto& line : snapshot(connection, table)) lines.push_back(std::string(table) + ' ' + line);
  }
  return lines;
}

std::vector<std::string> diff(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  auto old_lines = before;
  auto new_lines = after;
  std::ranges::sort(old_lines);
  std::ranges::sort(new_lines);
  std::vector<std::string> gone;
  std::vector<std::string> come;
  std::ranges::set_difference(old_lines, new_lines, std::back_inserter(gone));
  std::ranges::set_difference(new_lines, old_lines, std::back_inserter(come));
  std::vector<std::string> lines;
  for (const auto& line : gone) lines.push_back("- " + line);
  for (const auto& line : come) lines.push_back("+ " + line);
  return lines;
}

std::vector<std::string> beside(const Uuid& execution, std::vector<std::string> changes) {
  std::erase_if(changes, [&](const auto& line) { return line.find(to_string(execution)) != line.npos; });
  return changes;
}

Json row(pg::Connection& connection, const std::string& query, const pg::Params& params) {
  const pg::Result found = connection.execute("SELECT row_to_json(t)::text FROM (" + query + ") t", params);
  return Json::parse(found.one().get<std::string>(0));
}

Json core(pg::Connection& connection, const Uuid& execution) {
  return row(connection, "SELECT * FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(execution));
}

Json attempt(pg::Connection& connection, const Uuid& execution, int attempt_index) {
  return row(connection, "SELECT * FROM ff_attempt WHERE execution_id = $1 AND attempt_index = $2",
             pg::Params::of(execution, attempt_index));
}

}  // namespace ff::test
