#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "sandbox/audit.hpp"
#include "sandbox/worker.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kNow = 1'800'000'000'000;
constexpr std::int64_t kPast = kNow - 5000;
const State kCancelled{"cancelled", "unowned", "not_applicable", "cancelled", "cancelled"};
const char* const kAutoResume = "auto_resume_with_timeout_signal";

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("suspension_timeout");
}

/// A database whose clock stands still at kNow, so that boundaries are met to the millisecond.
struct Stage {
  Database database;
  pg::Connection db = database.connect();

  Stage() {
    db.execute_script(
        "CREATE SCHEMA still; CREATE FUNCTION still.clock_timestamp() RETURNS timestamptz LANGUAGE sql"
        " AS 'SELECT to_timestamp(1800000000)'; ALTER DATABASE " +
        database.name() + " SET search_path = still, pg_catalog, public");
    db = database.connect();
  }

  /// A suspended execution with its attempt and two waitpoints.
  Uuid add(const std::optional<std::string>& behavior, std::optional<std::int64_t> timeout_at_ms = kPast,
           const CoreRow& like = {.partition = {3}, .state = suspended()}) {
    CoreRow core = like;
    core.execution = new_uuid();
    insert_core(db, core);
    insert_attempt(db, {.partition = core.partition, .execution = core.execution, .lease_epoch = 7});
    add_suspension(core.execution, behavior, timeout_at_ms, core.partition);
    return core.execution;
  }
  void add_suspension(const Uuid& id, const std::optional<std::string>& behavior,
                      std::optional<std::int64_t> timeout_at_ms, PartitionKey partition = {3}) {
    insert_suspension(db, {.partition = partition,
                           .execution = id,
                           .timeout_at_ms = timeout_at_ms,
                           .timeout_behavior = behavior,
                           .member_map = {{"m", 1}}});
    insert_waitpoint(db, {.partition = partition, .execution = id, .expires_at_ms = kNow + 60'000});
    insert_waitpoint(db, {.partition = partition, .execution = id, .waitpoint_key = "k"});
  }
  Json suspension(const Uuid& id) {
    return row(db, "SELECT * FROM ff_suspension_current WHERE execution_id = $1", pg::Params::of(id));
  }
  void set_member_map(const Uuid& id, const std::string& json) {
    db.execute("UPDATE ff_suspension_current SET member_map = $1::jsonb WHERE execution_id = $2",
               pg::Params::of(json, id));
  }
  TickReport tick(const EngineOptions& options = {}) {
    EngineFixture engine(database, "suspension_timeout", options);
    TickReport report = engine->tick({.look_ahead = Milliseconds{60'000}});
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    return report;
  }
};

/// What has come and gone beside the rows of an execution and of its events.
std::vector<std::string> beside(const Uuid& id, std::vector<std::string> changes) {
  std::erase_if(changes, [&](const auto& line) { return line.find(to_string(id)) != line.npos; });
  return changes;
}

const Json kSignal = {{"signal_name", "timeout"},
                      {"payload", nullptr},
                      {"delivered_at_ms", kNow},
                      {"source", "suspension_timeout"}};

const auto kBehaviors = {"fail", "cancel", "expire", "escalate", kAutoResume, "no such word"};

}  // namespace

TEST_CASE("suspension_timeout ends an execution as its timeout_behavior says and touches nothing else") {
  struct Case {
    std::optional<std::string> behavior;
    std::string outcome, reason, ends_as;
  };
  const auto c = GENERATE(values<Case>({{"fail", "failed", "suspension_timeout_fail", "expired"},
                                        {std::nullopt, "failed", "suspension_timeout_fail", "expired"},
                                        {"no such word", "failed", "suspension_timeout_fail", "expired"},
                                        {"", "failed", "suspension_timeout_fail", "expired"},
                                        {"FAIL", "failed", "suspension_timeout_fail", "expired"},
                                        {"expire", "expired", "suspension_timeout_expire", "expired"},
                                        {"escalate", "escalated", "suspension_timeout_escalate", "expired"},
                                        {"cancel", "cancelled", "suspension_timeout_cancel", "cancelled"}}));
  Stage t;
  const Uuid flow = new_uuid();
  const Uuid id = t.add(c.behavior, kPast,
                        {.partition = {3},
                         .flow = flow,
                         .state = suspended(),
                         .priority = 7,
                         .deadline_at_ms = kPast,
                         .policy = max_retries(9),
                         .raw_fields = origin("a", "1")});
  t.db.execute("UPDATE ff_exec_core SET cancellation_reason = 'old', cancelled_by = 'somebody'");
  t.add("fail", kNow + 60'000);
  t.add("fail", std::nullopt);
  const Json core_before = core(t.db, id);
  const Json attempt_before = attempt(t.db, id);
  const auto before = snapshot(t.db);

  const TickReport report = t.tick();
  CHECK(core(t.db, id) ==
        changed(core_before, {{"lifecycle_phase", "terminal"},
                              {"ownership_state", "unowned"},
                              {"eligibility_state", "not_applicable"},
                              {"public_state", c.ends_as},
                              {"attempt_state", "attempt_terminal"},
                              {"terminal_at_ms", kNow},
                              {"cancellation_reason", c.reason},
                              {"raw_fields", changed(origin("a", "1"),
                                                     {{"last_failure_message", "suspension_timeout"}})}}));
  CHECK(attempt(t.db, id) == attempt_before);
  CHECK(completion_events(t.db) == Json::array({{{"partition_key", 3},
                                                 {"execution_id", to_string(id)},
                                                 {"flow_id", to_string(flow)},
                                                 {"outcome", c.ends_as},
                                                 {"namespace", "a"},
                                                 {"instance_tag", "1"},
                                                 {"occurred_at_ms", kNow},
                                                 {"dispatched_at_ms", nullptr}}}));
  CHECK(lease_events(t.db).empty());
  const auto changes = diff(before, snapshot(t.db));
  CHECK(changes.size() == 6);  // core twice, suspension, two waitpoints, event
  CHECK(beside(id, changes).empty());
  CHECK(outcomes(report) == c.outcome + "=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
}

TEST_CASE("suspension_timeout resumes by a signal and touches neither core nor waitpoints nor neighbours") {
  Stage t;
  const Uuid id = t.add(kAutoResume);
  t.add(kAutoResume, kNow + 60'000);
  const Json suspension_before = t.suspension(id);
  const auto before = snapshot(t.db);
  CHECK(outcomes(t.tick()) == "auto_resumed=1");
  CHECK(t.suspension(id) ==
        changed(suspension_before,
                {{"timeout_at_ms", nullptr}, {"member_map", {{"m", 1}, {"__timeout__", {kSignal}}}}}));
  CHECK(diff(before, snapshot(t.db)).size() == 2);
}

TEST_CASE("suspension_timeout appends its signal to what is there, and makes of odd data what it needs") {
  struct Case {
    const char* before;
    Json kept;
    Json earlier = Json::array();
  };
  const auto c = GENERATE(values<Case>(
      {{"{}", Json::object()},
       {"null", Json::object()},
       {"5", Json::object()},
       {"\"text\"", Json::object()},
       {"true", Json::object()},
       {"[]", Json::object()},
       {R"(["__timeout__"])", Json::object()},
       {R"({"__timeout__": null, "m": 1})", {{"m", 1}}},
       {R"({"__timeout__": {"a": 1}, "m": 1})", {{"m", 1}}},
       {R"({"__timeout__": "text"})", Json::object()},
       {R"({"__timeout__": 5})", Json::object()},
       {R"({"__timeout__": []})", Json::object()},
       {R"({"__timeout__": [1, {"b": [2]}], "m": [3]})", {{"m", {3}}}, Json::array({1, {{"b", {2}}}})}}));
  static Stage t;
  const Uuid id = t.add(kAutoResume);
  t.set_member_map(id, c.before);
  CAPTURE(c.before);
  CHECK(outcomes(t.tick()) == "auto_resumed=1");
  Json expected = c.kept;
  expected["__timeout__"] = c.earlier;
  expected["__timeout__"].push_back(kSignal);
  CHECK(t.suspension(id)["member_map"] == expected);
}

TEST_CASE("suspension_timeout clears the suspension of an execution that has ended, whatever its behaviour") {
  Stage t;
  for (const State& state : {terminal(), terminal("expired"), kCancelled}) {
    const CoreRow ended{.partition = {3}, .state = state, .terminal_at_ms = 5};
    for (const char* behavior : kBehaviors) t.add(behavior, kPast, ended);
    t.add(std::nullopt, kPast, ended);
    t.add("fail", kNow + 60'000, ended);
  }
  const auto before = snapshot(t.db);
  CHECK(outcomes(t.tick()) == "orphan_cleared=21");
  const auto changes = diff(before, snapshot(t.db));
  CHECK(changes.size() == 21);
  for (const auto& line : changes) CHECK(line.starts_with("- ff_suspension_current"));
}

TEST_CASE("suspension_timeout clears the suspension of an execution that does not exist") {
  Stage t;
  for (const char* behavior : kBehaviors) t.add_suspension(new_uuid(), behavior, kPast);
  const Uuid id = new_uuid();
  t.add_suspension(id, std::nullopt, kPast);
  // Others exist, one of them with the same number in another partition.
  insert_core(t.db, {.partition = {3}});
  insert_core(t.db, {.partition = {4}, .execution = id});
  t.add_suspension(new_uuid(), "fail", kPast, {4});
  // Nobody can say whose it was, so a filter does not match it.
  CHECK(t.tick({.filter = for_namespace("a")}).scanned == 0);
  const auto before = snapshot(t.db);
  CHECK(outcomes(t.tick()) == "orphan_cleared=8");
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
  CHECK(diff(before, snapshot(t.db)).size() == 8);
}

TEST_CASE("suspension_timeout releases a lease that the execution still holds") {
  Stage t;
  const Uuid id =
      t.add("fail", kPast,
            {.partition = {3}, .state = suspended(), .attempt_index = 1, .raw_fields = origin("a", "1")});
  insert_attempt(t.db, {.partition = {3},
                        .execution = id,
                        .attempt_index = 1,
                        .lease_epoch = 9,
                        .lease_expires_at_ms = kNow + 30'000});
  const Json before = attempt(t.db, id, 1);
  const Json older = attempt(t.db, id, 0);
  CHECK(outcomes(t.tick()) == "failed=1");
  CHECK(attempt(t.db, id, 1) == changed(before, {{"outcome", "interrupted"},
                                                 {"lease_expires_at_ms", nullptr},
                                                 {"lease_epoch", 10},
                                                 {"terminal_at_ms", kNow}}));
  CHECK(attempt(t.db, id, 0) == older);
  CHECK(lease_events(t.db) == Json::array({{{"partition_key", 3},
                                            {"execution_id", to_string(id)},
                                            {"event_type", "expired"},
                                            {"occurred_at_ms", kNow},
                                            {"namespace", "a"},
                                            {"instance_tag", "1"},
                                            {"lease_id", nullptr}}}));
}

TEST_CASE("suspension_timeout leaves a suspension alone to the end of the last millisecond") {
  const std::string behavior = GENERATE("fail", "auto_resume_with_timeout_signal");
  Stage t;
  t.add(behavior, kNow - 1);
  const Uuid present = t.add(behavior, kNow, {.partition = {4}, .state = suspended()});
  const auto before = snapshot(t.db);
  CHECK(act_on(t.db, reconciler(), {{{4}, {to_string(present)}}}).empty());
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
  // Where nothing ends, attempt and waitpoints are nobody's concern.
  const bool resumes = table == "ff_attempt" || table == "ff_waitpoint_pending";
  Stage t;
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
  Stage t;
  const Uuid id = t.add("fail", kPast, {.partition = {3}, .state = terminal(), .terminal_at_ms = 5});
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "orphan_cleared=1");
}

TEST_CASE("suspension_timeout does not mind that others refer to the key of the core") {
  Stage t;
  t.add("fail");
  auto other = t.database.connect();
  pg::Transaction referring(other);
  referring.execute("SELECT FROM ff_exec_core FOR KEY SHARE");
  CHECK(outcomes(t.tick()) == "failed=1");
}

TEST_CASE("suspension_timeout is not disturbed by raw_fields of any type, and filters when it is asked to") {
  Stage t;
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
  for (const Uuid& id : others) CHECK(act_on(t.db, reconciler(), {{{3}, {to_string(id)}}}, filter).empty());
  CHECK(t.tick({.filter = filter}).scanned == 1);
  CHECK(core(t.db, mine)["lifecycle_phase"] == "terminal");
  CHECK(outcomes(t.tick()) == "failed=7");
  for (const Uuid& id : others)
    CHECK(core(t.db, id)["raw_fields"]["last_failure_message"] == "suspension_timeout");
}

TEST_CASE("suspension_timeout leaves a suspension alone that is resumed between looking and acting") {
  Stage t;
  t.add("fail");
  std::vector<std::string> after;
  const SteppingInClock clock(2, [&] {
    t.db.execute("UPDATE ff_suspension_current SET timeout_at_ms = NULL");
    after = snapshot(t.db);
  });
  CHECK(t.tick({.clock = &clock}).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE("suspension_timeout tells executions of the same number in two partitions apart") {
  Stage t;
  const Uuid id = t.add("cancel");
  insert_core(t.db, {.partition = {4}, .execution = id, .state = terminal(), .terminal_at_ms = 5});
  t.add_suspension(id, "fail", kPast, {4});
  CHECK(outcomes(t.tick()) == "cancelled=1 orphan_cleared=1");
  CHECK(number(t.db, "SELECT count(*) FROM ff_waitpoint_pending WHERE partition_key = 4") == 2);
  CHECK(number(t.db, "SELECT count(*) FROM ff_waitpoint_pending WHERE partition_key = 3") == 0);
  CHECK(completion_events(t.db).size() == 1);
}

TEST_CASE("suspension_timeout gives each of many their own outcome, once") {
  Stage t;
  for (int i = 0; i < 3; ++i) {
    for (const char* behavior : kBehaviors) t.add(behavior, kPast - i);
    t.add(std::nullopt);
  }
  CHECK(outcomes(t.tick()) == "auto_resumed=3 cancelled=3 escalated=3 expired=3 failed=9");
  const auto after = snapshot(t.db);
  CHECK(completion_events(t.db).size() == 18);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE(
    "suspension_timeout refuses a worker whose execution it has ended, and leaves everything in order") {
  const Database database;
  auto db = database.connect();
  sandbox::Worker worker(db, "w1", Milliseconds{30'000});
  std::vector<sandbox::Claim> claims;
  for (const char* behavior : kBehaviors) {
    claims.push_back(worker.claim_one(sandbox::create(db, {.partition = {3}, .name_space = "a"})).value());
    REQUIRE(worker.suspend(
        claims.back(),
        {.timeout_in = Milliseconds{-1000}, .timeout_behavior = behavior, .waitpoints = {{.key = "k"}, {}}}));
  }
  EngineFixture engine(database, "suspension_timeout");
  CHECK(engine->tick().processed == 6);
  CHECK(sandbox::audit(db).empty());
  const auto after = snapshot(db);
  for (const auto& claim : claims) CHECK_FALSE(worker.complete(claim));
  CHECK(diff(after, snapshot(db)).empty());
}

TEST_CASE("suspension_timeout resumes and clears only in the partition that it is about") {
  Stage t;
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

TEST_CASE("suspension_timeout ends a single execution by hand") {
  Stage t;
  const Uuid id = t.add("fail");
  const Uuid other = t.add("fail");
  EngineFixture engine(t.database, "suspension_timeout");
  CHECK(outcomes(engine->tick_one({{3}, id})) == "failed=1");
  CHECK(core(t.db, id)["lifecycle_phase"] == "terminal");
  CHECK(core(t.db, other)["lifecycle_phase"] == "suspended");
}
