#include "bench/family_stock_inserts.hpp"

#include <map>
#include <vector>

namespace ff::bench {
namespace {

// `n` counts within a partition: mixtures go by it.
constexpr std::string_view kSeed = R"sql(
WITH seed AS MATERIALIZED (
  SELECT (i % $2)::smallint AS partition_key, i / $2 AS n, 1000 + i AS due_ms, md5('id ' || i)::uuid AS id,
         md5('flow ' || i)::uuid AS flow
    FROM generate_series(0, $1 - 1) AS i
))sql";

// A state is the five words of a core row, from lifecycle_phase to attempt_state.
constexpr std::string_view kActive = "'active', 'leased', 'not_applicable', 'running', 'running_attempt'";
constexpr std::string_view kRunnable = "'runnable', 'unowned', 'eligible_now', 'waiting', 'pending'";
constexpr std::string_view kPendingClaim =
    "'runnable', 'unowned', 'pending_claim', 'waiting', 'pending_first_attempt'";
constexpr std::string_view kDelayed =
    "'runnable', 'unowned', 'not_eligible_until_time', 'delayed', 'attempt_interrupted'";
constexpr std::string_view kSuspended =
    "'suspended', 'released', 'not_applicable', 'suspended', 'attempt_interrupted'";
constexpr std::string_view kBlocked = "'blocked', 'unowned', 'blocked_by_dependencies', 'waiting', 'pending'";
constexpr std::string_view kCompleted =
    "'terminal', 'unowned', 'not_applicable', 'completed', 'attempt_terminal'";

// "column, …" and "value, …" of an INSERT.
struct Columns {
  std::string names;
  std::string values;
};

std::string insert(std::string_view table, const Columns& columns, std::string_view from = "seed") {
  return "INSERT INTO " + std::string(table) + " (partition_key, " + columns.names +
         ") SELECT partition_key, " + columns.values + " FROM " + std::string(from);
}

// All but the last INSERT are common table expressions.
std::string all_of(const std::vector<std::string>& inserts) {
  std::string sql(kSeed);
  for (std::size_t i = 0; i + 1 < inserts.size(); ++i)
    sql += ", part_" + std::to_string(i) + " AS (" + inserts[i] + ")";
  return sql + "\n" + inserts.back();
}

std::string core(std::string_view execution, std::string_view state, const Columns& more = {},
                 std::string_view from = "seed") {
  return insert("ff_exec_core",
                {"execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state, public_state, "
                 "attempt_state, created_at_ms, policy, raw_fields" +
                     more.names,
                 std::string(execution) + ", 'default', " + std::string(state) +
                     ", 1, CASE WHEN n % 2 = 0 THEN '{\"retry_policy\": {\"max_retries\": 3}}'::jsonb END,"
                     " '{\"namespace\": \"bench\", \"tags\": {\"cairn.instance_id\": \"i-1\"}}'" +
                     more.values},
                from);
}

std::string attempt(std::string_view execution, std::string_view lease_expires_at_ms,
                    std::string_view from = "seed") {
  return insert(
      "ff_attempt",
      {"execution_id, attempt_index, worker_id, worker_instance_id, lease_epoch, "
       "lease_expires_at_ms, started_at_ms",
       std::string(execution) + ", 0, 'w-1', 'w-1-a', 1, " + std::string(lease_expires_at_ms) + ", 1"},
      from);
}

std::string suspension(std::string_view execution, const Columns& more, std::string_view from = "seed") {
  return insert(
      "ff_suspension_current",
      {"execution_id, suspension_id, suspended_at_ms, reason_code, condition" + more.names,
       std::string(execution) + ", id, 1, 'approval', '{\"signals\": [\"approved\"]}'" + more.values},
      from);
}

std::string waitpoint(std::string_view waitpoint, std::string_view execution, const Columns& more,
                      std::string_view from = "seed") {
  return insert(
      "ff_waitpoint_pending",
      {"waitpoint_id, execution_id, token_kid, token, created_at_ms" + more.names,
       std::string(waitpoint) + ", " + std::string(execution) + ", 'k1', md5(id::text), 1" + more.values},
      from);
}

// As a suspension uses it.
const Columns kActiveWaitpoint{", state, activated_at_ms", ", 'active', 1"};

std::string lease_expiry() {
  return all_of({core("id", kActive, {}, "seed WHERE n % 8 <> 7"),
                 core("id", kCompleted, {", terminal_at_ms", ", 5"}, "seed WHERE n % 8 = 7"),
                 attempt("id", "due_ms")});
}

// A resumed one's worker is at work, and its waitpoint gone; its time-out was left.
std::string suspension_timeout() {
  return all_of({core("id", kSuspended, {}, "seed WHERE n % 6 <> 5"),
                 core("id", kActive, {}, "seed WHERE n % 6 = 5"),
                 attempt("id", "CASE WHEN n % 6 = 5 THEN 9000000000000 END"),
                 waitpoint("flow", "id", kActiveWaitpoint, "seed WHERE n % 6 <> 5"),
                 suspension("id", {", timeout_at_ms, timeout_behavior",
                                   ", due_ms, (ARRAY['fail', 'expire', 'escalate', 'cancel', "
                                   "'auto_resume_with_timeout_signal'])[1 + n % 6]"})});
}

// Cancelled by the worker, which keeps its lease.
std::string completion_repair() {
  const std::string downstream = "md5('downstream ' || id)::uuid";
  return all_of({core("id", "'terminal', 'unowned', 'not_applicable', 'cancelled', 'cancelled'",
                      {", flow_id, terminal_at_ms", ", flow, due_ms"}),
                 attempt("id", "9000000000000"), core(downstream, kRunnable, {", flow_id", ", flow"}),
                 insert("ff_edge", {"flow_id, edge_id, upstream_eid, downstream_eid, policy",
                                    "flow, id, id, " + downstream + ", '{}'"})});
}

constexpr std::string_view kSiblings = "seed, generate_series(1, 4) AS k";
constexpr std::string_view kSibling = "md5('sibling ' || id || k)::uuid";

std::string cancel_group(std::string_view flag) {
  return insert("ff_edge_group",
                {"flow_id, downstream_eid, policy, k_target, success_count, running_count, "
                 "cancel_siblings_pending_flag, cancel_siblings_pending_members",
                 "flow, id, '{\"kind\": \"any_of\"}', 1, 1, 4, " + std::string(flag) + ", CASE WHEN " +
                     std::string(flag) + " THEN ARRAY(SELECT " + std::string(kSibling) +
                     "::text FROM generate_series(1, 4) AS k) ELSE '{}' END"});
}

std::string pending_group() {
  return insert("ff_pending_cancel_groups", {"flow_id, downstream_eid, enqueued_at_ms", "flow, id, due_ms"});
}

// Two siblings at work, one that waits to be claimed, one suspended.
std::string edge_cancel_dispatcher() {
  const Columns in_flow{", flow_id", ", flow"};
  const auto those = [](std::string_view which) {
    return std::string(kSiblings) + " WHERE k " + std::string(which);
  };
  return all_of(
      {core("id", kRunnable, in_flow), core(kSibling, kActive, in_flow, those("<= 2")),
       core(kSibling, kRunnable, in_flow, those("= 3")), core(kSibling, kSuspended, in_flow, those("= 4")),
       attempt(kSibling, "CASE WHEN k <= 2 THEN 9000000000000 END", those("<> 3")),
       suspension(kSibling, {}, those("= 4")), waitpoint(kSibling, kSibling, kActiveWaitpoint, those("= 4")),
       cancel_group("true"), pending_group()});
}

// Every other flag is down already; of the others all siblings have ended.
std::string edge_cancel_reconciler() {
  const Columns in_flow{", flow_id", ", flow"};
  return all_of({core("id", kRunnable, in_flow), core(kSibling, kCompleted, in_flow, kSiblings),
                 cancel_group("n % 2 = 0"), pending_group()});
}

// Four ended upstreams meet in one group. Of eight groups five wait for four more upstreams, one waited for
// these only and is satisfied, one wants any of them and has four more to cancel, one wanted all and one has
// failed.
std::string dependency() {
  const std::string group = "md5('group ' || partition_key || ' ' || n / 4)::uuid";
  const std::string downstream = "md5('downstream ' || partition_key || ' ' || n / 4)::uuid";
  const std::string kind = "(n / 4 + partition_key) % 8";
  const std::string groups = "seed WHERE n % 4 = 0";
  const std::string at_work = "seed WHERE " + kind + " NOT IN (5, 7)";
  const Columns in_flow{", flow_id", ", " + group};
  const auto edge = [&](const std::string& upstream, std::string_view from) {
    return insert("ff_edge",
                  {"flow_id, edge_id, upstream_eid, downstream_eid, policy",
                   group + ", " + upstream + ", " + upstream + ", " + downstream + ", '{}'"},
                  from);
  };
  return all_of(
      {core("id", kCompleted, {", flow_id, terminal_at_ms", ", " + group + ", 5"}), edge("id", "seed"),
       core("flow", kActive, in_flow, at_work), edge("flow", at_work),
       core(downstream, kBlocked, in_flow, groups),
       insert("ff_edge_group",
              {"flow_id, downstream_eid, policy, running_count",
               group + ", " + downstream + ", CASE WHEN " + kind +
                   " = 6 THEN '{\"kind\": \"any_of\"}'::jsonb ELSE '{\"kind\": \"all_of\"}' END, CASE "
                   "WHEN " +
                   kind + " IN (5, 7) THEN 4 ELSE 8 END"},
              groups),
       insert("ff_completion_event",
              {"execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms, "
               "committed_at_ms",
               "id, " + group + ", CASE WHEN " + kind +
                   " = 7 AND n % 4 = 2 THEN 'failed' ELSE 'success' END, 'bench', 'i-1', due_ms, "
                   "due_ms"})});
}

// An edge that was applied after its upstream's end.
std::string group_recount() {
  const std::string upstream = "md5('upstream ' || id)::uuid";
  return all_of(
      {core("id", kBlocked, {", flow_id", ", flow"}),
       core(upstream, kCompleted, {", flow_id, terminal_at_ms", ", flow, due_ms"}),
       insert("ff_edge", {"flow_id, edge_id, upstream_eid, downstream_eid, policy",
                          "flow, id, " + upstream + ", id, '{}'"}),
       insert("ff_edge_group",
              {"flow_id, downstream_eid, policy, running_count", "flow, id, '{\"kind\": \"all_of\"}', 1"}),
       insert("ff_completion_event",
              {"execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms, committed_at_ms, "
               "dispatched_at_ms",
               upstream + ", flow, 'success', 'bench', 'i-1', due_ms, due_ms, due_ms"})});
}

// As the cancel of a flow's header leaves them, every other one held by a worker.
std::string cancel_backlog() {
  const std::string flow = "md5('cancelled ' || partition_key || ' ' || n / 4)::uuid";
  return all_of({core("id", "'cancelled', 'leased', 'cancelled', 'cancelled', 'running_attempt'",
                      {", flow_id, terminal_at_ms", ", " + flow + ", due_ms"}),
                 attempt("id", "CASE WHEN n % 2 = 0 THEN 9000000000000 END"),
                 insert("ff_cancel_backlog",
                        {"flow_id, requested_at_ms, reason, cancellation_policy",
                         flow + ", due_ms, 'operator', 'cancel_all'"},
                        "seed WHERE n % 4 = 0"),
                 insert("ff_cancel_backlog_member",
                        {"flow_id, execution_id", flow + ", '{fp:' || partition_key || '}:' || id"})});
}

std::string budget_reset() {
  return all_of(
      {insert(
           "ff_budget_policy",
           {"budget_id, policy_json, created_at_ms, updated_at_ms, scope_type, scope_id, enforcement_mode, "
            "breach_count, last_breach_at_ms, last_breach_dim, next_reset_at_ms",
            "id::text, '{\"reset_interval_ms\": 3600000, \"limits\": {\"tokens\": 100}}', 1, 1, 'tenant', "
            "'t-1', "
            "'enforce', n % 3, CASE WHEN n % 3 > 0 THEN 5 END, CASE WHEN n % 3 > 0 THEN 'tokens' END, "
            "due_ms"}),
       insert("ff_budget_usage",
              {"budget_id, dimensions_key, current_value, updated_at_ms", "id::text, dimension, 101, 5"},
              "seed, unnest(ARRAY['tokens', 'requests']) AS dimension"),
       insert("ff_budget_usage_by_exec",
              {"budget_id, execution_id, dimensions_key, delta_total, updated_at_ms",
               "id::text, flow, dimension, 101, 5"},
              "seed, unnest(ARRAY['tokens', 'requests']) AS dimension")});
}

// Two were admitted, and the window of one is over.
std::string quota_concurrency() {
  return all_of(
      {insert("ff_quota_policy", {"quota_policy_id, requests_per_window_seconds, max_requests_per_window, "
                                  "active_concurrency_cap, active_concurrency, created_at_ms, updated_at_ms",
                                  "id::text, 60, 0, 10, 2, 1, 1"}),
       insert("ff_quota_admitted",
              {"quota_policy_id, execution_id, admitted_at_ms, expires_at_ms",
               "id::text, k || id::text, 1, CASE k WHEN 1 THEN due_ms ELSE 9000000000000 END"},
              "seed, generate_series(1, 2) AS k")});
}

std::string quota_window() {
  return all_of({insert("ff_quota_window", {"quota_policy_id, admitted_at_ms, execution_id",
                                            "md5((n / 8)::text), due_ms, '{fp:1}:' || id"})});
}

std::string worker_registry_ttl() {
  return all_of(
      {insert("ff_worker_registry",
              {"namespace, worker_instance_id, worker_id, lanes, capabilities_csv, last_heartbeat_ms, "
               "liveness_ttl_ms, registered_at_ms",
               "'bench', id::text, 'w-1', '{default}', 'cpu,gpu', due_ms - 500, 500, 1"})});
}

std::string outbox_retention() {
  return all_of(
      {insert("ff_lease_event",
              {"execution_id, event_type, occurred_at_ms, namespace, instance_tag",
               "id::text, 'expired', due_ms, 'bench', 'i-1'"},
              "seed WHERE n % 4 = 0"),
       insert("ff_completion_event",
              {"execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms, "
               "committed_at_ms, dispatched_at_ms",
               "id, flow, 'success', 'bench', 'i-1', due_ms, due_ms, due_ms"},
              "seed WHERE n % 4 = 1"),
       insert("ff_signal_event", {"execution_id, signal_id, delivered_at_ms", "id::text, 's', due_ms"},
              "seed WHERE n % 4 = 2"),
       insert("ff_operator_event",
              {"execution_id, event_type, occurred_at_ms", "id::text, 'replayed', due_ms"},
              "seed WHERE n % 4 = 3")});
}

std::string with_deadline(std::string_view state, std::vector<std::string> more) {
  more.insert(more.begin(), core("id", state, {", deadline_at_ms", ", due_ms"}));
  return all_of(more);
}

}  // namespace

const std::string& stock_insert(std::string_view reconciler) {
  static const std::map<std::string_view, std::string> all{
      {"attempt_timeout", all_of({core("id", kActive), attempt("id", "due_ms")})},
      {"delayed_promoter", with_deadline(kDelayed, {attempt("id", "NULL")})},
      {"lease_expiry", lease_expiry()},
      {"grant_expiry",
       all_of({core("id", kPendingClaim, {}, "seed WHERE n % 2 = 0"),
               core("id", kActive, {}, "seed WHERE n % 2 = 1"),
               insert("ff_claim_grant",
                      {"grant_id, execution_id, kind, worker_id, worker_instance_id, grant_ttl_ms, "
                       "issued_at_ms, expires_at_ms",
                       "sha256(id::text::bytea), id, 'claim', 'w-1', 'w-1-a', 1, due_ms - 1, due_ms"})})},
      {"index_repair", all_of({core("id", kSuspended, {", attempt_index", ", 1"}), attempt("id", "NULL")})},
      {"execution_deadline", with_deadline(kActive, {attempt("id", "9000000000000")})},
      {"suspension_timeout", suspension_timeout()},
      {"pending_waitpoint_expiry",
       all_of({core("id", kActive), waitpoint("flow", "id", {", expires_at_ms", ", due_ms"})})},
      {"stray_waitpoint", all_of({core("id", kActive), waitpoint("flow", "id", kActiveWaitpoint)})},
      {"completion_repair", completion_repair()},
      {"dependency", dependency()},
      {"group_recount", group_recount()},
      {"edge_cancel_dispatcher", edge_cancel_dispatcher()},
      {"edge_cancel_reconciler", edge_cancel_reconciler()},
      {"cancel_backlog", cancel_backlog()},
      {"budget_reset", budget_reset()},
      {"quota_concurrency", quota_concurrency()},
      {"quota_window", quota_window()},
      {"worker_registry_ttl", worker_registry_ttl()},
      {"outbox_retention", outbox_retention()}};
  return all.at(reconciler);
}

}  // namespace ff::bench
