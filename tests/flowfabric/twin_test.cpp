// Each step of the simulated workers leaves the rows that the real one leaves.
#include <catch2/catch.hpp>

#include "support/twin.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;
using simulation::kSignal;

constexpr Milliseconds kFiveMinutes = 5min;
constexpr std::int64_t kFiveMinutesMs = 300'000;

// By handle, as "h".
void grant_and_claim_execution(RealSide& real, const Subject& subject) {
  real.call("write_grant", {{"execution", subject.name}, {"worker", "w1"}});
  real.call("claim_execution", {{"execution", subject.name}, {"worker", "w1"}, {"as", "h"}});
}

simulation::Claim granted_claim(SimulatedSide& simulated, const ExecutionId& execution) {
  simulated.granted.grant(execution, SimulatedSide::kLease);
  return simulated.granted.claim_granted(execution).value();
}

// What is not about FlowFabric: the user's own scheduler writes this grant.
void forget_grants(pg::Connection& db) {
  db.execute("UPDATE ff_exec_core SET raw_fields = raw_fields - 'claim_grant'");
}

}  // namespace

TEST_CASE("an execution is created as FlowFabric creates it") {
  CHECK(differences(
            [](RealSide& real) {
              real.create({{"priority", 2}, {"deadline_in_ms", kFiveMinutesMs}});
            },
            [](SimulatedSide& simulated) {
              simulated.create({.priority = 2, .deadline_in = kFiveMinutes});
            }) == Lines{});
  const Json policy = {{"retry_policy",
                        {{"max_retries", 2},
                         {"backoff",
                          {{"type", "exponential"},
                           {"initial_delay_ms", 1000},
                           {"max_delay_ms", 60'000},
                           {"multiplier", 2.0},
                           {"jitter", false}}}}}};
  CHECK(differences(
            [&](RealSide& real) {
              real.create({{"policy", policy}});
            },
            [](SimulatedSide& simulated) { simulated.create({.max_retries = 2}); }) == Lines{});
}

TEST_CASE("a claim by handle, and its renewal, write what FlowFabric's write") {
  CHECK(differences([](RealSide& real) { real.claimed(); },
                    [](SimulatedSide& simulated) { simulated.claimed(); }) == Lines{});
  CHECK(differences(
            [](RealSide& real) {
              real.claimed();
              real.call("renew", {{"handle", "h"}});
            },
            [](SimulatedSide& simulated) { CHECK(simulated.worker.renew(simulated.claimed())); }) == Lines{});
}

TEST_CASE("an end by handle writes what FlowFabric's writes") {
  CHECK(differences(
            [](RealSide& real) {
              real.claimed();
              real.call("complete", {{"handle", "h"}});
            },
            [](SimulatedSide& simulated) { CHECK(simulated.worker.complete(simulated.claimed())); }) ==
        Lines{});
  CHECK(differences(
            [](RealSide& real) {
              real.claimed();
              real.call("fail", {{"handle", "h"}, {"class", "permanent"}, {"message", "why"}});
            },
            [](SimulatedSide& simulated) {
              CHECK(simulated.worker.fail(simulated.claimed(), false, "why"));
            }) == Lines{});
}

TEST_CASE(
    "a failure by handle that can be retried writes what FlowFabric's writes, and so does the next claim") {
  CHECK(differences(
            [](RealSide& real) {
              real.claimed();
              real.call("fail", {{"handle", "h"}, {"message", "why"}});
              real.claim();
            },
            [](SimulatedSide& simulated) {
              const auto claim = simulated.claimed();
              CHECK(simulated.worker.fail(claim, true, "why"));
              CHECK(simulated.worker.claim_one(claim.execution));
            }) == Lines{});
}

TEST_CASE("a delay, and waiting for children, write what FlowFabric's write") {
  CHECK(differences(
            [](RealSide& real) {
              real.claimed();
              real.call("delay", {{"handle", "h"}, {"delay_in_ms", kFiveMinutesMs}});
            },
            [](SimulatedSide& simulated) {
              CHECK(simulated.worker.delay(simulated.claimed(), kFiveMinutes));
            }) == Lines{});
  CHECK(differences(
            [](RealSide& real) {
              real.claimed();
              real.call("wait_children", {{"handle", "h"}});
            },
            [](SimulatedSide& simulated) {
              CHECK(simulated.worker.wait_for_children(simulated.claimed()));
            }) == Lines{});
}

TEST_CASE("a suspension with fresh waitpoints writes what FlowFabric's writes") {
  CHECK(differences(
            [](RealSide& real) {
              real.claimed();
              real.call(
                  "suspend",
                  {{"handle", "h"},
                   {"waitpoints", {{{"key", "a"}}, {{"key", ""}}}},
                   {"condition", {{"Single", {{"waitpoint_key", "a"}, {"matcher", {{"ByName", kSignal}}}}}}},
                   {"timeout_in_ms", kFiveMinutesMs},
                   {"timeout_behavior", "escalate"}});
            },
            [](SimulatedSide& simulated) {
              CHECK(simulated.worker.suspend(simulated.claimed(), {.timeout_in = kFiveMinutes,
                                                                   .timeout_behavior = "escalate",
                                                                   .waitpoints = {{.key = "a"}, {}}}));
            }) == Lines{});
}

TEST_CASE("a waitpoint that is made first, and then used, is written as FlowFabric writes it") {
  const auto make = [](RealSide& real) {
    real.claimed();
    return real.call("create_waitpoint", {{"handle", "h"}, {"key", "a"}, {"expires_in_ms", 600'000}});
  };
  const auto simulate = [](SimulatedSide& simulated, const simulation::Claim& claim) {
    return simulated.worker.create_waitpoint(claim, "a", 10min);
  };
  CHECK(differences([&](RealSide& real) { make(real); },
                    [&](SimulatedSide& simulated) { simulate(simulated, simulated.claimed()); }) == Lines{});
  CHECK(differences(
            [&](RealSide& real) {
              const Json pending = make(real).at("waitpoint");
              real.call("suspend", {{"handle", "h"},
                                    {"waitpoints", {{{"pending", pending}, {"key", "a"}}}},
                                    {"signal", kSignal},
                                    {"timeout_in_ms", kFiveMinutesMs}});
            },
            [&](SimulatedSide& simulated) {
              const auto claim = simulated.claimed();
              const auto pending = simulate(simulated, claim);
              CHECK(simulated.worker.suspend(
                  claim, {.timeout_in = kFiveMinutes, .timeout_behavior = "fail", .waitpoints = {pending}}));
            }) == Lines{});
}

TEST_CASE("a signal, enough or not, writes what FlowFabric's writes, and so does who goes on") {
  const auto suspend = [](RealSide& real) {
    const Subject subject = real.claimed();
    const Json told = real.call("suspend", {{"handle", "h"}, {"key", "a"}, {"signal", kSignal}});
    return std::pair(subject, told.at("waitpoints").at(0).at("waitpoint"));
  };
  const auto simulate = [](SimulatedSide& simulated) {
    const auto claim = simulated.claimed();
    CHECK(simulated.worker.suspend(claim, {.timeout_behavior = "fail", .waitpoints = {{.key = "a"}}}));
    return std::pair(claim.execution, simulation::waitpoints_of(simulated.db(), claim.execution).at(0));
  };
  for (const bool enough : {false, true}) {
    const std::string name = enough ? kSignal : "noise";
    CHECK(differences(
              [&](RealSide& real) {
                const auto [subject, waitpoint] = suspend(real);
                real.call("deliver_signal",
                          {{"execution", subject.name}, {"waitpoint", waitpoint}, {"signal", name}});
                if (enough)
                  real.call("claim_resumed_execution",
                            {{"execution", subject.name}, {"worker", "w1"}, {"as", "h"}});
              },
              [&](SimulatedSide& simulated) {
                const auto [execution, waitpoint] = simulate(simulated);
                const auto delivery = simulation::deliver_signal(simulated.db(), execution, waitpoint, name);
                CHECK(delivery ==
                      (enough ? simulation::Delivery::satisfied : simulation::Delivery::appended));
                if (enough) CHECK(simulated.worker.claim_resumed(execution));
              }) == Lines{});
  }
}

TEST_CASE("a claim with a grant, its renewal and its end write what FlowFabric's write") {
  const auto claim = [](RealSide& real) {
    grant_and_claim_execution(real, real.create());
    forget_grants(real.db());
  };
  const auto simulate = [](SimulatedSide& simulated) { return granted_claim(simulated, simulated.create()); };
  CHECK(differences(claim, [&](SimulatedSide& simulated) { simulate(simulated); }) == Lines{});
  CHECK(differences(
            [&](RealSide& real) {
              claim(real);
              real.call("renew_lease", {{"handle", "h"}});
              real.call("complete_execution", {{"handle", "h"}});
            },
            [&](SimulatedSide& simulated) {
              const auto its = simulate(simulated);
              CHECK(simulated.granted.renew(its));
              CHECK(simulated.granted.complete(its));
            }) == Lines{});
}

TEST_CASE("a failure after a typed claim, with retries left or not, writes what FlowFabric's writes") {
  for (const int retries : {0, 2}) {
    CHECK(differences(
              [&](RealSide& real) {
                grant_and_claim_execution(real, real.create());
                forget_grants(real.db());
                real.call("fail_execution", {{"handle", "h"},
                                             {"max_retries", retries},
                                             {"backoff_ms", kFiveMinutesMs},
                                             {"message", "why"}});
              },
              [&](SimulatedSide& simulated) {
                const auto claim = granted_claim(simulated, simulated.create());
                const auto failed = simulated.granted.fail(claim, retries, kFiveMinutes, "why");
                CHECK(failed == (retries > 0 ? simulation::GrantedWorker::Failed::to_be_retried
                                             : simulation::GrantedWorker::Failed::ended));
              }) == Lines{});
  }
}

TEST_CASE("what the scheduler grants, and an operator's grant and claim, write what FlowFabric's write") {
  const auto grant = [](RealSide& real) {
    const Subject subject = real.create();
    real.call("claim_for_worker", {{"worker", "w1"}});
    return subject;
  };
  const auto simulate = [](SimulatedSide& simulated) {
    const auto execution = simulated.create();
    CHECK(simulated.granted.ask_scheduler({PartitionKey{2}, PartitionKey{3}}) == execution);
    return execution;
  };
  CHECK(differences([&](RealSide& real) { grant(real); },
                    [&](SimulatedSide& simulated) { simulate(simulated); }) == Lines{});
  CHECK(differences(
            [&](RealSide& real) {
              real.call("issue_grant_and_claim", {{"execution", grant(real).name}, {"as", "h"}});
            },
            [&](SimulatedSide& simulated) {
              CHECK(simulated.granted.grant_and_claim(simulate(simulated)));
            }) == Lines{});
}

TEST_CASE("an operator's claim of an attempt that was interrupted writes what FlowFabric's writes") {
  constexpr const char* kPromote =
      "UPDATE ff_exec_core SET eligibility_state = 'eligible_now', deadline_at_ms = NULL";
  CHECK(differences(
            [&](RealSide& real) {
              const Subject subject = real.claimed();
              real.call("delay", {{"handle", "h"}, {"delay_in_ms", 1}});
              real.db().execute(kPromote);
              real.call("issue_grant_and_claim", {{"execution", subject.name}, {"as", "h"}});
            },
            [&](SimulatedSide& simulated) {
              const auto claim = simulated.claimed();
              CHECK(simulated.worker.delay(claim, 1ms));
              simulated.db().execute(kPromote);
              CHECK(simulated.granted.grant_and_claim(claim.execution));
            }) == Lines{});
}

TEST_CASE("a reclaim grant, and who takes over with it, write what FlowFabric's write") {
  constexpr const char* kLapse =
      "UPDATE ff_attempt SET lease_expires_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000) - 1";
  for (const bool uses_it : {false, true}) {
    CHECK(
        differences(
            [&](RealSide& real) {
              const Subject subject = real.claimed();
              real.db().execute(kLapse);
              real.call("issue_reclaim_grant", {{"execution", subject.name}, {"worker", "w1"}});
              if (uses_it)
                real.call("reclaim_execution", {{"execution", subject.name}, {"worker", "w1"}, {"as", "h"}});
            },
            [&](SimulatedSide& simulated) {
              const auto claim = simulated.claimed();
              simulated.db().execute(kLapse);
              CHECK(simulated.granted.issue_reclaim_grant(claim.execution, SimulatedSide::kLease));
              if (uses_it) CHECK(simulated.granted.reclaim(claim.execution));
            }) == Lines{});
  }
}
