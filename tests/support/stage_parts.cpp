#include "support/stage_parts.hpp"

namespace ff::test {
namespace {

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

}  // namespace

Columns merged(Columns columns, const Columns& more) {
  for (const auto& [name, value] : more) columns.insert_or_assign(name, value);
  return columns;
}

Part core_part(const State& state, const std::string& execution, const Columns& more) {
  return {"ff_exec_core", merged({{"execution_id", execution},
                                  {"lane_id", "'default'"},
                                  {"lifecycle_phase", quoted(state.lifecycle_phase)},
                                  {"ownership_state", quoted(state.ownership_state)},
                                  {"eligibility_state", quoted(state.eligibility_state)},
                                  {"public_state", quoted(state.public_state)},
                                  {"attempt_state", quoted(state.attempt_state)},
                                  {"created_at_ms", "0"},
                                  {"raw_fields", "raw_fields"}},
                                 more)};
}

Part attempt_part(const std::string& execution, const std::string& lease_expires_at_ms, const Columns& more) {
  return {"ff_attempt", merged({{"execution_id", execution},
                                {"attempt_index", "0"},
                                {"lease_epoch", "1"},
                                {"lease_expires_at_ms", lease_expires_at_ms}},
                               more)};
}

Part suspension_part(const std::string& execution, const Columns& more) {
  return {"ff_suspension_current", merged({{"execution_id", execution},
                                           {"suspension_id", "gen_random_uuid()"},
                                           {"suspended_at_ms", "0"},
                                           {"condition", "'{}'"}},
                                          more)};
}

Part waitpoint_part(const std::string& waitpoint, const std::string& execution, const Columns& more) {
  return {"ff_waitpoint_pending", merged({{"waitpoint_id", waitpoint},
                                          {"execution_id", execution},
                                          {"token_kid", "'k'"},
                                          {"token", "'t'"},
                                          {"created_at_ms", "0"}},
                                         more)};
}

Part group_part(const std::string& flow, const std::string& downstream, const Columns& more) {
  return {"ff_edge_group",
          merged({{"flow_id", flow}, {"downstream_eid", downstream}, {"policy", R"('{"kind": "all_of"}')"}},
                 more)};
}

Part edge_part(const std::string& flow, const std::string& upstream, const std::string& downstream) {
  return {"ff_edge",
          {{"flow_id", flow},
           {"edge_id", "gen_random_uuid()"},
           {"upstream_eid", upstream},
           {"downstream_eid", downstream},
           {"policy", "'{}'"}}};
}

Part pending_part(const std::string& flow, const std::string& downstream) {
  return {"ff_pending_cancel_groups",
          {{"flow_id", flow}, {"downstream_eid", downstream}, {"enqueued_at_ms", "due_ms"}}};
}

Part backlog_part(const std::string& flow, const Columns& more) {
  return {"ff_cancel_backlog", merged({{"flow_id", flow},
                                       {"requested_at_ms", "due_ms"},
                                       {"reason", "'operator'"},
                                       {"cancellation_policy", "'cancel_all'"}},
                                      more)};
}

Part backlog_member_part(const std::string& flow, const std::string& execution) {
  return {"ff_cancel_backlog_member",
          {{"flow_id", flow}, {"execution_id", "'{fp:' || partition_key || '}:' || " + execution}}};
}

Part grant_part(const std::string& execution, const std::string& expires_at_ms) {
  return {"ff_claim_grant",
          {{"grant_id", "sha256(" + execution + "::text::bytea)"},
           {"execution_id", execution},
           {"kind", "'claim'"},
           {"worker_id", "'w'"},
           {"worker_instance_id", "'w'"},
           {"grant_ttl_ms", "1"},
           {"issued_at_ms", expires_at_ms + " - 1"},
           {"expires_at_ms", expires_at_ms}}};
}

Part completion_part(const std::string& execution, const std::string& outcome, const Columns& more) {
  return {"ff_completion_event", merged({{"execution_id", execution},
                                         {"outcome", quoted(outcome)},
                                         {"namespace", "name_space"},
                                         {"instance_tag", kInstanceTag},
                                         {"occurred_at_ms", "due_ms"},
                                         {"committed_at_ms", "due_ms"}},
                                        more)};
}

Part lease_event_part(const std::string& execution, const std::string& type, const Columns& more) {
  return {"ff_lease_event", merged({{"execution_id", execution},
                                    {"event_type", quoted(type)},
                                    {"occurred_at_ms", "due_ms"},
                                    {"namespace", "name_space"},
                                    {"instance_tag", kInstanceTag}},
                                   more)};
}

Part quota_part(const std::string& active_concurrency) {
  return {"ff_quota_policy",
          {{"quota_policy_id", "id::text"},
           {"requests_per_window_seconds", "60"},
           {"max_requests_per_window", "0"},
           {"active_concurrency_cap", "5"},
           {"active_concurrency", active_concurrency},
           {"created_at_ms", "0"},
           {"updated_at_ms", "0"}}};
}

Part guard_part(const std::string& expires_at_ms) {
  return {"ff_quota_admitted",
          {{"quota_policy_id", "id::text"},
           {"execution_id", "'{fp:1}:' || earlier"},
           {"admitted_at_ms", "0"},
           {"expires_at_ms", expires_at_ms}}};
}

Part registration_part(const std::string& instance) {
  return {"ff_worker_registry",
          {{"namespace", "coalesce(name_space, '')"},
           {"worker_instance_id", instance},
           {"worker_id", "'w'"},
           {"lanes", "'{}'"},
           {"capabilities_csv", "''"},
           {"last_heartbeat_ms", "due_ms - 5"},
           {"liveness_ttl_ms", "5"},
           {"registered_at_ms", "0"}}};
}

}  // namespace ff::test
