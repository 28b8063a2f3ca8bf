#include "support/stages_of_retention.hpp"

#include "support/stage_holds.hpp"

namespace ff::test {
namespace {

// What execution_retention takes at due_ms, by its default age.
constexpr const char* kMonthEarlier = "due_ms - 2592000000";
const Columns kOldEvent = {{"occurred_at_ms", kMonthEarlier},
                           {"committed_at_ms", kMonthEarlier},
                           {"dispatched_at_ms", kMonthEarlier}};

}  // namespace

std::vector<Stage> stages_of_retention() {
  return {
      {.reconciler = "execution_retention",
       .table = "ff_exec_core",
       .id = "execution_id",
       .parts = {core_part(terminal(), "id", {{"terminal_at_ms", kMonthEarlier}}), attempt_part("id", "NULL"),
                 completion_part("id", "success", kOldEvent)},
       .holds = {kCoreOfId, kAttemptOfId, {"ff_completion_event", "execution_id::text = $1"}},
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
                 kCoreOfId,
                 kOtherCore,
                 kGroup,
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

}  // namespace ff::test
