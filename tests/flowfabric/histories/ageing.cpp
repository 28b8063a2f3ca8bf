#include "histories/ageing.hpp"

#include <map>

#include "pg/transaction.hpp"

namespace ff::test {
namespace {

constexpr bool kText = true;
constexpr bool kNumber = false;

std::string moved_inside(const std::string& value, const Moments::Inside& inside) {
  const std::string at = std::string(inside.column) + "#>>'{" + std::string(inside.path) + "}'";
  return "CASE WHEN " + at + " ~ '^[0-9]+$' THEN jsonb_set(" + value + ", '{" + std::string(inside.path) +
         "}', to_jsonb(((" + at + ")::bigint - $1)" + (inside.as_text ? "::text" : "") + ")) ELSE " + value +
         " END";
}

std::string statement(const Moments& of) {
  std::map<std::string, std::string> values;
  for (const std::string_view column : of.columns) values.emplace(column, std::string(column) + " - $1");
  for (const Moments::Inside& inside : of.inside) {
    std::string& value = values.try_emplace(std::string(inside.column), inside.column).first->second;
    value = moved_inside(value, inside);
  }
  std::string set;
  for (const auto& [column, value] : values) set += (set.empty() ? "" : ", ") + column + " = " + value;
  return "UPDATE " + std::string(of.table) + " SET " + set +
         (of.partitioned ? " WHERE partition_key = ANY(" + std::string(kHistoryPartitions) + ")" : "");
}

}  // namespace

const std::vector<Moments>& moments() {
  static const std::vector<Moments> all{
      {"ff_exec_core",
       true,
       {"created_at_ms", "terminal_at_ms", "deadline_at_ms", "started_at_ms"},
       {{"raw_fields", "delay_until", kText},
        {"raw_fields", "last_mutation_at", kText},
        {"raw_fields", "lease_expired_at_ms", kNumber},
        {"raw_fields", "completion_repaired_for", kNumber},
        {"raw_fields", "claim_grant,expires_at_ms", kNumber},
        {"raw_fields", "claim_grant,issued_at_ms", kNumber}}},
      {"ff_attempt", true, {"lease_expires_at_ms", "started_at_ms", "terminal_at_ms"}},
      {"ff_flow_core",
       true,
       {"created_at_ms", "terminal_at_ms"},
       {{"raw_fields", "last_mutation_at_ms", kNumber}}},
      {"ff_edge",
       true,
       {},
       {{"policy", "created_at_ms", kNumber},
        {"policy", "staged_at_ms", kNumber},
        {"policy", "applied_at_ms", kNumber}}},
      {"ff_pending_cancel_groups", true, {"enqueued_at_ms"}},
      {"ff_suspension_current", true, {"suspended_at_ms", "timeout_at_ms"}},
      {"ff_waitpoint_pending", true, {"created_at_ms", "expires_at_ms", "activated_at_ms"}},
      {"ff_completion_event", true, {"occurred_at_ms", "committed_at_ms", "dispatched_at_ms"}},
      {"ff_claim_grant", true, {"issued_at_ms", "expires_at_ms"}, {}, {"grant_ttl_ms"}},
      {"ff_cancel_backlog", true, {"requested_at_ms", "grace_until_ms"}},
      {"ff_budget_policy", true, {"created_at_ms", "updated_at_ms", "last_breach_at_ms", "next_reset_at_ms"}},
      {"ff_budget_usage", true, {"last_reset_at_ms", "updated_at_ms"}},
      {"ff_budget_usage_by_exec", true, {"updated_at_ms"}},
      {"ff_budget_usage_dedup", true, {"applied_at_ms", "expires_at_ms"}},
      {"ff_quota_policy", true, {"created_at_ms", "updated_at_ms"}},
      {"ff_quota_window", true, {"admitted_at_ms"}},
      {"ff_quota_admitted", true, {"admitted_at_ms", "expires_at_ms"}},
      {"ff_suspend_dedup", true, {"created_at_ms"}},
      {"ff_lease_event", false, {"occurred_at_ms"}},
      {"ff_signal_event", false, {"delivered_at_ms"}},
      {"ff_operator_event", false, {"occurred_at_ms"}},
      {"ff_worker_registry", true, {"last_heartbeat_ms", "registered_at_ms"}, {}, {"liveness_ttl_ms"}}};
  return all;
}

void age(pg::Connection& connection, std::int64_t ms) {
  static const std::vector<std::string> statements = [] {
    std::vector<std::string> made;
    for (const Moments& of : moments()) made.push_back(statement(of));
    return made;
  }();
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  for (const std::string& sql : statements) transaction.execute(sql, pg::Params::of(ms));
  transaction.commit();
}

}  // namespace ff::test
