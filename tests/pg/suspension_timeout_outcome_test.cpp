// What suspension_timeout makes of an execution, by the timeout_behavior of its suspension.
#include <catch2/catch.hpp>

#include "pg/suspension_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

/// The signals of the time-out. The last one is ours: its signal_id is checked to be a uuid, and left out.
Json timeout_signals(SuspensionStage& t, const Uuid& id) {
  Json signals = t.suspension(id)["member_map"]["__timeout__"];
  CHECK(parse_uuid(signals.back()["signal_id"].get<std::string>()));
  signals.back().erase("signal_id");
  return signals;
}

const Json kSignal = {
    {"signal_name", "timeout"}, {"signal_category", "timeout"}, {"source_type", "suspension_timeout"},
    {"source_identity", ""},    {"correlation_id", ""},         {"accepted_at", kNow},
    {"payload_hex", nullptr}};

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

TEST_CASE(
    "suspension_timeout resumes as a signal that satisfies the suspension would, and touches nobody else") {
  SuspensionStage t;
  const Uuid id = t.add(kAutoResume, kPast,
                        {.partition = {3},
                         .flow = new_uuid(),
                         .state = suspended(),
                         .deadline_at_ms = kNow + 5,
                         .raw_fields = origin("a", "1")});
  t.add(kAutoResume, kNow + 60'000);
  const Json suspension_before = t.suspension(id);
  const Json core_before = core(t.db, id);
  const Json attempt_before = attempt(t.db, id);
  const auto before = snapshot(t.db);
  CHECK(outcomes(t.tick()) == "auto_resumed=1");
  CHECK(timeout_signals(t, id) == Json::array({kSignal}));
  Json suspension = t.suspension(id);
  suspension["member_map"].erase("__timeout__");
  CHECK(suspension == changed(suspension_before, {{"timeout_at_ms", nullptr}}));
  CHECK(core(t.db, id) ==
        changed(core_before, {{"lifecycle_phase", "runnable"},
                              {"eligibility_state", "eligible_now"},
                              {"public_state", "resumable"},
                              {"raw_fields", changed(origin("a", "1"), {{"total_attempt_count", "0"}})}}));
  CHECK(attempt(t.db, id) == attempt_before);
  // Without the flow: FlowFabric's dispatch would count it as a failure.
  CHECK(completion_events(t.db) == Json::array({{{"partition_key", 3},
                                                 {"execution_id", to_string(id)},
                                                 {"flow_id", nullptr},
                                                 {"outcome", "resumable"},
                                                 {"namespace", "a"},
                                                 {"instance_tag", "1"},
                                                 {"occurred_at_ms", kNow},
                                                 {"dispatched_at_ms", nullptr}}}));
  const auto changes = diff(before, snapshot(t.db));
  CHECK(changes.size() == 7);  // suspension and core twice, two waitpoints, event
  CHECK(beside(id, changes).empty());
}

TEST_CASE("suspension_timeout resumes at the index of the attempt that was interrupted") {
  SuspensionStage t;
  // A typed claim of attempt 0 has set the core one higher.
  const Uuid id = t.add(kAutoResume, kPast, {.partition = {3}, .state = suspended(), .attempt_index = 1});
  CHECK(outcomes(t.tick()) == "auto_resumed=1");
  CHECK(core(t.db, id)["attempt_index"] == 0);
  CHECK(core(t.db, id)["raw_fields"]["total_attempt_count"] == "0");
}

TEST_CASE("suspension_timeout takes only the time-out from an execution that was resumed before") {
  const auto behavior = GENERATE(values<std::string>({"fail", "cancel", kAutoResume}));
  SuspensionStage t;
  State resumable = runnable();
  resumable.public_state = "resumable";
  std::vector<Uuid> resumed;
  for (const State& state : {resumable, active(), runnable(), delayed(), blocked()})
    resumed.push_back(t.add(behavior, kPast, {.partition = {3}, .state = state}));
  const auto before = snapshot(t.db);
  const Json suspension_before = t.suspension(resumed[0]);
  CHECK(outcomes(t.tick()) == "resumed_before=5");
  CHECK(t.suspension(resumed[0]) == changed(suspension_before, {{"timeout_at_ms", nullptr}}));
  const auto changes = diff(before, snapshot(t.db));
  CHECK(changes.size() == 10);
  for (const auto& line : changes) CHECK(line.substr(2).starts_with("ff_suspension_current"));
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("suspension_timeout clears a cancelled execution's suspension at once while a waitpoint is open") {
  SuspensionStage t;
  const CoreRow ended{.partition = {3}, .state = cancelled(), .terminal_at_ms = 5};
  const Uuid timeless = t.add("fail", std::nullopt, ended);
  const Uuid far = t.add(kAutoResume, kNow + 60'000, ended);
  const Uuid closed = t.add("fail", kNow + 60'000, ended);
  t.db.execute("DELETE FROM ff_waitpoint_pending WHERE execution_id = $1", pg::Params::of(closed));
  const Uuid living = t.add("fail", kNow + 60'000);
  const auto before = snapshot(t.db);
  CHECK(outcomes(t.tick()) == "orphan_cleared=4");  // waitpoints
  const auto changes = diff(before, snapshot(t.db));
  CHECK(changes.size() == 6);
  CHECK(beside(timeless, beside(far, changes)).empty());
  CHECK(t.suspension(closed)["timeout_at_ms"] == kNow + 60'000);
  CHECK(t.suspension(living)["timeout_at_ms"] == kNow + 60'000);
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
  Json expected = c.earlier;
  expected.push_back(kSignal);
  CHECK(timeout_signals(t, id) == expected);
  Json others = t.suspension(id)["member_map"];
  others.erase("__timeout__");
  CHECK(others == c.kept);
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
  // By their time-out, or by one of two open waitpoints each.
  CHECK(outcomes(t.tick()) == "orphan_cleared=27");
  const auto changes = diff(before, snapshot(t.db));
  CHECK(changes.size() == 72);
  for (const auto& line : changes)
    CHECK((line.starts_with("- ff_suspension_current") || line.starts_with("- ff_waitpoint_pending")));
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
  CHECK(diff(before, snapshot(t.db)).size() == 24);
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
  CHECK(completion_events(t.db).size() == 21);
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
