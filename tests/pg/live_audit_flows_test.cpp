// What `audit` finds of fan-ins, events and counters that differ from what they count.
#include "base/printable.hpp"
#include "live_audit_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

Damage group(const std::string& check, const std::string& assignments, const std::string& of,
             bool several = false) {
  return {check, "UPDATE ff_edge_group SET " + assignments + " WHERE downstream_eid = '{" + of + "}'", of,
          several};
}

constexpr const char* kAnyOf = "policy = '{\"kind\": \"any_of\", \"on_satisfied\": \"let_run\"}'";

// All that a downstream waits for has ended so.
std::string all_ended(const std::string& downstream, const std::string& upstream) {
  return "UPDATE ff_edge SET upstream_eid = '{" + upstream + "}' WHERE downstream_eid = '{" + downstream +
         "}'; ";
}

// A second one that is blocked until all have ended.
constexpr const char* kSecondBlocked =
    "UPDATE ff_exec_core SET lifecycle_phase = 'blocked', eligibility_state = 'blocked_by_dependencies' "
    "WHERE "
    "execution_id = '{satisfied}'; UPDATE ff_edge_group SET policy = '{\"kind\": \"all_of\"}', "
    "cancel_siblings_pending_flag = false, cancel_siblings_pending_members = '{}' WHERE downstream_eid = "
    "'{satisfied}'; DELETE FROM ff_pending_cancel_groups; ";
constexpr const char* kEachForTheOther =
    "UPDATE ff_edge SET upstream_eid = CASE downstream_eid WHEN '{blocked}' THEN '{satisfied}'::uuid ELSE "
    "'{blocked}'::uuid END WHERE upstream_eid = '{upstream}' AND downstream_eid IN ('{blocked}', "
    "'{satisfied}')";

// As FlowFabric leaves members that are created, staged and applied one on the other, and parents that are each the other's
// child.
constexpr const char* kBothSubmitted =
    "; UPDATE ff_exec_core SET lifecycle_phase = 'submitted', eligibility_state = 'eligible_now', "
    "attempt_state = "
    "'pending' WHERE execution_id IN ('{blocked}', '{satisfied}')";
constexpr const char* kBothParents =
    "; UPDATE ff_exec_core SET lifecycle_phase = 'runnable', eligibility_state = 'blocked_by_dependencies', "
    "attempt_state = 'attempt_interrupted', blocking_reason = 'waiting_for_children' WHERE execution_id IN "
    "('{blocked}', '{satisfied}'); INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, "
    "outcome) "
    "VALUES (3, '{blocked}', 0, 'waiting_children'), (3, '{satisfied}', 0, 'waiting_children')";
// An edge that nobody has applied.
constexpr const char* kStaged =
    "; INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy) SELECT 3, "
    "'{flow}', gen_random_uuid(), '{upstream}', '{blocked}', jsonb_build_object('edge_state', 'pending', "
    "'staged_at_ms', {now}";

// It is legal, and for long.
void check_nothing(const std::string& sql) {
  CAPTURE(sql);
  AuditStage stage;
  stage.db.execute_script(stage.filled_in(sql));
  for (const auto& verdict : stage.audit().verdicts)
    for (const auto& row : verdict.rows) FAIL_CHECK(verdict.check->name << " " << row.key << " " << row.what);
}

}  // namespace

TEST_CASE("audit finds fan-ins that count other than their edges, and what it says mends them") {
  check_damages({
      group("group_below_nought", "running_count = -1", "blocked"),
      group("group_miscounted", "success_count = 2", "blocked"),
      group("group_miscounted", "success_count = 0", "blocked"),
      group("group_miscounted", "skip_count = 1, running_count = 0", "blocked"),
      group("group_miscounted", "running_count = 2, success_count = 0, fail_count = 1", "blocked"),
      group("group_miscounted", "running_count = 2, success_count = 0", "blocked"),
      group("group_waits_for_ended", std::string("running_count = 2, success_count = 0, ") + kAnyOf,
            "blocked"),
      group("group_waits_for_ended", std::string("running_count = 2, success_count = 0, ") + kAnyOf,
            "parent"),
      group("children_miscounted", std::string("success_count = 0, ") + kAnyOf, "parent"),
      {"children_failed",
       "UPDATE ff_edge SET upstream_eid = '{skipped_upstream}' WHERE upstream_eid = '{ended_upstream}' AND "
       "downstream_eid = '{parent}'",
       "parent"},
      {"group_waits_for_ended",
       all_ended("blocked", "ended_upstream") +
           "UPDATE ff_edge_group SET success_count = 1, running_count = 1 WHERE downstream_eid = '{blocked}'",
       "blocked"},
      {"children_ended",
       all_ended("parent", "ended_upstream") +
           "UPDATE ff_edge_group SET success_count = 2, running_count = 0 WHERE downstream_eid = '{parent}'",
       "parent"},
      {"satisfied_but_blocked",
       all_ended("blocked", "ended_upstream") +
           "UPDATE ff_edge_group SET success_count = 2, running_count = 0 WHERE downstream_eid = '{blocked}'",
       "blocked"},
      {"impossible_but_waiting",
       all_ended("blocked", "skipped_upstream") + "UPDATE ff_edge_group SET success_count = 0, skip_count = "
                                                  "2, running_count = 0 WHERE downstream_eid = "
                                                  "'{blocked}'",
       "blocked"},
  });
}

// The decided checks end or begin an execution: never by counts that its upstreams contradict.
TEST_CASE("audit decides no fan-in by counts that its upstreams contradict: it is to count right first") {
  const auto counts = [](int success, int fail, int skip) {
    return "UPDATE ff_edge_group SET running_count = 0, success_count = " + std::to_string(success) +
           ", fail_count = " + std::to_string(fail) + ", skip_count = " + std::to_string(skip) +
           " WHERE downstream_eid = '{blocked}'";
  };
  const std::string of_success = all_ended("blocked", "ended_upstream");
  const std::string of_skipped = all_ended("blocked", "skipped_upstream");
  check_damages({
      {"group_miscounted", of_skipped + counts(2, 0, 0), "blocked", true},
      {"group_miscounted", of_skipped + counts(0, 2, 0), "blocked", true},
      {"group_miscounted", of_success + counts(0, 2, 0), "blocked", true},
      {"group_miscounted", of_success + counts(1, 0, 1), "blocked", true},
  });
}

TEST_CASE("audit finds what waits for ever on others, and what it says mends it") {
  check_damages({
      group("group_of_no_kind", "policy = '{\"kind\": \"most_of\"}'", "blocked"),
      {"blocked_without_edges",
       "DELETE FROM ff_edge WHERE downstream_eid = '{blocked}'; UPDATE ff_edge_group SET success_count = 0, "
       "running_count = 0 WHERE downstream_eid = '{blocked}'; UPDATE ff_exec_core SET created_at_ms = {now} "
       "- "
       "7200000 WHERE execution_id = '{blocked}'",
       "blocked"},
      {"upstream_of_another_flow",
       "UPDATE ff_exec_core SET flow_id = gen_random_uuid() WHERE execution_id = '{upstream}'", "", true},
      {"waits_in_circle", std::string(kSecondBlocked) + kEachForTheOther, "", true},
      {"waits_in_circle", std::string(kSecondBlocked) + kEachForTheOther + kBothSubmitted, "", true},
      {"waits_in_circle", std::string(kSecondBlocked) + kEachForTheOther + kBothParents, "", true},
  });
}

TEST_CASE("audit says nothing of a flow that is being built, nor of circles that nobody waits in") {
  const std::string second(kSecondBlocked);
  const std::string circle = second + kEachForTheOther;
  const std::string no_edge =
      "DELETE FROM ff_edge WHERE downstream_eid = '{blocked}'; UPDATE ff_exec_core SET created_at_ms = {now} "
      "- "
      "600000 WHERE execution_id = '{blocked}'; UPDATE ff_edge_group SET success_count = 0, running_count = "
      "0, "
      "policy = '{\"kind\": \"quorum\", \"k\": 3}' WHERE downstream_eid = '{blocked}'; ";
  const std::string first_edge =
      "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy) SELECT 3, "
      "'{flow}', gen_random_uuid(), '{upstream}', '{blocked}', '{\"edge_state\": ";
  for (const std::string& sql :
       {no_edge, no_edge + first_edge + "\"pending\"}'",
        no_edge + first_edge +
            "\"applied\"}'; UPDATE ff_edge_group SET running_count = 1 WHERE downstream_eid = '{blocked}'",
        // A quorum of more than it has edges is decided by the next end, however long that takes.
        no_edge + first_edge +
            "\"applied\"}'; UPDATE ff_edge_group SET running_count = 1 WHERE downstream_eid = '{blocked}'; "
            "UPDATE ff_exec_core SET created_at_ms = 5 WHERE execution_id = '{blocked}'",
        no_edge + first_edge +
            "\"pending\"}'; UPDATE ff_exec_core SET created_at_ms = 5 WHERE execution_id = '{blocked}'",
        // One after the other; either of two; the edge back is only staged.
        second + "UPDATE ff_edge SET upstream_eid = '{satisfied}' WHERE upstream_eid = '{upstream}' AND "
                 "downstream_eid = '{blocked}'",
        circle +
            "; UPDATE ff_edge_group SET policy = '{\"kind\": \"any_of\"}', success_count = 0, running_count "
            "= 2 WHERE downstream_eid = '{blocked}'; UPDATE ff_edge SET upstream_eid = '{upstream}' WHERE "
            "upstream_eid = '{ended_upstream}' AND downstream_eid = '{blocked}'",
        second + "UPDATE ff_edge SET upstream_eid = '{satisfied}' WHERE upstream_eid = '{upstream}' AND "
                 "downstream_eid = '{blocked}'; INSERT INTO ff_edge (partition_key, flow_id, edge_id, "
                 "upstream_eid, downstream_eid, policy) SELECT 3, '{flow}', gen_random_uuid(), '{blocked}', "
                 "'{satisfied}', '{\"edge_state\": \"pending\"}'"})
    check_nothing(sql);
}

TEST_CASE("audit names an edge that nobody has applied for an hour, and begins nobody who waits over it") {
  const std::string of_it = " WHERE downstream_eid = '{blocked}'";
  const std::string no_group = "DELETE FROM ff_edge" + of_it + "; DELETE FROM ff_edge_group" + of_it;
  const std::string satisfied = all_ended("blocked", "ended_upstream") +
                                "UPDATE ff_edge_group SET success_count = 2, running_count = 0" + of_it;
  for (const std::string& sql : {no_group, satisfied}) {
    check_nothing(sql + kStaged + ")");
    AuditStage stage;
    stage.db.execute_script(stage.filled_in(sql + kStaged + " - 3700000)"));
    const audit::Report report = stage.audit();
    REQUIRE(report.verdicts.size() == 1);
    CHECK(report.verdicts[0].check->name == "edge_never_applied");
    REQUIRE(report.verdicts[0].rows.size() == 1);
    CHECK(report.verdicts[0].rows[0].key ==
          to_string(ExecutionId{AuditStage::kPartition, stage.ids.at("blocked")}));
    stage.mend(report.verdicts[0].rows[0].remedy);
    for (const auto& verdict : stage.audit().verdicts) CHECK(verdict.check->name != "edge_never_applied");
  }
}

TEST_CASE("audit says nothing of counts whose event is on its way, or whose upstream runs again") {
  const std::string other = all_ended("blocked", "ended_upstream") +
                            "UPDATE ff_edge_group SET running_count = 0, success_count = 0, fail_count = 2 "
                            "WHERE downstream_eid = '{blocked}'; ";
  for (const std::string& sql :
       {other + "UPDATE ff_completion_event SET dispatched_at_ms = {now} WHERE execution_id = "
                "'{ended_upstream}'",
        other + "UPDATE ff_completion_event SET dispatched_at_ms = NULL WHERE execution_id = "
                "'{ended_upstream}'; UPDATE ff_completion_event SET committed_at_ms = {now}",
        std::string("UPDATE ff_edge_group SET success_count = 1, fail_count = 1, running_count = 0 WHERE "
                    "downstream_eid = '{blocked}'; UPDATE ff_exec_core SET raw_fields = '{\"replay_count\": "
                    "\"1\"}' WHERE execution_id = '{upstream}'")}) {
    CAPTURE(sql);
    AuditStage stage;
    stage.db.execute_script(stage.filled_in(sql));
    for (const auto& verdict : stage.audit().verdicts)
      for (const auto& row : verdict.rows) {
        CAPTURE(verdict.check->name, row.what);
        CHECK(row.key != to_string(ExecutionId{AuditStage::kPartition, stage.ids.at("blocked")}));
      }
  }
}

TEST_CASE("audit finds fan-ins, edges and requests that lead nowhere, and what it says mends them") {
  check_damages({
      {"blocked_without_group",
       "DELETE FROM ff_edge_group WHERE downstream_eid = '{blocked}'; DELETE FROM ff_edge WHERE "
       "downstream_eid = "
       "'{blocked}'",
       "blocked"},
      group("cancel_list_left", "cancel_siblings_pending_members = '{a}'", "blocked"),
      {"cancel_forgotten", "DELETE FROM ff_pending_cancel_groups", "satisfied"},
      {"cancel_overdue", "UPDATE ff_pending_cancel_groups SET enqueued_at_ms = {now} - 3600000", "satisfied",
       true},
      {"cancel_entry_left",
       "UPDATE ff_pending_cancel_groups SET enqueued_at_ms = {now} - 3600000; UPDATE ff_edge_group SET "
       "cancel_siblings_pending_flag = false, cancel_siblings_pending_members = '{}'",
       "satisfied"},
      {"edge_without_group",
       "DELETE FROM ff_edge_group WHERE downstream_eid = '{satisfied}'; DELETE FROM "
       "ff_pending_cancel_groups",
       "", true},
      {"edge_without_group", "DELETE FROM ff_edge_group WHERE downstream_eid = '{blocked}'", "blocked", true},
      {"downstream_missing",
       "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy) SELECT "
       "3, '{flow}', "
       "gen_random_uuid(), '{upstream}', gen_random_uuid(), '{}'",
       ""},
      {"edge_to_itself",
       "UPDATE ff_edge SET upstream_eid = downstream_eid WHERE downstream_eid = '{blocked}' AND upstream_eid "
       "= "
       "'{upstream}'",
       "blocked", true},
      {"upstream_missing",
       "UPDATE ff_edge SET upstream_eid = gen_random_uuid() WHERE downstream_eid = '{blocked}' AND "
       "upstream_eid = "
       "'{upstream}'",
       "blocked", true},
      {"edge_of_another_flow",
       "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy) SELECT "
       "3, "
       "gen_random_uuid(), gen_random_uuid(), '{upstream}', '{blocked}', '{}'",
       "blocked"},
  });
}

TEST_CASE("audit finds what a cancel of a flow left undone, and what it says mends it") {
  const std::string flow =
      "INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms, raw_fields) "
      "VALUES (3, "
      "'{flow}', 'cancelled', 5, '{\"cancellation_policy\": \"cancel_all\"}'); UPDATE ff_exec_core SET "
      "flow_id = "
      "gen_random_uuid() WHERE flow_id = '{flow}' AND execution_id <> '{upstream}' AND lifecycle_phase <> "
      "'terminal'; DELETE FROM ff_edge; DELETE FROM ff_edge_group; DELETE FROM ff_pending_cancel_groups; "
      "UPDATE "
      "ff_exec_core SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now' WHERE "
      "lifecycle_phase = "
      "'blocked' OR eligibility_state = 'blocked_by_dependencies'";
  const std::string backlog =
      "INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, cancellation_policy) VALUES "
      "(3, "
      "'{flow}', {now} - 3600000, 'cancel_all'); INSERT INTO ff_cancel_backlog_member (partition_key, "
      "flow_id, "
      "execution_id) VALUES (3, '{flow}', chr(123) || 'fp:3}:{upstream}')";
  check_damages({
      {"member_of_cancelled", flow, "upstream"},
      {"cancel_backlog_overdue", backlog, ""},
      {"cancel_backlog_left",
       "INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, cancellation_policy) VALUES "
       "(3, gen_random_uuid(), {now} - 7200000, 'cancel_all')",
       ""},
      {"cancel_member_left",
       "INSERT INTO ff_cancel_backlog_member (partition_key, flow_id, execution_id) VALUES (3, "
       "gen_random_uuid(), chr(123) || 'fp:3}:{upstream}')",
       ""},
      {"execution_astray",
       "INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, "
       "eligibility_state, public_state, attempt_state, created_at_ms) VALUES (300, gen_random_uuid(), "
       "'default', "
       "'runnable', 'unowned', 'eligible_now', 'waiting', 'pending', 5)",
       ""},
  });
}

TEST_CASE("audit says nothing of a cancel that has nobody left to cancel and is yet to be closed") {
  check_nothing(
      "INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, cancellation_policy) VALUES "
      "(3, "
      "gen_random_uuid(), {now} - 600000, 'cancel_all')");
}

TEST_CASE("audit finds ends that nobody heard of, and what it says mends them") {
  check_damages({
      {"end_not_passed_on",
       "UPDATE ff_completion_event SET dispatched_at_ms = NULL, committed_at_ms = {now} - 3600000 WHERE "
       "execution_id = "
       "'{completed}'",
       "completed"},
      {"end_untold",
       "UPDATE ff_exec_core SET lifecycle_phase = 'cancelled', eligibility_state = 'not_applicable', "
       "public_state = "
       "'cancelled', attempt_state = 'cancelled', terminal_at_ms = {now} - 3600000 WHERE execution_id = "
       "'{upstream}'",
       "upstream", true},
      {"told_but_alive",
       "INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms, "
       "dispatched_at_ms) VALUES "
       "(3, '{active}', 'failed', 5, 5)",
       "active"},
      {"lease_event_astray", "UPDATE ff_lease_event SET partition_key = 30000", ""},
  });
}

TEST_CASE("what audit says that mends a row names that row, whatever its id has, and is shown as it is") {
  const auto* const conforming = GENERATE("on", "off");
  AuditStage stage;
  const std::string id = "b'\n ; \\! \x1b[2J\x7f\t\u202e";
  for (const char* table : {"ff_budget_policy", "ff_budget_usage", "ff_budget_usage_by_exec"})
    stage.db.execute(std::string("UPDATE ") + table + " SET budget_id = $1 WHERE budget_id = 'b1'",
                     pg::Params::of(id));
  stage.db.execute("UPDATE ff_budget_usage SET current_value = -3 WHERE budget_id = $1", pg::Params::of(id));
  const audit::Report report = stage.audit();
  REQUIRE(report.verdicts.size() == 1);
  const std::string remedy = report.verdicts[0].rows.at(0).remedy;
  CHECK(printable(remedy, remedy.size()) == remedy);
  stage.by_hand.execute(std::string("SET standard_conforming_strings = ") + conforming);
  stage.mend(remedy);
  CHECK(stage.audit().verdicts.empty());
}

TEST_CASE(
    "audit finds counters of budgets, quotas and workers that have drifted, and what it says mends them") {
  check_damages({
      {"budget_reset_overdue",
       "UPDATE ff_budget_policy SET next_reset_at_ms = {now} - 3600000 WHERE budget_id = 'b1'", ""},
      {"budget_never_reset", "UPDATE ff_budget_policy SET next_reset_at_ms = NULL WHERE budget_id LIKE 'it%'",
       ""},
      {"usage_below_nought", "UPDATE ff_budget_usage SET current_value = -3 WHERE budget_id = 'b1'", ""},
      {"usage_below_ledger", "UPDATE ff_budget_usage SET current_value = 3 WHERE budget_id LIKE 'it%'", ""},
      {"ledger_of_before",
       "UPDATE ff_budget_usage_by_exec SET updated_at_ms = {now} - 3600000 WHERE budget_id LIKE 'it%'", ""},
      {"quota_below_nought", "UPDATE ff_quota_policy SET active_concurrency = -1", ""},
      {"quota_above_admitted",
       "UPDATE ff_quota_policy SET active_concurrency = 2, updated_at_ms = {now} - 120000", ""},
      {"worker_overdue", "UPDATE ff_worker_registry SET last_heartbeat_ms = {now} - 3600000", ""},
  });
}
