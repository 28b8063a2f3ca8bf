// What suspension_timeout makes of an execution, by the timeout_behavior of its suspension.
#include <catch2/catch.hpp>

#include "pg/suspension_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

const Json kSignal = {{"signal_name", "timeout"},
                      {"payload", nullptr},
                      {"delivered_at_ms", kNow},
                      {"source", "suspension_timeout"}};

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
  SuspensionStage t;
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
  SuspensionStage t;
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
  static SuspensionStage t;
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
  SuspensionStage t;
  for (const State& state : {terminal(), terminal("expired"), cancelled()}) {
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
  SuspensionStage t;
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
  SuspensionStage t;
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

TEST_CASE("suspension_timeout gives each of many their own outcome, once") {
  SuspensionStage t;
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

TEST_CASE("suspension_timeout ends a single execution by hand") {
  SuspensionStage t;
  const Uuid id = t.add("fail");
  const Uuid other = t.add("fail");
  EngineFixture engine(t.database, "suspension_timeout");
  CHECK(outcomes(engine->tick_one({{3}, id})) == "failed=1");
  CHECK(core(t.db, id)["lifecycle_phase"] == "terminal");
  CHECK(core(t.db, other)["lifecycle_phase"] == "suspended");
}
