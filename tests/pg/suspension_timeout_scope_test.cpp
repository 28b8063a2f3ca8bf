// Which suspensions suspension_timeout takes and which it leaves: by time, filter and partition, and while
// others are at them.
#include <catch2/catch.hpp>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "pg/suspension_stage.hpp"
#include "pg/transaction.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

TEST_CASE("suspension_timeout leaves a suspension alone to the end of the last millisecond") {
  const std::string behavior = GENERATE("fail", "auto_resume_with_timeout_signal");
  SuspensionStage t;
  t.add(behavior, kNow - 1);
  const Uuid present = t.add(behavior, kNow, {.partition = {4}, .state = suspended()});
  const auto before = snapshot(t.db);
  CHECK(act_on(t.db, suspension_timeout(), {{{4}, {to_string(present)}}}).empty());
  CHECK(diff(before, snapshot(t.db)).empty());
  const TickReport report = t.tick();
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(core(t.db, present)["lifecycle_phase"] == "suspended");
  CHECK(t.suspension(present)["timeout_at_ms"] == kNow);
  CHECK(report.next_due == unix_millis(kNow + 1));
}

TEST_CASE("suspension_timeout skips a suspension of which somebody holds any row and takes it later") {
  const std::string table =
      GENERATE("ff_suspension_current", "ff_exec_core", "ff_attempt", "ff_waitpoint_pending");
  // Where nothing ends, the attempt is nobody's concern.
  const bool resumes = table == "ff_attempt";
  SuspensionStage t;
  const Uuid ending = t.add("fail");
  const Uuid resuming = t.add(kAutoResume);
  const Uuid free = t.add("fail");
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = ANY($1) FOR UPDATE",
                  pg::Params::of(std::vector<Uuid>{ending, resuming}));
  const TickReport report = t.tick();
  CAPTURE(table);
  CHECK(outcomes(report) == (resumes ? "auto_resumed=1 failed=1" : "failed=1"));
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, resumes ? 1 : 2}});
  const auto changes = beside(free, diff(before, snapshot(t.db)));
  CHECK(beside(resuming, changes).empty());
  CHECK(changes.empty() == !resumes);
  holding.rollback();
  CHECK(outcomes(t.tick()) == (resumes ? "failed=1" : "auto_resumed=1 failed=1"));
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("suspension_timeout clears the suspension of an ended execution only while nobody holds its core") {
  SuspensionStage t;
  const Uuid id = t.add("fail", kPast, {.partition = {3}, .state = terminal(), .terminal_at_ms = 5});
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 3}});  // found by two waitpoints, too
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "orphan_cleared=1");
}

TEST_CASE("suspension_timeout does not mind that others refer to the key of the core") {
  SuspensionStage t;
  t.add("fail");
  auto other = t.database.connect();
  pg::Transaction referring(other);
  referring.execute("SELECT FROM ff_exec_core FOR KEY SHARE");
  CHECK(outcomes(t.tick()) == "failed=1");
}

TEST_CASE("suspension_timeout is not disturbed by raw_fields of any type, and filters when it is asked to") {
  SuspensionStage t;
  const auto add = [&](const Json& raw_fields) {
    return t.add("fail", kPast, {.partition = {3}, .state = suspended(), .raw_fields = raw_fields});
  };
  const Uuid mine = add(origin("a", "1"));
  std::vector<Uuid> others;
  for (const Json& raw_fields : {origin("b", "1"), origin("a", "2"), Json("null"), Json(5), Json("text"),
                                 Json::array({"namespace"}), Json{{"namespace", 5}, {"tags", {1, 2}}}})
    others.push_back(add(raw_fields));
  t.db.execute("UPDATE ff_exec_core SET raw_fields = 'null' WHERE raw_fields = '\"null\"'");
  const auto filter = for_both("a", {"cairn.instance_id", "1"});
  for (const Uuid& id : others)
    CHECK(act_on(t.db, suspension_timeout(), {{{3}, {to_string(id)}}}, filter).empty());
  CHECK(t.tick({.filter = filter}).scanned == 1);
  CHECK(core(t.db, mine)["lifecycle_phase"] == "terminal");
  CHECK(outcomes(t.tick()) == "failed=7");
  for (const Uuid& id : others)
    CHECK(core(t.db, id)["raw_fields"]["last_failure_message"] == "suspension_timeout");
}

TEST_CASE("suspension_timeout leaves a suspension alone that is resumed between looking and acting") {
  SuspensionStage t;
  t.add("fail");
  t.check_left_alone_after("UPDATE ff_suspension_current SET timeout_at_ms = NULL");
}

TEST_CASE("suspension_timeout leaves an execution alone that a signal resumes between looking and acting") {
  SuspensionStage t;
  const Uuid id = t.add(GENERATE(values<std::string>({"fail", kAutoResume})));
  const auto step_in = [&] {
    auto other = t.database.connect();
    other.execute(
        "UPDATE ff_exec_core SET lifecycle_phase = 'runnable', public_state = 'resumable',"
        " eligibility_state = 'eligible_now'");
    other.execute("DELETE FROM ff_waitpoint_pending");
  };
  CHECK(outcomes(t.tick({.before_acting = step_in})) == "resumed_before=1");
  CHECK(core(t.db, id)["public_state"] == "resumable");
  CHECK(completion_events(t.db).empty());
}

TEST_CASE("suspension_timeout leaves a waitpoint alone that is held, and whose execution has ended") {
  SuspensionStage t;
  const Uuid id = t.add("fail", std::nullopt, {.partition = {3}, .state = cancelled(), .terminal_at_ms = 5});
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  const std::string table = GENERATE("ff_suspension_current", "ff_waitpoint_pending", "ff_exec_core");
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 2}});
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "orphan_cleared=2");
}

TEST_CASE("suspension_timeout tells executions of the same number in two partitions apart") {
  SuspensionStage t;
  const Uuid id = t.add("cancel");
  insert_core(t.db, {.partition = {4}, .execution = id, .state = terminal(), .terminal_at_ms = 5});
  t.add_suspension(id, "fail", kPast, {4});
  CHECK(outcomes(t.tick()) == "cancelled=1 orphan_cleared=1");
  CHECK(number(t.db, "SELECT count(*) FROM ff_waitpoint_pending WHERE partition_key = 4") == 0);
  CHECK(number(t.db, "SELECT count(*) FROM ff_waitpoint_pending WHERE partition_key = 3") == 0);
  CHECK(completion_events(t.db).size() == 1);
}

TEST_CASE(
    "suspension_timeout refuses a worker whose execution it has ended, and leaves everything in order") {
  const Database database;
  auto db = database.connect();
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  std::vector<simulation::Claim> claims;
  for (const char* behavior : kBehaviors) {
    claims.push_back(worker.claim_one(simulation::create(db, {.partition = {3}, .name_space = "a"})).value());
    REQUIRE(worker.suspend(
        claims.back(),
        {.timeout_in = Milliseconds{-1000}, .timeout_behavior = behavior, .waitpoints = {{.key = "k"}, {}}}));
  }
  EngineFixture engine(database, "suspension_timeout");
  CHECK(engine->tick().processed == 6);
  CHECK(simulation::audit(db).empty());
  const auto after = snapshot(db);
  for (const auto& claim : claims) CHECK_FALSE(worker.complete(claim));
  CHECK(diff(after, snapshot(db)).empty());
}

TEST_CASE("suspension_timeout resumes and clears only in the partition that it is about") {
  SuspensionStage t;
  const auto twins_of = [&](const std::vector<Uuid>& ids) {
    std::vector<Json> rows;
    for (const Uuid& id : ids)
      rows.push_back(row(t.db,
                         "SELECT * FROM ff_suspension_current WHERE partition_key = 4 AND execution_id = $1",
                         pg::Params::of(id)));
    return rows;
  };
  const Uuid resumed = t.add(kAutoResume);
  insert_suspension(t.db, {.partition = {4}, .execution = resumed, .timeout_at_ms = kNow});
  const Uuid missing = new_uuid();
  insert_suspension(t.db, {.partition = {5}, .execution = missing, .timeout_at_ms = kPast});
  insert_core(t.db, {.partition = {4}, .execution = missing});
  insert_suspension(t.db, {.partition = {4}, .execution = missing, .timeout_at_ms = kNow});
  const auto before = twins_of({resumed, missing});
  // Due as well, so that one statement is about all partitions.
  t.add("cancel", kPast, {.partition = {4}, .state = suspended()});
  CHECK(outcomes(t.tick()) == "auto_resumed=1 cancelled=1 orphan_cleared=1");
  CHECK(twins_of({resumed, missing}) == before);
}
