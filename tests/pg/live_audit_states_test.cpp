// What `audit` finds of executions, attempts and suspensions that are in no legal state.
#include "live_audit_stage.hpp"
#include "resume_conditions.hpp"

using namespace ff;
using namespace ff::test;

namespace {

Damage core(const std::string& check, const std::string& assignments, const std::string& of) {
  return {check, "UPDATE ff_exec_core SET " + assignments + " WHERE execution_id = '{" + of + "}'", of};
}

Damage attempt(const std::string& check, const std::string& assignments, const std::string& of) {
  return {check, "UPDATE ff_attempt SET " + assignments + " WHERE execution_id = '{" + of + "}'", of};
}

constexpr const char* kHourAgo = "{now} - 3600000";

// Suspended an hour ago and without a time-out, with its waitpoint of the key k, and with this.
std::string long_suspended(const std::string& assignment) {
  return "UPDATE ff_waitpoint_pending SET activated_at_ms = {now} - 3600000 WHERE execution_id = "
         "'{suspended}'; "
         "UPDATE ff_suspension_current SET timeout_at_ms = NULL, suspended_at_ms = {now} - 3600000, " +
         assignment + " WHERE execution_id = '{suspended}';";
}

std::string at(const std::string& key) {
  return R"({"Single": {"waitpoint_key": ")" + key + R"(", "matcher": {"ByName": "go"}}})";
}

}  // namespace

TEST_CASE("audit finds executions whose words contradict each other, and what it says mends them") {
  check_damages({
      core("unknown_phase", "lifecycle_phase = 'paused'", "runnable"),
      core("negative_attempt_index", "attempt_index = -1", "retried"),
      core("ended_without_time", "terminal_at_ms = NULL", "completed"),
      core("ended_in_part", "attempt_state = 'running_attempt'", "completed"),
      core("ended_in_part", "eligibility_state = 'eligible_now'", "completed"),
      core("ended_but_resumable", "public_state = 'resumable'", "completed"),
      core("ended_but_resumable", "public_state = 'resumable'", "cancelled"),
      core("alive_after_its_end", "terminal_at_ms = 5, attempt_state = 'cancelled'", "runnable"),
      core("active_in_part", "ownership_state = 'unowned'", "active"),
      core("active_in_part", "attempt_state = 'pending'", "typed"),
      core("suspended_in_part", "ownership_state = 'leased'", "suspended"),
      core("waiting_but_leased", "ownership_state = 'leased'", "retried"),
      core("waiting_in_part", "attempt_state = 'running_attempt'", "retried"),
      core("never_eligible", "eligibility_state = 'not_applicable'", "interrupted"),
      core("never_eligible", "eligibility_state = 'blocked'", "runnable"),
  });
}

TEST_CASE("audit finds executions that nothing will ever move, and what it says mends them") {
  check_damages({
      core("delayed_for_ever", "deadline_at_ms = NULL", "delayed"),
      core("delayed_for_ever", "raw_fields = '{\"delay_until\": \"soon\"}'", "backoff"),
      core("delay_overdue", std::string("deadline_at_ms = ") + kHourAgo, "delayed"),
      core("deadline_overdue", std::string("deadline_at_ms = ") + kHourAgo, "active"),
      {"active_without_attempt", "DELETE FROM ff_attempt WHERE execution_id = '{active}'", "active"},
      attempt("active_without_lease", "lease_expires_at_ms = NULL", "active"),
      attempt("active_without_lease", "lease_expires_at_ms = NULL", "reclaimed"),
      {"interrupted_without_attempt", "DELETE FROM ff_attempt WHERE execution_id = '{interrupted}'",
       "interrupted"},
      core("index_without_attempt", "attempt_index = 1", "interrupted"),
      core("index_without_attempt", "attempt_index = 1", "resumable"),
      {"promise_lapsed", "DELETE FROM ff_claim_grant", "promised"},
      {"promise_lapsed", "UPDATE ff_claim_grant SET expires_at_ms = {now} - 3600000", "promised"},
  });
}

TEST_CASE("audit reads a condition as FlowFabric does") {
  AuditStage stage;
  const auto is_unreadable = [&](const std::string& condition) {
    stage.db.execute("UPDATE ff_suspension_current SET condition = $1::jsonb WHERE execution_id = $2",
                     pg::Params::of(condition, stage.ids.at("suspended")));
    for (const auto& verdict : stage.audit().verdicts)
      if (verdict.check->name == "condition_unreadable") return true;
    return false;
  };
  for (const std::string& condition : readable_conditions()) {
    CAPTURE(condition);
    CHECK_FALSE(is_unreadable(condition));
  }
  for (const std::string& condition : unreadable_conditions()) {
    CAPTURE(condition);
    CHECK(is_unreadable(condition));
  }
}

TEST_CASE("what audit says of an active execution without a lease fences its worker") {
  AuditStage stage;
  stage.db.execute_script(
      stage.filled_in("UPDATE ff_attempt SET lease_expires_at_ms = NULL WHERE execution_id = '{active}'"));
  const audit::Report report = stage.audit();
  REQUIRE(report.verdicts.size() == 1);
  stage.mend(report.verdicts[0].rows.at(0).remedy);
  CHECK(::ff::test::attempt(stage.db, stage.ids.at("active"))["lease_epoch"] == 2);
  CHECK(::ff::test::core(stage.db, stage.ids.at("active"))["attempt_index"] == 0);
  CHECK(::ff::test::core(stage.db, stage.ids.at("active"))["lifecycle_phase"] == "runnable");
}

TEST_CASE("audit finds leases that nobody looks after, and what it says mends them") {
  check_damages({
      attempt("lease_without_epoch", "lease_epoch = 0", "active"),
      attempt("lease_without_worker", "worker_id = NULL, worker_instance_id = NULL", "active"),
      attempt("lease_for_ever", "lease_expires_at_ms = {now} + 9000000000", "active"),
      attempt("two_leases", "outcome = NULL", "reclaimed"),
      attempt("lease_overdue", std::string("lease_expires_at_ms = ") + kHourAgo, "active"),
      attempt("lease_left", std::string("lease_expires_at_ms = ") + kHourAgo, "cancelled"),
      attempt("lease_of_who_waits", std::string("lease_expires_at_ms = ") + kHourAgo, "interrupted"),
      {"older_lease_left",
       "UPDATE ff_attempt SET lease_expires_at_ms = {now} - 3600000 WHERE execution_id = '{reclaimed}' AND "
       "attempt_index "
       "= 0",
       "reclaimed"},
      {"attempt_without_execution", "DELETE FROM ff_exec_core WHERE execution_id = '{retried}'", "retried"},
  });
}

TEST_CASE(
    "audit finds suspensions and waitpoints that no signal and no time-out ends, and what it says mends "
    "them") {
  check_damages({
      {"suspended_without_suspension",
       "DELETE FROM ff_suspension_current WHERE execution_id = '{suspended}'; "
       "DELETE FROM ff_waitpoint_pending WHERE execution_id = '{suspended}'",
       "suspended"},
      {"suspension_without_execution",
       "DELETE FROM ff_exec_core WHERE execution_id = '{resumable}'; "
       "DELETE FROM ff_attempt WHERE execution_id = '{resumable}'",
       "resumable"},
      {"signals_refused",
       "UPDATE ff_suspension_current SET member_map = '{\"k\": {\"never_committed\": true}, \"other\": []}' "
       "WHERE "
       "execution_id = '{suspended}'",
       "suspended"},
      {"signals_refused",
       "UPDATE ff_suspension_current SET member_map = '[]' WHERE execution_id = '{suspended}'", "suspended"},
      {"condition_unreadable",
       "UPDATE ff_suspension_current SET condition = '{}' WHERE execution_id = '{suspended}'", "suspended"},
      {"condition_unreadable",
       R"(UPDATE ff_suspension_current SET condition = '{"Composite": {"kind": "AllOf", "members": [)" +
           at("k") + R"(, {"AnyOf": []}]}}' WHERE execution_id = '{suspended}')",
       "suspended"},
      {"suspended_for_ever",
       "DELETE FROM ff_waitpoint_pending WHERE execution_id = '{suspended}'; UPDATE ff_suspension_current "
       "SET "
       "timeout_at_ms = NULL, suspended_at_ms = {now} - 3600000 WHERE execution_id = '{suspended}'",
       "suspended"},
      {"suspended_for_ever", long_suspended("condition = '" + at("other") + "'"), "suspended"},
      {"suspended_for_ever",
       long_suspended(R"(condition = '{"Composite": {"kind": "AllOf", "members": [)" + at("k") + ", " +
                      at("other") + "]}}'"),
       "suspended"},
      {"waitpoint_without_key",
       long_suspended("condition = '" + at("other") + "'") +
           "UPDATE ff_waitpoint_pending SET waitpoint_key = '' WHERE execution_id = '{suspended}'",
       "suspended"},
      {"suspension_overdue",
       "UPDATE ff_suspension_current SET timeout_at_ms = {now} - 3600000 WHERE execution_id = '{suspended}'",
       "suspended"},
      {"suspension_left",
       "UPDATE ff_suspension_current SET execution_id = '{completed}', timeout_at_ms = {now} - 3600000 WHERE "
       "execution_id "
       "= '{resumable}'",
       "completed"},
      {"time_out_left",
       "UPDATE ff_suspension_current SET timeout_at_ms = {now} - 3600000 WHERE execution_id = '{resumable}'",
       "resumable"},
      {"waitpoint_without_execution",
       "UPDATE ff_waitpoint_pending SET execution_id = gen_random_uuid() WHERE execution_id = '{active}'",
       ""},
      {"waitpoint_unknown",
       "UPDATE ff_waitpoint_pending SET state = 'open' WHERE execution_id = '{suspended}'", "suspended"},
      {"waitpoint_left",
       "UPDATE ff_suspension_current SET execution_id = '{completed}' WHERE execution_id = '{resumable}'; "
       "UPDATE ff_exec_core SET terminal_at_ms = {now} - 3600000 WHERE execution_id = '{completed}'; "
       "UPDATE ff_waitpoint_pending SET execution_id = '{completed}' WHERE execution_id = '{active}'",
       "completed"},
      {"waitpoint_overdue",
       "UPDATE ff_waitpoint_pending SET expires_at_ms = {now} - 3600000 WHERE execution_id = '{active}'",
       "active"},
      {"waitpoint_astray",
       "UPDATE ff_waitpoint_pending SET execution_id = '{interrupted}', activated_at_ms = 5, state = "
       "'active' WHERE "
       "execution_id = '{active}'",
       "interrupted"},
      {"waitpoint_of_before",
       "UPDATE ff_waitpoint_pending SET activated_at_ms = 5 WHERE execution_id = '{suspended}'", "suspended"},
  });
}

TEST_CASE("audit says nothing of a suspension that a signal, a time-out or an operator can still end") {
  const std::string both = R"(condition = '{"Composite": {"kind": "AllOf", "members": [)" + at("k") + ", " +
                           at("other") + R"(]}}', member_map = '{"other": [{"signal_name": )";
  const std::string any = R"('{"Composite": {"kind": "Count", "n": 1, "count_kind": "DistinctSignals", )"
                          R"("waitpoints": ["other", "k"]}}')";
  const std::string unopened = "DELETE FROM ff_waitpoint_pending WHERE execution_id = '{suspended}'; ";
  for (const std::string& sql :
       {unopened + "UPDATE ff_suspension_current SET suspended_at_ms = {now} - 3600000 WHERE execution_id = "
                   "'{suspended}'",
        long_suspended("condition = '" + at("k") + "'"), long_suspended(both + R"("go"}]}')"),
        long_suspended("condition = " + any), unopened + long_suspended(R"(condition = '"OperatorOnly"')")}) {
    CAPTURE(sql);
    AuditStage stage;
    stage.db.execute_script(stage.filled_in(sql));
    CHECK(stage.audit().verdicts.empty());
  }
  // A signal has come there, but another one.
  AuditStage stage;
  stage.db.execute_script(stage.filled_in(long_suspended(both + R"("stop"}]}')")));
  REQUIRE(stage.audit().verdicts.size() == 1);
  CHECK(stage.audit().verdicts[0].check->name == "suspended_for_ever");
}

namespace {

// What is said of a lease that nobody holds, done; gives the execution as it is then.
std::string after_taking_from_nobody(AuditStage& stage, const std::string& of) {
  stage.db.execute_script(
      stage.filled_in("UPDATE ff_attempt SET worker_id = NULL, worker_instance_id = NULL, "
                      "lease_expires_at_ms = {now} + 60000 WHERE "
                      "execution_id = '{" +
                      of + "}' AND attempt_index = 0"));
  for (const auto& verdict : stage.audit().verdicts)
    for (const auto& row : verdict.rows)
      if (verdict.check->name == "lease_without_worker") stage.mend(row.remedy);
  return row(stage.db,
             "SELECT lifecycle_phase || ' ' || attempt_index AS is FROM ff_exec_core WHERE execution_id = $1",
             pg::Params::of(stage.ids.at(of)))["is"]
      .get<std::string>();
}

}  // namespace

TEST_CASE(
    "a lease of nobody is taken without a second life for who has ended, waits or is at work elsewhere") {
  AuditStage stage;
  CHECK(after_taking_from_nobody(stage, "completed") == "terminal 0");
  CHECK(after_taking_from_nobody(stage, "suspended") == "suspended 0");
  CHECK(after_taking_from_nobody(stage, "cancelled") == "cancelled 0");
  CHECK(after_taking_from_nobody(stage, "reclaimed") == "active 1");
  CHECK(after_taking_from_nobody(stage, "active") == "runnable 0");
  CHECK(after_taking_from_nobody(stage, "typed") == "runnable 0");
  CHECK(row(stage.db,
            "SELECT count(*) FROM ff_attempt WHERE worker_id IS NULL AND lease_expires_at_ms IS NOT NULL")
            ["count"] == 0);
}
