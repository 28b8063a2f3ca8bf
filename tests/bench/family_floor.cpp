#include "bench/family_floor.hpp"

#include <future>
#include <map>

namespace ff::bench {
namespace {

using namespace std::chrono_literals;
using Statements = std::vector<std::string>;

// Of every table, by its alias.
std::string mine(const std::string& alias) {
  return alias + ".partition_key BETWEEN $1 AND $2";
}

std::string same_execution(const std::string& one, const std::string& other) {
  return one + ".partition_key = " + other + ".partition_key AND " + one + ".execution_id = " + other +
         ".execution_id";
}

// `from` names the core row c.
std::string completions(const std::string& outcome, const std::string& from) {
  return "INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, "
         "instance_tag, occurred_at_ms) SELECT c.partition_key, c.execution_id, c.flow_id, " +
         outcome + ", c.raw_fields->>'namespace', c.raw_fields->'tags'->>'cairn.instance_id', $3 FROM " +
         from;
}

std::string lease_events(const std::string& type, const std::string& from) {
  return "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, "
         "instance_tag) SELECT c.execution_id::text, '" +
         type +
         "', $3, c.partition_key, c.raw_fields->>'namespace', c.raw_fields->'tags'->>'cairn.instance_id' "
         "FROM " +
         from;
}

// Of a core row c whose attempt goes on.
const std::string kCounted =
    "c.raw_fields || jsonb_build_object('total_attempt_count', c.attempt_index::text)";

Statements delayed_promoter() {
  return {
      "UPDATE ff_exec_core c SET eligibility_state = 'eligible_now', deadline_at_ms = NULL, public_state = "
      "'waiting', raw_fields = " +
      kCounted + " WHERE " + mine("c") +
      " AND c.deadline_at_ms <= $4 AND c.lifecycle_phase = 'runnable' AND c.eligibility_state = "
      "'not_eligible_until_time'"};
}

Statements lease_expiry() {
  const std::string lapsed = mine("a") + " AND a.lease_expires_at_ms <= $4";
  return {lease_events("expired", "ff_attempt a JOIN ff_exec_core c ON " + same_execution("c", "a") +
                                      " WHERE " + mine("c") + " AND " + lapsed),
          "UPDATE ff_exec_core c SET lifecycle_phase = 'runnable', ownership_state = 'unowned', "
          "eligibility_state = "
          "'eligible_now', attempt_state = 'pending_retry_attempt', public_state = 'waiting', raw_fields = " +
              kCounted + " || jsonb_build_object('lease_expired_at_ms', $3) FROM ff_attempt a WHERE " +
              same_execution("c", "a") +
              " AND c.attempt_index = a.attempt_index AND c.lifecycle_phase = 'active' "
              "AND " +
              mine("c") + " AND " + lapsed,
          "UPDATE ff_attempt a SET outcome = 'lease_expired_reclaimable', lease_expires_at_ms = NULL, "
          "lease_epoch = "
          "lease_epoch + 1, raw_fields = raw_fields || jsonb_build_object('lease_reclaims', "
          "coalesce((raw_fields->>'lease_reclaims')::bigint, 0) + 1) WHERE " +
              lapsed};
}

Statements execution_deadline() {
  const std::string late = mine("c") + " AND c.deadline_at_ms <= $4 AND c.lifecycle_phase = 'active'";
  return {
      completions("'expired'", "ff_exec_core c WHERE " + late),
      lease_events("expired", "ff_exec_core c WHERE " + late),
      "UPDATE ff_attempt a SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = "
      "lease_epoch + "
      "1, terminal_at_ms = $3 FROM ff_exec_core c WHERE " +
          same_execution("a", "c") + " AND a.attempt_index = c.attempt_index AND " + mine("a") + " AND " +
          late,
      "UPDATE ff_exec_core c SET lifecycle_phase = 'terminal', ownership_state = 'unowned', "
      "eligibility_state = "
      "'not_applicable', attempt_state = 'attempt_terminal', public_state = 'expired', terminal_at_ms = $3, "
      "raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'execution_deadline') WHERE " +
          late};
}

// Suspensions come last: by then the core tells what becomes of them.
Statements suspension_timeout() {
  const std::string lapsed = mine("s") + " AND s.timeout_at_ms <= $4";
  const std::string of_core = same_execution("c", "s") + " AND " + mine("c") + " AND " + lapsed;
  const std::string suspended = of_core + " AND c.lifecycle_phase = 'suspended'";
  const std::string state =
      "CASE s.timeout_behavior WHEN 'auto_resume_with_timeout_signal' THEN 'resumable' WHEN 'cancel' THEN "
      "'cancelled' ELSE 'expired' END";
  return {completions(state, "ff_suspension_current s, ff_exec_core c WHERE " + suspended),
          "DELETE FROM ff_waitpoint_pending w USING ff_suspension_current s, ff_exec_core c WHERE " +
              mine("w") + " AND " + same_execution("w", "s") + " AND " + suspended,
          "UPDATE ff_exec_core c SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', "
          "public_state = 'resumable', raw_fields = " +
              kCounted + " FROM ff_suspension_current s WHERE " + suspended +
              " AND s.timeout_behavior = 'auto_resume_with_timeout_signal'",
          "UPDATE ff_exec_core c SET lifecycle_phase = 'terminal', ownership_state = 'unowned', "
          "eligibility_state = "
          "'not_applicable', attempt_state = 'attempt_terminal', terminal_at_ms = $3, public_state = " +
              state +
              ", cancellation_reason = 'suspension_timeout_' || coalesce(s.timeout_behavior, 'fail'), "
              "raw_fields = "
              "c.raw_fields || jsonb_build_object('last_failure_message', 'suspension_timeout') FROM "
              "ff_suspension_current s WHERE " +
              suspended,
          "DELETE FROM ff_suspension_current s USING ff_exec_core c WHERE " + of_core +
              " AND c.lifecycle_phase = 'terminal'",
          "UPDATE ff_suspension_current s SET timeout_at_ms = NULL, member_map = CASE c.public_state WHEN "
          "'resumable' THEN s.member_map || jsonb_build_object('__timeout__', "
          "coalesce(s.member_map->'__timeout__', '[]') || jsonb_build_array(jsonb_build_object('signal_id', "
          "gen_random_uuid(), 'signal_name', 'timeout', 'signal_category', 'timeout', 'source_type', "
          "'suspension_timeout', 'source_identity', '', 'correlation_id', '', 'accepted_at', $3, "
          "'payload_hex', NULL))) ELSE s.member_map END FROM ff_exec_core c WHERE " +
              of_core};
}

Statements pending_waitpoint_expiry() {
  return {"DELETE FROM ff_waitpoint_pending w WHERE " + mine("w") +
          " AND w.expires_at_ms <= $4 AND w.state = 'pending'"};
}

Statements edge_cancel_reconciler() {
  const std::string due = mine("p") + " AND p.enqueued_at_ms <= $4";
  return {
      "UPDATE ff_edge_group g SET cancel_siblings_pending_flag = false, cancel_siblings_pending_members = "
      "'{}' "
      "FROM ff_pending_cancel_groups p WHERE g.partition_key = p.partition_key AND g.flow_id = p.flow_id AND "
      "g.downstream_eid = p.downstream_eid AND g.cancel_siblings_pending_flag AND " +
          mine("g") + " AND " + due,
      "DELETE FROM ff_pending_cancel_groups p WHERE " + due};
}

Statements budget_reset() {
  const std::string due = mine("b") + " AND b.next_reset_at_ms <= $4";
  return {
      "UPDATE ff_budget_usage u SET current_value = 0, last_reset_at_ms = $3, updated_at_ms = $3 FROM "
      "ff_budget_policy b WHERE u.partition_key = b.partition_key AND u.budget_id = b.budget_id AND " +
          mine("u") + " AND " + due,
      "DELETE FROM ff_budget_usage_by_exec l USING ff_budget_policy b WHERE l.partition_key = "
      "b.partition_key "
      "AND l.budget_id = b.budget_id AND " +
          mine("l") + " AND " + due,
      "UPDATE ff_budget_policy b SET last_breach_at_ms = NULL, last_breach_dim = NULL, updated_at_ms = $3, "
      "next_reset_at_ms = $3 + (policy_json->>'reset_interval_ms')::bigint WHERE " +
          due};
}

Statements quota_concurrency() {
  return {"DELETE FROM ff_quota_admitted g WHERE " + mine("g") + " AND g.expires_at_ms < $4 - 60000",
          "UPDATE ff_quota_policy q SET active_concurrency = 1, updated_at_ms = $3 WHERE " + mine("q")};
}

Statements quota_window() {
  return {"DELETE FROM ff_quota_window w WHERE " + mine("w") + " AND w.admitted_at_ms <= $4"};
}

Statements worker_registry_ttl() {
  const std::string silent = mine("w") + " AND w.last_heartbeat_ms + w.liveness_ttl_ms <= $4";
  return {
      "INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, "
      "event_kind) SELECT w.partition_key, w.namespace, w.worker_instance_id, $3, 'ttl_swept' FROM "
      "ff_worker_registry w WHERE " +
          silent,
      "DELETE FROM ff_worker_registry w WHERE " + silent};
}

Statements outbox_retention() {
  return {"DELETE FROM ff_lease_event l WHERE " + mine("l") + " AND l.occurred_at_ms <= $4",
          "DELETE FROM ff_completion_event e WHERE " + mine("e") +
              " AND e.dispatched_at_ms IS NOT NULL AND e.committed_at_ms <= $4",
          "DELETE FROM ff_signal_event s WHERE " + mine("s") + " AND s.delivered_at_ms <= $4",
          "DELETE FROM ff_operator_event o WHERE " + mine("o") + " AND o.occurred_at_ms <= $4"};
}

void work(pg::Connection& connection, const Statements& statements, int first, int last,
          Milliseconds holdoff) {
  const auto deadline = Clock::system().now() + 10min;
  connection.execute_script("BEGIN");
  const auto now = connection.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
                       .one()
                       .get<std::int64_t>(0);
  const auto params = pg::Params::of(static_cast<std::int16_t>(first), static_cast<std::int16_t>(last), now,
                                     std::int64_t{now - holdoff.count()});
  for (const std::string& statement : statements) connection.execute(statement, params, deadline);
  connection.execute_script("COMMIT");
}

}  // namespace

const Statements& floor_of(std::string_view reconciler) {
  static const std::map<std::string_view, Statements> all{
      {"delayed_promoter", delayed_promoter()},
      {"lease_expiry", lease_expiry()},
      {"execution_deadline", execution_deadline()},
      {"suspension_timeout", suspension_timeout()},
      {"pending_waitpoint_expiry", pending_waitpoint_expiry()},
      {"edge_cancel_reconciler", edge_cancel_reconciler()},
      {"budget_reset", budget_reset()},
      {"quota_concurrency", quota_concurrency()},
      {"quota_window", quota_window()},
      {"worker_registry_ttl", worker_registry_ttl()},
      {"outbox_retention", outbox_retention()}};
  static const Statements none;
  const auto found = all.find(reconciler);
  return found == all.end() ? none : found->second;
}

void work_floor(std::vector<pg::Connection>& two, const Statements& statements, int partitions,
                Milliseconds holdoff) {
  const int half = partitions / 2;
  auto other =
      std::async(std::launch::async, [&] { work(two.at(1), statements, half, partitions - 1, holdoff); });
  work(two.at(0), statements, 0, half - 1, holdoff);
  other.get();
}

}  // namespace ff::bench
