// Suspensions, waitpoints and signals of the real FlowFabric, and what its claims say of them afterwards.
#include "world.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr const char* kAutoResume = "auto_resume_with_timeout_signal";

// Suspended by a worker that claimed it in this way; its waitpoint.
Json suspended(World& world, const std::string& execution, const std::string& way, const Json& more = {}) {
  world.take(way, execution);
  Json arguments{{"handle", "h"}};
  arguments.update(more.is_null() ? Json::object() : more);
  return world.real.call("suspend", arguments).at("waitpoints").at(0);
}

std::string signal(World& world, const std::string& execution, const Json& waitpoint) {
  return world.real.refusal(
      "deliver_signal",
      {{"execution", execution}, {"waitpoint", waitpoint.at("waitpoint")}, {"token", waitpoint.at("token")}});
}

}  // namespace

TEST_CASE("an execution that a signal resumed in time is not ended by its suspension's time-out") {
  World world;
  const std::string execution = world.execution();
  const Json waitpoint = suspended(world, execution, "claim", {{"timeout_in_ms", 300}});
  REQUIRE(signal(world, execution, waitpoint).empty());
  world.pass(300);

  CHECK(world.tick("suspension_timeout") == "resumed_before=1");

  CHECK(world.core(execution).at("public_state") == "resumable");
  CHECK(world.suspension(execution).at("timeout_at_ms").is_null());
  world.real.call("claim_resumed_execution", {{"execution", execution}, {"as", "next"}});
  CHECK(world.real.call("observe_signals", {{"handle", "next"}}).size() == 1);
  CHECK(world.tick("suspension_timeout").empty());
  CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
}

TEST_CASE("a time-out that resumes by itself lets the real claims go on, and tells them of the time-out") {
  for (const std::string& way : three_claims()) {
    for (const std::string judge : {"claim_resumed_execution", "claim", "issue_grant_and_claim"}) {
      INFO(way << ", then " << judge);
      World world;
      const std::string execution = world.execution();
      suspended(world, execution, way, {{"timeout_in_ms", 1}, {"timeout_behavior", kAutoResume}});

      CHECK(world.tick("suspension_timeout") == "auto_resumed=1");

      CHECK(world.waitpoints(execution) == 0);
      const Json lease = world.take(judge, execution, "next");
      CHECK(lease.at("attempt") == 0);
      const Json signals = world.real.call("observe_signals", {{"handle", "next"}});
      REQUIRE(signals.size() == 1);
      CHECK(signals.at(0).at("signal_name") == "timeout");
      CHECK(signals.at(0).at("source_type") == "suspension_timeout");
      CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
    }
  }
}

TEST_CASE("FlowFabric's dispatch does not count a resume by time-out as a failure") {
  World world;
  const Json flow = world.real.call("create_flow", {{"partition", 2}}).at("flow");
  const std::string upstream = world.execution({{"flow", flow}});
  const std::string downstream = world.execution({{"flow", flow}, {"lane", "later"}});
  world.real.call("stage_edge",
                  {{"flow", flow}, {"upstream", upstream}, {"downstream", downstream}, {"apply", true}});
  suspended(world, upstream, "claim", {{"timeout_in_ms", 1}, {"timeout_behavior", kAutoResume}});
  REQUIRE(world.tick("suspension_timeout") == "auto_resumed=1");
  CHECK(world.ends_of(upstream, "resumable") == 1);

  world.real.call("scan", {{"name", "dispatch_completion"}});

  CHECK(number(world.connection, "SELECT sum(fail_count) FROM ff_edge_group") == 0);
  CHECK(number(world.connection, "SELECT sum(running_count) FROM ff_edge_group") == 1);
  CHECK(world.core(downstream).at("lifecycle_phase") == "runnable");
}

TEST_CASE("each time-out ends a suspended execution as its behaviour says, and a late signal finds nothing") {
  const std::vector<std::array<std::string, 4>> behaviours{
      {"fail", "failed=1", "expired", "suspension_timeout_fail"},
      {"expire", "expired=1", "expired", "suspension_timeout_expire"},
      {"escalate", "escalated=1", "expired", "suspension_timeout_escalate"},
      {"cancel", "cancelled=1", "cancelled", "suspension_timeout_cancel"}};
  for (const auto& [behaviour, outcome, state, reason] : behaviours) {
    INFO(behaviour);
    World world;
    const std::string execution = world.execution();
    const Json waitpoint = suspended(world, execution, "claim_execution",
                                     {{"timeout_in_ms", 1}, {"timeout_behavior", behaviour}});

    CHECK(world.tick("suspension_timeout") == outcome);

    CHECK(world.states(execution) == "terminal unowned not_applicable " + state + " attempt_terminal");
    CHECK(world.core(execution).at("cancellation_reason") == reason);
    CHECK(world.ends_of(execution, state) == 1);
    CHECK(signal(world, execution, waitpoint) == "NotFound.waitpoint");
  }
}

TEST_CASE("a cancelled execution that was suspended is not made runnable by a late signal") {
  for (const std::string& way : three_claims()) {
    INFO(way);
    World world;
    const std::string execution = world.execution();
    const Json waitpoint = suspended(world, execution, way, {{"timeout_in_ms", 3'600'000}});
    world.real.call("cancel_execution", {{"execution", execution}});

    CHECK(world.tick("suspension_timeout") == "orphan_cleared=1");

    CHECK(world.suspension(execution).is_null());
    CHECK(signal(world, execution, waitpoint) == "NotFound.waitpoint");
    CHECK(world.core(execution).at("lifecycle_phase") == "cancelled");
  }
}

TEST_CASE(
    "what a resumed worker lost for good is not made runnable by a signal on a waitpoint that it has made") {
  World world;
  const std::string execution = world.execution();
  const Json waitpoint = suspended(world, execution, "claim", {{"timeout_in_ms", 3'600'000}});
  REQUIRE(signal(world, execution, waitpoint).empty());
  world.real.call("claim_resumed_execution", {{"execution", execution}, {"as", "next"}, {"ttl_ms", 1}});
  const Json made = world.real.call("create_waitpoint", {{"handle", "next"}, {"key", "k"}});

  CHECK(world.tick("attempt_timeout") == "expired=1");

  CHECK(world.suspension(execution).is_null());
  CHECK(signal(world, execution, made) == "NotFound.waitpoint");
  CHECK(world.states(execution) == "terminal unowned not_applicable expired attempt_terminal");
  CHECK(world.ends_of(execution, "expired") == 1);
  world.real.call("replay_execution", {{"execution", execution}});
  world.take("claim", execution, "again");
  CHECK(world.real.call("observe_signals", {{"handle", "again"}}).empty());
  CHECK(world.real.refusal("complete", {{"handle", "again"}}).empty());
}

TEST_CASE(
    "what a cancelled flow's members left open goes by its lease events, and late signals find nothing") {
  World world;
  const Json flow = world.real.call("create_flow", {{"partition", 2}}).at("flow");
  std::vector<std::pair<std::string, Json>> members;
  for (const std::string& way : three_claims()) {
    const std::string member = world.execution({{"flow", flow}});
    members.emplace_back(member, suspended(world, member, way, {{"timeout_in_ms", 3'600'000}}));
  }
  const std::string other = world.execution();
  const Json others = suspended(world, other, "claim", {{"timeout_in_ms", 3'600'000}});
  EngineFixture engine(world.connector(), "suspension_timeout");
  // As a daemon does between two scans of the others: nothing is walked through.
  const auto scan = [&] {
    world.pass();
    return outcomes(
        engine->tick({.scan = false, .companions_scan = false, .shortcuts_scan = true, .in_slices = true}));
  };
  CHECK(scan().empty());

  world.real.call("cancel_flow", {{"flow", flow}});

  CHECK(scan() == "orphan_cleared=3");
  for (const auto& [member, waitpoint] : members) {
    CHECK(world.suspension(member).is_null());
    CHECK(signal(world, member, waitpoint) == "NotFound.waitpoint");
    CHECK(world.core(member).at("lifecycle_phase") == "cancelled");
  }
  CHECK(signal(world, other, others).empty());
}

TEST_CASE("a waitpoint that a suspension uses outlives its own expiry") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  const Json made =
      world.real.call("create_waitpoint", {{"handle", "h"}, {"key", "k"}, {"expires_in_ms", 1}});
  const Json used = world.real.call(
      "suspend", {{"handle", "h"}, {"waitpoints", {{{"pending", made.at("waitpoint")}, {"key", "k"}}}}});

  CHECK(world.tick("pending_waitpoint_expiry").empty());

  CHECK(signal(world, execution, used.at("waitpoints").at(0)).empty());
  CHECK(world.core(execution).at("public_state") == "resumable");
}

TEST_CASE("a waitpoint that nobody used is closed, and its key serves a later suspension") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  const Json unused =
      world.real.call("create_waitpoint", {{"handle", "h"}, {"key", "k"}, {"expires_in_ms", 1}});
  const Json used = world.real.call("suspend", {{"handle", "h"}, {"key", "k"}}).at("waitpoints").at(0);

  CHECK(world.tick("pending_waitpoint_expiry") == "closed=1");

  CHECK(signal(world, execution, unused) == "NotFound.waitpoint");
  CHECK(signal(world, execution, used).empty());
  CHECK(world.suspension(execution).at("member_map").at("k").is_array());
  world.real.call("claim_resumed_execution", {{"execution", execution}, {"as", "next"}});
  CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
}

TEST_CASE("a signal on what an operator's resume has left satisfies no later suspension") {
  for (const std::string& way : three_claims()) {
    INFO(way);
    World world;
    const std::string execution = world.execution();
    const Json left = suspended(world, execution, way, {{"timeout_in_ms", 3'600'000}});
    world.real.call("resume_execution", {{"execution", execution}});
    REQUIRE(world.waitpoints(execution) == 1);

    CHECK(world.tick("stray_waitpoint") == "resumed_cleared=1");

    const Json open = suspended(world, execution, "claim", {{"timeout_in_ms", 3'600'000}});
    CHECK(world.tick("stray_waitpoint").empty());
    CHECK(signal(world, execution, left) == "NotFound.waitpoint");
    CHECK(world.core(execution).at("lifecycle_phase") == "suspended");
    CHECK(signal(world, execution, open).empty());
    CHECK(world.core(execution).at("public_state") == "resumable");
  }
}

TEST_CASE("the waitpoint of a former suspension goes while the present one keeps its own") {
  World world;
  const std::string execution = world.execution();
  const Json left = suspended(world, execution, "claim", Json::object());
  world.real.call("resume_execution", {{"execution", execution}});
  world.pass();
  const Json open = suspended(world, execution, "claim", Json::object());

  CHECK(world.tick("stray_waitpoint") == "resumed_cleared=1");

  CHECK(signal(world, execution, left) == "NotFound.waitpoint");
  CHECK(signal(world, execution, open).empty());
}

TEST_CASE("what an operator's resume has left is taken once, also where the execution has ended since") {
  World world;
  const std::string execution = world.execution();
  suspended(world, execution, "claim", {{"timeout_in_ms", 3'600'000}});
  world.real.call("resume_execution", {{"execution", execution}});
  world.take("claim", execution, "next");
  world.real.call("complete", {{"handle", "next"}});

  CHECK(world.tick("suspension_timeout").empty());
  CHECK(world.tick("stray_waitpoint") == "resumed_cleared=1");

  CHECK(world.waitpoints(execution) == 0);
}

TEST_CASE(
    "a waitpoint that has lost its key has it back within the lease event's second, and signals count") {
  for (const bool is_early : {false, true}) {
    INFO(is_early);
    World world;
    const std::string execution = world.execution();
    world.take("claim", execution);
    const Json made =
        world.real.call("create_waitpoint", {{"handle", "h"}, {"key", "k"}, {"expires_in_ms", 1}});
    world.pass();
    REQUIRE(world.tick("pending_waitpoint_expiry") == "closed=1");
    const Json open =
        world.real
            .call("suspend", {{"handle", "h"},
                              {"signal", "go"},
                              {"waitpoints", {{{"pending", made.at("waitpoint")}, {"key", "k"}}}}})
            .at("waitpoints")
            .at(0);
    const auto send = [&](const std::string& name) {
      return world.real.call("deliver_signal", {{"execution", execution},
                                                {"waitpoint", open.at("waitpoint")},
                                                {"token", open.at("token")},
                                                {"signal", name}});
    };
    if (is_early) send("go");
    REQUIRE(world.core(execution).at("lifecycle_phase") == "suspended");
    EngineFixture engine(world.connector(), "stray_waitpoint");
    world.pass();

    CHECK(outcomes(engine->tick(
              {.scan = false, .companions_scan = false, .shortcuts_scan = true, .in_slices = true})) ==
          "rekeyed=1");

    CHECK(world.tick("stray_waitpoint").empty());
    // What came before counts, and FlowFabric sees that with the next one, whatever that is.
    send(is_early ? "another" : "go");
    CHECK(world.core(execution).at("public_state") == "resumable");
    world.real.call("claim_resumed_execution", {{"execution", execution}, {"as", "next"}});
    CHECK(world.real.call("observe_signals", {{"handle", "next"}}).size() == (is_early ? 2U : 1U));
  }
}
