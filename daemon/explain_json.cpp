#include "base/printable.hpp"
#include "explain/finding.hpp"
#include "explain/verdict.hpp"
#include "explain_print.hpp"
#include "report_json.hpp"

namespace ff::daemon {
namespace {

using explain::Facts;
using nlohmann::ordered_json;

ordered_json shown(const std::optional<std::string>& text) {
  return text ? ordered_json(printable(*text)) : ordered_json();
}
ordered_json shown(const std::optional<Uuid>& uuid) {
  return uuid ? ordered_json(to_string(*uuid)) : ordered_json();
}

ordered_json state_json(const explain::Core& core) {
  return {{"lifecycle_phase", printable(core.lifecycle_phase)},
          {"ownership_state", printable(core.ownership_state)},
          {"eligibility_state", printable(core.eligibility_state)},
          {"public_state", printable(core.public_state)},
          {"attempt_state", printable(core.attempt_state)},
          {"blocking_reason", shown(core.blocking_reason)},
          {"cancellation_reason", shown(core.cancellation_reason)},
          {"attempt_index", core.attempt_index},
          {"max_retries", core.max_retries},
          {"flow", shown(core.flow)},
          {"lane", printable(core.lane)},
          {"namespace", shown(core.name_space)},
          {"created_at_ms", count(core.created_at)},
          {"terminal_at_ms", time_json(core.terminal_at)},
          {"deadline_at_ms", time_json(core.deadline_at)},
          {"last_failure", shown(core.last_failure)}};
}

ordered_json attempts_json(const Facts& facts) {
  auto all = ordered_json::array();
  for (const explain::Attempt& attempt : facts.attempts)
    all.push_back({{"attempt_index", attempt.index},
                   {"current", &attempt == facts.current_attempt()},
                   {"worker", shown(attempt.worker)},
                   {"lease_epoch", attempt.epoch},
                   {"lease_expires_at_ms", time_json(attempt.lease_expires_at)},
                   {"outcome", shown(attempt.outcome)},
                   {"reclaims", attempt.reclaims}});
  return all;
}

ordered_json grants_json(const Facts& facts) {
  auto all = ordered_json::array();
  for (const explain::Grant& grant : facts.grants)
    all.push_back({{"kind", printable(grant.kind)},
                   {"worker", printable(grant.worker)},
                   {"expires_at_ms", count(grant.expires_at)}});
  return all;
}

ordered_json suspension_json(const Facts& facts) {
  if (!facts.suspension) return nullptr;
  return {{"suspended_at_ms", count(facts.suspension->suspended_at)},
          {"timeout_at_ms", time_json(facts.suspension->timeout_at)},
          {"timeout_behavior", printable(facts.suspension->behavior)},
          {"reason", shown(facts.suspension->reason)}};
}

ordered_json waitpoints_json(const Facts& facts) {
  auto all = ordered_json::array();
  for (const explain::Waitpoint& waitpoint : facts.waitpoints)
    all.push_back({{"waitpoint", printable(waitpoint.id)},
                   {"key", printable(waitpoint.key)},
                   {"state", printable(waitpoint.state)},
                   {"signals", printable(waitpoint.signals)},
                   {"expires_at_ms", time_json(waitpoint.expires_at)}});
  return all;
}

ordered_json flow_json(const Facts& facts) {
  ordered_json json;
  json["fan_in"] = nullptr;
  if (const auto& fan_in = facts.fan_in)
    json["fan_in"] = {{"kind", printable(fan_in->kind)}, {"k", fan_in->k},
                      {"success", fan_in->success},      {"failed", fan_in->fail},
                      {"skipped", fan_in->skip},         {"running", fan_in->running}};
  json["upstreams"] = ordered_json::array();
  for (const explain::Upstream& upstream : facts.upstreams)
    json["upstreams"].push_back({{"execution", to_string(upstream.id)},
                                 {"public_state", printable(upstream.public_state)},
                                 {"staged", upstream.staged},
                                 {"undispatched_since_ms", time_json(upstream.undispatched_since)}});
  json["upstreams_in_all"] = facts.upstreams_in_all;
  json["downstreams"] = ordered_json::array();
  for (const explain::Downstream& downstream : facts.downstreams)
    json["downstreams"].push_back(
        {{"execution", to_string(downstream.id)}, {"public_state", printable(downstream.public_state)}});
  json["downstreams_in_all"] = facts.downstreams_in_all;
  return json;
}

ordered_json events_json(const Facts& facts) {
  ordered_json json;
  json["completion_events"] = ordered_json::array();
  for (const explain::CompletionEvent& event : facts.completions)
    json["completion_events"].push_back({{"event_id", event.id},
                                         {"outcome", printable(event.outcome)},
                                         {"committed_at_ms", count(event.committed_at)},
                                         {"dispatched_at_ms", time_json(event.dispatched_at)}});
  json["lease_events"] = ordered_json::array();
  for (const explain::LeaseEvent& event : facts.lease_events)
    json["lease_events"].push_back(
        {{"event_type", printable(event.type)}, {"occurred_at_ms", count(event.at)}});
  return json;
}

}  // namespace

ordered_json explain_json(const Facts& facts, const Pasted& pasted) {
  ordered_json json{{"execution", to_string(facts.id)},
                    {"found", facts.core.has_value()},
                    {"database_time_ms", count(facts.now)},
                    {"state", facts.core ? state_json(*facts.core) : ordered_json()},
                    {"attempts", attempts_json(facts)},
                    {"grants", grants_json(facts)},
                    {"suspension", suspension_json(facts)},
                    {"waitpoints", waitpoints_json(facts)}};
  json.update(flow_json(facts));
  json.update(events_json(facts));
  json["findings"] = ordered_json::array();
  for (const explain::Finding& finding : findings(facts))
    json["findings"].push_back({{"cause", finding.cause},
                                {"text", printable(finding.text)},
                                {"next", printable(pasted(finding.next))}});
  json["reconcilers"] = ordered_json::array();
  for (const explain::Verdict& verdict : verdicts(facts))
    json["reconcilers"].push_back({{"reconciler", verdict.reconciler},
                                   {"verdict", verdict.word},
                                   {"at_ms", time_json(verdict.at)},
                                   {"text", printable(verdict.text)}});
  return json;
}

}  // namespace ff::daemon
