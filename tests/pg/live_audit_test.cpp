// `audit` as a whole: what is legal, what is only being done, and what it leaves alone.
#include "demo/simulation/workload.hpp"
#include "live_audit_stage.hpp"
#include "support/log_capture.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::string names(const audit::Report& report) {
  std::string all;
  for (const auto& omission : report.omissions) all += omission.checks + ": " + omission.error + "\n";
  for (const auto& verdict : report.verdicts)
    for (const auto& row : verdict.rows)
      all += std::string(verdict.check->name) + " " + row.key + " " + row.what + "\n";
  return all;
}

}  // namespace

TEST_CASE("audit finds nothing where every state there is is as its writers leave it, and writes nothing") {
  AuditStage stage;
  const auto before = snapshot(stage.db);
  const Partitions all = partition_range({0}, {255});
  audit::Audit its(stage.db, audit::all_spaces(stage.db));
  const bool clean = its.check();
  CHECK(names(its.confirm()) == "");
  CHECK(clean);
  CHECK(diff(before, snapshot(stage.db)).empty());
}

TEST_CASE("what was wrong in the first look only is not reported, nor what somebody has written to since") {
  AuditStage stage;
  const std::string damage =
      stage.filled_in("UPDATE ff_attempt SET lease_expires_at_ms = NULL WHERE execution_id = '{active}'");
  stage.db.execute_script(damage);
  CHECK(names(stage.audit([&] {
          stage.by_hand.execute_script(stage.filled_in(
              "UPDATE ff_attempt SET lease_expires_at_ms = {now} + 60000 WHERE execution_id = '{active}'"));
        })) == "");
  stage.db.execute_script(damage);
  CHECK(names(stage.audit([&] { stage.by_hand.execute_script(damage); })) == "");
  // What others only lock is at rest.
  CHECK_THAT(names(stage.audit([&] {
               stage.by_hand.execute_script(
                   "BEGIN; SELECT FROM ff_exec_core FOR UPDATE; SELECT FROM ff_attempt FOR UPDATE");
             })),
             Catch::StartsWith("active_without_lease {fp:3}:"));
}

TEST_CASE("a member that its cancel lets finish, or that was replayed, is none that lives on") {
  AuditStage stage;
  const std::string flow =
      "INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms, raw_fields) "
      "VALUES (3, "
      "'{flow}', 'cancelled', 5, '{\"cancellation_policy\": \"cancel_pending\"}')";
  stage.db.execute_script(stage.filled_in(flow));
  CHECK(names(stage.audit()) == "");
  stage.db.execute_script("UPDATE ff_flow_core SET raw_fields = '{}'");
  CHECK_THAT(names(stage.audit()), Catch::Contains("member_of_cancelled "));
}

TEST_CASE("of many rows at fault those are counted that are not listed") {
  AuditStage stage;
  stage.db.execute_script(
      "INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, "
      "eligibility_state, "
      "public_state, attempt_state, created_at_ms) SELECT 3, gen_random_uuid(), 'default', 'runnable', "
      "'leased', "
      "'eligible_now', 'waiting', 'pending', 5 FROM generate_series(1, 1200)");
  const audit::Report report = stage.audit();
  REQUIRE(report.verdicts.size() == 1);
  CHECK(report.verdicts[0].rows.size() == 1000);
  CHECK(report.verdicts[0].more == 200);
}

TEST_CASE("a check that cannot be made is said to be left out, and the others are made") {
  AuditStage stage;
  stage.db.execute_script("DROP TABLE ff_quota_policy");
  stage.set("active", "ownership_state = 'unowned'");
  const audit::Report report = stage.audit();
  REQUIRE(report.omissions.size() == 1);
  CHECK(report.omissions[0].checks == "quota_below_nought, quota_above_admitted");
  CHECK(report.omissions[0].count == 2);
  CHECK_THAT(report.omissions[0].error, Catch::Contains("ff_quota_policy"));
  REQUIRE(report.verdicts.size() == 1);
  CHECK(report.verdicts[0].check->name == "active_in_part");
  // Said once for all groups of partitions.
  audit::Audit everywhere(stage.db, audit::all_spaces(stage.db));
  everywhere.check();
  const auto omissions = everywhere.confirm().omissions;
  REQUIRE(omissions.size() == 1);
  CHECK(omissions[0].partitions == partition_range({0}, {255}));
}

TEST_CASE("every check has a meaning and a remedy, and a name of its own") {
  std::set<std::string_view> seen;
  for (const audit::Sweep& sweep : audit::sweeps())
    for (const audit::Check& check : sweep.checks) {
      CAPTURE(check.name);
      CHECK(seen.insert(check.name).second);
      CHECK_FALSE(check.meaning.empty());
      CHECK_FALSE(check.remedy.empty());
    }
  CHECK(seen.size() >= 60);
}
