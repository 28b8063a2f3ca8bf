#include "support/stages.hpp"

#include <algorithm>
#include <stdexcept>

#include "support/engine.hpp"

namespace ff::test {
namespace {

constexpr const char* kFarAway = "due_ms + 86400000";

// What execution_retention takes at due_ms, by its default age.
constexpr const char* kMonthEarlier = "due_ms - 2592000000";
const Columns kOldEvent = {{"occurred_at_ms", kMonthEarlier},
                           {"committed_at_ms", kMonthEarlier},
                           {"dispatched_at_ms", kMonthEarlier}};

// A flow bears the id of its seed.
const Columns kInFlow = {{"flow_id", "id"}};

std::vector<Stage> make_stages() {
  const Hold core_of_id{"ff_exec_core", "execution_id::text = $1"};
  const Hold attempt_of_id{"ff_attempt", "execution_id::text = $1"};
  const Hold suspension_of_id{"ff_suspension_current", "execution_id::text = $1"};
  const Hold waitpoint_of_id{"ff_waitpoint_pending", "execution_id::text = $1"};
  const Hold other_core{"ff_exec_core", "flow_id::text = $1 AND execution_id::text <> $1"};
  const Hold group{"ff_edge_group", "flow_id::text = $1"};
  const Hold pending{"ff_pending_cancel_groups", "flow_id::text = $1"};

  const State promised{"runnable", "unowned", "pending_claim", "waiting", "pending_first_attempt"};
  const std::vector<Part> lapsed{core_part(active(), "id"), attempt_part("id", "due_ms")};
  // Due a second after its lapse, and not seen before that.
  const auto reclaimed = [&](std::string_view name) {
    return Stage{
        .reconciler = name,
        .table = "ff_attempt",
        .id = "execution_id",
        .parts = {core_part(active(), "id"),
                  attempt_part("id", "due_ms - 1000", {{"raw_fields", "'{\"lease_reclaims\": 1}'"}})},
        .holds = {attempt_of_id, core_of_id},
        .companion = 1,
        .may_wait = false};
  };
  const auto raised = [](const State& sibling) {
    return std::vector<Part>{core_part(runnable(), "id", kInFlow), core_part(sibling, "earlier", kInFlow),
                             attempt_part("earlier", sibling.lifecycle_phase == "active" ? kFarAway : "NULL"),
                             group_part("id", "id",
                                        {{"policy", R"('{"kind": "any_of"}')"},
                                         {"success_count", "1"},
                                         {"running_count", "1"},
                                         {"cancel_siblings_pending_flag", "true"},
                                         {"cancel_siblings_pending_members", "ARRAY[earlier::text]"}}),
                             pending_part("id", "id")};
  };
  return {
      {"delayed_promoter",
       "ff_exec_core",
       "execution_id",
       {core_part(delayed(), "id", {{"deadline_at_ms", "due_ms"}})},
       {core_of_id}},
      {.reconciler = "delayed_promoter",
       .table = "ff_exec_core",
       .id = "execution_id",
       .parts = {core_part(
           delayed(), "id",
           {{"blocking_reason", "'waiting_for_retry_backoff'"},
            {"raw_fields", "raw_fields || jsonb_build_object('delay_until', due_ms::text)"}})},
       .holds = {core_of_id},
       .companion = 1},
      {"grant_expiry",
       "ff_claim_grant",
       "execution_id",
       {core_part(promised, "id"), grant_part("id", "due_ms")},
       {core_of_id, {"ff_claim_grant", "execution_id::text = $1"}}},
      {.reconciler = "grant_expiry",
       .table = "ff_exec_core",
       .id = "execution_id",
       .parts = {core_part(promised, "id",
                           {{"raw_fields",
                             "raw_fields || jsonb_build_object('claim_grant', "
                             "jsonb_build_object('expires_at_ms', due_ms))"}})},
       .holds = {core_of_id},
       .companion = 1},
      {.reconciler = "dead_worker",
       .table = "ff_attempt",
       .id = "execution_id",
       .parts = {core_part(active(), "id",
                           {{"raw_fields",
                             "raw_fields || jsonb_build_object('namespace', coalesce(name_space, ''))"}}),
                 attempt_part("id", kFarAway, {{"worker_instance_id", "id::text"}}),
                 registration_part("id::text")},
       .holds = {attempt_of_id},
       .has_tags = false,
       .may_wait = false},
      {"lease_expiry", "ff_attempt", "execution_id", lapsed, {attempt_of_id, core_of_id}},
      {"attempt_timeout", "ff_attempt", "execution_id", lapsed, {attempt_of_id, core_of_id}},
      reclaimed("lease_expiry"),
      reclaimed("attempt_timeout"),
      {"execution_deadline",
       "ff_exec_core",
       "execution_id",
       {core_part(active(), "id", {{"deadline_at_ms", "due_ms"}}), attempt_part("id", kFarAway)},
       {core_of_id, attempt_of_id}},
      {"suspension_timeout",
       "ff_suspension_current",
       "execution_id",
       {core_part(suspended(), "id"), attempt_part("id", "NULL"),
        suspension_part("id", {{"timeout_at_ms", "due_ms"}}), waitpoint_part("id", "id")},
       {suspension_of_id, core_of_id, attempt_of_id, waitpoint_of_id}},
      {.reconciler = "suspension_timeout",
       .table = "ff_waitpoint_pending",
       .id = "execution_id",
       .parts = {core_part(cancelled(), "id", {{"terminal_at_ms", "due_ms"}}), suspension_part("id"),
                 waitpoint_part("id", "id", {{"state", "'active'"}})},
       .holds = {waitpoint_of_id, suspension_of_id, core_of_id},
       .companion = 2},
      // An event that is new, however slow the test is.
      {.reconciler = "suspension_timeout",
       .table = "ff_waitpoint_pending",
       .id = "execution_id",
       .parts = {core_part(cancelled(), "id", {{"terminal_at_ms", "due_ms"}}), suspension_part("id"),
                 waitpoint_part("id", "id", {{"state", "'active'"}}),
                 lease_event_part("id", "revoked", {{"occurred_at_ms", kFarAway}})},
       .holds = {waitpoint_of_id, suspension_of_id, core_of_id},
       .companion = 1},
      {"pending_waitpoint_expiry",
       "ff_waitpoint_pending",
       "execution_id",
       {core_part(suspended(), "id"), suspension_part("id"),
        waitpoint_part("id", "id", {{"expires_at_ms", "due_ms"}})},
       {waitpoint_of_id}},
      // Of a suspension before the present one.
      {.reconciler = "stray_waitpoint",
       .table = "ff_waitpoint_pending",
       .id = "execution_id",
       .parts = {core_part(suspended(), "id"), suspension_part("id", {{"suspended_at_ms", "due_ms + 1"}}),
                 waitpoint_part("id", "id", {{"state", "'active'"}, {"activated_at_ms", "due_ms"}})},
       .holds = {waitpoint_of_id, suspension_of_id, core_of_id},
       .may_wait = false},
      // As FlowFabric's cancel by a worker leaves it. The core of whoever waits stays as it is.
      {.reconciler = "completion_repair",
       .table = "ff_attempt",
       .id = "execution_id",
       .parts = {core_part(terminal("cancelled"), "id", merged(kInFlow, {{"terminal_at_ms", "due_ms"}})),
                 attempt_part("id", kFarAway), core_part(runnable(), "later", kInFlow),
                 edge_part("id", "id", "later"), group_part("id", "later", {{"running_count", "1"}})},
       .holds = {core_of_id, attempt_of_id},
       .may_wait = false},
      {.reconciler = "completion_repair",
       .table = "ff_attempt",
       .id = "execution_id",
       .parts = {core_part(cancelled(), "id", merged(kInFlow, {{"terminal_at_ms", "due_ms"}})),
                 attempt_part("id", "NULL"), core_part(runnable(), "later", kInFlow),
                 edge_part("id", "id", "later"), group_part("id", "later", {{"running_count", "1"}}),
                 lease_event_part("id", "revoked", {{"occurred_at_ms", kFarAway}})},
       .holds = {core_of_id, attempt_of_id},
       .companion = 1,
       .may_wait = false},
      {"dependency",
       "ff_completion_event",
       "execution_id",
       {core_part(terminal(), "id", merged(kInFlow, {{"terminal_at_ms", "due_ms"}})),
        core_part(blocked(), "later", kInFlow), attempt_part("later", "NULL"), edge_part("id", "id", "later"),
        group_part("id", "later", {{"running_count", "1"}}), completion_part("id", "success", kInFlow)},
       {{"ff_completion_event", "execution_id::text = $1"},
        group,
        other_core,
        {"ff_attempt", "execution_id IN (SELECT downstream_eid FROM ff_edge WHERE flow_id::text = $1)"}}},
      {.reconciler = "dependency",
       .table = "ff_exec_core",
       .id = "execution_id",
       .parts = {core_part(
                     {"runnable", "unowned", "blocked_by_dependencies", "running", "attempt_interrupted"},
                     "id",
                     merged(kInFlow,
                            {{"blocking_reason", "'waiting_for_children'"}, {"created_at_ms", "due_ms"}})),
                 attempt_part("id", "NULL"), group_part("id", "id", {{"success_count", "1"}})},
       .holds = {core_of_id, group},
       .companion = 1,
       .may_wait = false},
      {.reconciler = "group_recount",
       .table = "ff_edge_group",
       .id = "downstream_eid",
       .parts = {core_part(blocked(), "id", kInFlow), attempt_part("id", "NULL"),
                 core_part(terminal(), "earlier", merged(kInFlow, {{"terminal_at_ms", "due_ms"}})),
                 edge_part("id", "earlier", "id"), group_part("id", "id", {{"running_count", "1"}}),
                 completion_part("earlier", "success", merged(kInFlow, {{"dispatched_at_ms", "due_ms"}}))},
       .holds = {group, core_of_id, attempt_of_id},
       .may_wait = false},
      {.reconciler = "edge_cancel_dispatcher",
       .table = "ff_pending_cancel_groups",
       .id = "downstream_eid",
       .parts = raised(active()),
       .holds = {pending,
                 group,
                 other_core,
                 {"ff_attempt",
                  "execution_id IN (SELECT execution_id FROM ff_exec_core WHERE flow_id::text = $1)"}},
       .may_wait = false},
      {.reconciler = "edge_cancel_reconciler",
       .table = "ff_pending_cancel_groups",
       .id = "downstream_eid",
       .parts = raised(terminal()),
       .holds = {pending, group},
       .may_wait = false},
      // An event that is new, however slow the test is.
      {.reconciler = "index_repair",
       .table = "ff_exec_core",
       .id = "execution_id",
       .parts = {core_part(suspended(), "id", {{"attempt_index", "1"}, {"created_at_ms", "due_ms"}}),
                 attempt_part("id", "NULL"),
                 lease_event_part("id", "revoked", {{"occurred_at_ms", kFarAway}})},
       .holds = {core_of_id},
       .may_wait = false,
       .dated = false},
      {.reconciler = "index_repair",
       .table = "ff_exec_core",
       .id = "execution_id",
       .parts = {core_part(delayed(), "id", {{"attempt_index", "1"}, {"created_at_ms", "due_ms"}}),
                 attempt_part("id", "NULL")},
       .holds = {core_of_id},
       .companion = 1,
       .may_wait = false,
       .dated = false},
      {"cancel_backlog",
       "ff_cancel_backlog_member",
       "flow_id",
       {backlog_part("id"), backlog_member_part("id", "id"), core_part(active(), "id", kInFlow),
        attempt_part("id", kFarAway)},
       {{"ff_cancel_backlog", "flow_id::text = $1"},
        {"ff_cancel_backlog_member", "flow_id::text = $1"},
        core_of_id,
        attempt_of_id}},
      {.reconciler = "cancel_backlog",
       .table = "ff_cancel_backlog",
       .id = "flow_id",
       .parts = {backlog_part("id")},
       .holds = {{"ff_cancel_backlog", "flow_id::text = $1"}},
       .companion = 1},
      {"budget_reset",
       "ff_budget_policy",
       "budget_id",
       {{"ff_budget_policy",
         {{"budget_id", "id::text"},
          {"policy_json", R"('{"reset_interval_ms": 3600000}')"},
          {"created_at_ms", "0"},
          {"updated_at_ms", "0"},
          {"next_reset_at_ms", "due_ms"}}},
        {"ff_budget_usage",
         {{"budget_id", "id::text"},
          {"dimensions_key", "'d'"},
          {"current_value", "7"},
          {"updated_at_ms", "0"}}}},
       {{"ff_budget_policy", "budget_id = $1"}, {"ff_budget_usage", "budget_id = $1"}}},
      {.reconciler = "quota_concurrency",
       .table = "ff_quota_policy",
       .id = "quota_policy_id",
       .parts = {quota_part("2"), guard_part(kFarAway)},
       .holds = {{"ff_quota_policy", "quota_policy_id = $1"}},
       .may_wait = false,
       .dated = false},
      {.reconciler = "quota_concurrency",
       .table = "ff_quota_admitted",
       .id = "quota_policy_id",
       .parts = {quota_part("0"), guard_part("due_ms")},
       .holds = {{"ff_quota_admitted", "quota_policy_id = $1"}},
       .companion = 1,
       .may_wait = false,
       .dated = false},
      {.reconciler = "quota_window",
       .table = "ff_quota_window",
       .id = "quota_policy_id",
       .parts = {quota_part("1"),
                 {"ff_quota_window",
                  {{"quota_policy_id", "id::text"},
                   {"admitted_at_ms", "due_ms - 86460000"},
                   {"execution_id", "'{fp:1}:' || earlier"}}}},
       .holds = {{"ff_quota_window", "quota_policy_id = $1"}},
       .may_wait = false,
       .dated = false},
      {"worker_registry_ttl",
       "ff_worker_registry",
       "worker_instance_id",
       {registration_part("id::text")},
       {{"ff_worker_registry", "worker_instance_id = $1"}},
       false},
      {.reconciler = "execution_retention",
       .table = "ff_exec_core",
       .id = "execution_id",
       .parts = {core_part(terminal(), "id", {{"terminal_at_ms", kMonthEarlier}}), attempt_part("id", "NULL"),
                 completion_part("id", "success", kOldEvent)},
       .holds = {core_of_id, attempt_of_id, {"ff_completion_event", "execution_id::text = $1"}},
       .may_wait = false},
      {.reconciler = "execution_retention",
       .table = "ff_flow_core",
       .id = "flow_id",
       .parts = {{"ff_flow_core",
                  {{"flow_id", "id"}, {"public_flow_state", "'open'"}, {"created_at_ms", kMonthEarlier}}},
                 core_part(terminal(), "earlier", merged(kInFlow, {{"terminal_at_ms", "0"}})),
                 core_part(cancelled(), "id", merged(kInFlow, {{"terminal_at_ms", kMonthEarlier}})),
                 edge_part("id", "earlier", "id"),
                 group_part("id", "id", {})},
       .holds = {{"ff_flow_core", "flow_id::text = $1"},
                 core_of_id,
                 other_core,
                 group,
                 {"ff_edge", "flow_id::text = $1"}},
       .companion = 1,
       .may_wait = false},
      {.reconciler = "execution_retention",
       .table = "ff_budget_usage_dedup",
       .id = "dedup_key",
       .parts = {{"ff_budget_usage_dedup",
                  {{"dedup_key", "id::text"},
                   {"outcome_json", "'{}'"},
                   {"applied_at_ms", "0"},
                   {"expires_at_ms", "due_ms"}}}},
       .holds = {{"ff_budget_usage_dedup", "dedup_key = $1"}},
       .companion = 2},
      {.reconciler = "execution_retention",
       .table = "ff_suspend_dedup",
       .id = "idempotency_key",
       .parts = {{"ff_suspend_dedup",
                  {{"idempotency_key", "id::text"}, {"outcome_json", "'{}'"}, {"created_at_ms", "due_ms"}}}},
       .holds = {{"ff_suspend_dedup", "idempotency_key = $1"}},
       .companion = 3},
      {"outbox_retention",
       "ff_lease_event",
       "execution_id",
       {lease_event_part("id", "expired")},
       {{"ff_lease_event", "execution_id = $1"}}},
      {.reconciler = "outbox_retention",
       .table = "ff_signal_event",
       .id = "execution_id",
       .parts = {{"ff_signal_event",
                  {{"execution_id", "id::text"}, {"signal_id", "id::text"}, {"delivered_at_ms", "due_ms"}}}},
       .holds = {{"ff_signal_event", "execution_id = $1"}},
       .companion = 1},
      {.reconciler = "outbox_retention",
       .table = "ff_operator_event",
       .id = "execution_id",
       .parts =
           {{"ff_operator_event",
             {{"execution_id", "id::text"}, {"event_type", "'replayed'"}, {"occurred_at_ms", "due_ms"}}}},
       .holds = {{"ff_operator_event", "execution_id = $1"}},
       .companion = 2},
      {.reconciler = "outbox_retention",
       .table = "ff_completion_event",
       .id = "execution_id",
       .parts = {{"ff_completion_event",
                  {{"execution_id", "id"},
                   {"outcome", "'success'"},
                   {"occurred_at_ms", "due_ms"},
                   {"committed_at_ms", "due_ms"},
                   {"dispatched_at_ms", "due_ms"}}}},
       .holds = {{"ff_completion_event", "execution_id::text = $1"}},
       .companion = 3},
      {.reconciler = "outbox_retention",
       .table = "ff_worker_registry_event",
       .id = "worker_instance_id",
       .parts = {{"ff_worker_registry_event",
                  {{"namespace", "coalesce(name_space, '')"},
                   {"worker_instance_id", "id::text"},
                   {"event_at_ms", "due_ms"},
                   {"event_kind", "'heartbeat'"}}}},
       .holds = {{"ff_worker_registry_event", "worker_instance_id = $1"}},
       .companion = 4},
  };
}

}  // namespace

const std::vector<Stage>& stages() {
  static const std::vector<Stage> all = make_stages();
  return all;
}

const Stage& stage_of(const reconcile::Reconciler& reconciler) {
  int companion = 0;
  // One that reads the same rows at another time has the text of the first, but an interval of its own, or rows that nothing
  // shows beforehand.
  const auto is_it = [&](const reconcile::Reconciler& other) {
    return reconciler.scan == other.scan && reconciler.interval == other.interval &&
           reconciler.foreseen == other.foreseen;
  };
  if (const auto* main = reconcile::find_reconciler(reconciler.name); main && !is_it(*main)) {
    const auto& all = main->companions;
    const auto its = std::ranges::find_if(all, is_it);
    const auto same_scan = std::ranges::find(all, reconciler.scan, &reconcile::Reconciler::scan);
    if (its != all.end() || (same_scan != all.end() && reconciler.scan != main->scan))
      companion = static_cast<int>((its != all.end() ? its : same_scan) - all.begin()) + 1;
  }
  const auto found = std::ranges::find_if(stages(), [&](const Stage& stage) {
    return stage.reconciler == reconciler.name && stage.companion == companion;
  });
  if (found == stages().end()) throw std::out_of_range("no stage for " + std::string(reconciler.name));
  return *found;
}

}  // namespace ff::test
