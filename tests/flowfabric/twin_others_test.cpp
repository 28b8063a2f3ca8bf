// What clients and the register do in the simulation leaves the rows that the real one leaves.
#include <catch2/catch.hpp>

#include "demo/simulation/budget.hpp"
#include "demo/simulation/flow.hpp"
#include "demo/simulation/registration.hpp"
#include "support/rows.hpp"
#include "support/twin.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;

// As the simulation's scheduler keeps back what depends on others: FlowFabric has no operation for it.
constexpr const char* kBlock =
    "UPDATE ff_exec_core SET lifecycle_phase = 'blocked', eligibility_state = 'blocked_by_dependencies', "
    "attempt_state = 'pending_first_attempt' WHERE lifecycle_phase = 'submitted'";

}  // namespace

TEST_CASE("a flow is staged as FlowFabric stages it") {
  struct Policy {
    Json real;
    std::string simulated;
  };
  const Policy policies[] = {
      {{{"policy", "all_of"}}, simulation::kAllOf},
      {{{"policy", "any_of"}}, R"({"kind": "any_of", "on_satisfied": "cancel_remaining"})"},
      {{{"policy", "quorum"}, {"k", 2}, {"on_satisfied", "let_run"}},
       R"({"kind": "quorum", "k": 2, "on_satisfied": "let_run"})"}};
  for (const Policy& policy : policies) {
    CHECK(differences(
              [&](RealSide& real) {
                const Json flow = real.call(
                    "create_flow", {{"partition", 3}, {"namespace", "ns"}, {"flow_kind", "simulated"}});
                const auto add = [&](Json more) {
                  more["flow"] = flow.at("flow");
                  return real.create(more).name;
                };
                const Json first = add({});
                const Json second = add({});
                const Json joined = add({{"runnable", nullptr}});
                real.db().execute(kBlock);
                Json set = policy.real;
                set.update(Json{{"flow", flow.at("flow")}, {"downstream", joined}});
                real.call("set_edge_policy", set);
                for (const Json& upstream : {first, second})
                  real.call("stage_edge", {{"flow", flow.at("flow")},
                                           {"upstream", upstream},
                                           {"downstream", joined},
                                           {"apply", true}});
              },
              [&](SimulatedSide& simulated) {
                const simulation::FlowRow flow{{3}, new_uuid(), "ns"};
                pg::Transaction transaction(simulated.db());
                create_flow(transaction, flow);
                simulation::NewExecution like{.flow = flow.id, .name_space = "ns", .instance_tag = "i-1"};
                const auto ready = simulation::create(transaction, like, {flow.partition}, 2);
                like.blocked = true;
                const auto joined = simulation::create(transaction, like, {flow.partition}, 1);
                add_members(transaction, flow, 3);
                add_fan_in(transaction, flow, ready, joined.front(), policy.simulated);
                transaction.commit();
              }) == Lines{});
  }
}

TEST_CASE("a budget is made, used and exceeded as FlowFabric does it") {
  constexpr std::int64_t kLimit = 100;
  const Json limits = {{"tokens", kLimit}, {"cost", kLimit}};
  for (const std::int64_t second : {40, 60}) {
    Json made;
    CHECK(differences(
              [&](RealSide& real) {
                const Subject subject = real.create();
                made = real.call("create_budget", {{"partition", 5},
                                                   {"scope_type", "lane"},
                                                   {"scope_id", "default"},
                                                   {"hard", limits},
                                                   {"reset_interval_ms", 300'000}});
                for (const std::int64_t amount : {std::int64_t{50}, second})
                  real.call("record_spend", {{"budget", made.at("budget")},
                                             {"execution", subject.name},
                                             {"deltas", {{"tokens", amount}}},
                                             {"key", ""}});
              },
              [&](SimulatedSide& simulated) {
                const auto execution = simulated.create();
                const simulation::Budget budget{made.at("budget"), {5}, 5min, kLimit};
                create_budget(simulated.db(), budget, "default");
                for (const std::int64_t amount : {std::int64_t{50}, second})
                  spend(simulated.db(), budget, execution.uuid, "tokens", amount);
              }) == Lines{});
  }
}

TEST_CASE("a worker is registered, lives and is refused as FlowFabric does it") {
  const simulation::Registration its{"ns", "w1", "default", 5min};
  const Json same = {{"worker", "w1"}, {"namespace", "ns"}, {"ttl_ms", 300'000}};
  constexpr const char* kSilence = "UPDATE ff_worker_registry SET last_heartbeat_ms = 5";
  CHECK(differences([&](RealSide& real) { real.call("register_worker", same); },
                    [&](SimulatedSide& simulated) { CHECK(enter(simulated.db(), its)); }) == Lines{});
  const auto one_event = [](pg::Connection& db) {
    db.execute("UPDATE ff_worker_registry_event SET event_at_ms = event_at_ms - 600000");
  };
  CHECK(differences(
            [&](RealSide& real) {
              real.call("register_worker", same);
              one_event(real.db());
              real.call("heartbeat_worker", {{"instance", "w1"}, {"namespace", "ns"}});
            },
            [&](SimulatedSide& simulated) {
              CHECK(enter(simulated.db(), its));
              one_event(simulated.db());
              CHECK(send_heartbeat(simulated.db(), its));
            }) == Lines{});
  CHECK(differences(
            [&](RealSide& real) {
              real.call("register_worker", same);
              real.db().execute(kSilence);
              real.call("heartbeat_worker", {{"instance", "w1"}, {"namespace", "ns"}});
            },
            [&](SimulatedSide& simulated) {
              CHECK(enter(simulated.db(), its));
              simulated.db().execute(kSilence);
              CHECK_FALSE(send_heartbeat(simulated.db(), its));
            }) == Lines{});
}
