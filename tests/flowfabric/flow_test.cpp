// Flows of the real FlowFabric: fan-ins, children that are waited for, and what becomes impossible.
#include "flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const Json kAnyOf{{"policy", "any_of"}, {"on_satisfied", "let_run"}};

}  // namespace

TEST_CASE("who waits for children that ended before it began to wait is woken") {
  World world;
  Flow flow(world);
  flow.claim("downstream", "parent");
  flow.complete(0);
  flow.complete(1);
  world.real.call("wait_children", {{"handle", "parent"}});
  REQUIRE(world.core(flow.downstream).at("eligibility_state") == "blocked_by_dependencies");

  CHECK(world.tick("dependency", Flow::at_once()) == "woken=1");

  CHECK(world.core(flow.downstream).at("eligibility_state") == "eligible_now");
  flow.claim("downstream", "parent");
  CHECK(world.real.refusal("complete", {{"handle", "parent"}}).empty());
}

TEST_CASE(
    "who waits for children is not woken by former upstreams while the edge of a child is being staged") {
  World world;
  Flow flow(world, {{"policy", "all_of"}}, 1);
  flow.complete(0);
  flow.claim("downstream", "parent");
  const std::string child = world.execution({{"flow", flow.id}, {"lane", "child"}});
  const Json edge{{"flow", flow.id}, {"upstream", child}, {"downstream", flow.downstream}, {"apply", false}};
  const Json staged = world.real.call("stage_edge", edge);
  world.real.call("wait_children", {{"handle", "parent"}});
  CHECK(world.tick("dependency", Flow::at_once()).empty());
  CHECK(world.core(flow.downstream).at("eligibility_state") == "blocked_by_dependencies");

  SECTION("it is applied") {
    world.real.call("apply_edge", {{"flow", flow.id},
                                   {"upstream", child},
                                   {"downstream", flow.downstream},
                                   {"edge", staged.at("edge")}});
    CHECK(world.tick("dependency", Flow::at_once()).empty());
    flow.claim("child", "c");
    world.real.call("complete", {{"handle", "c"}});
    CHECK(world.tick("dependency", Flow::at_once()) == "advanced=1");
  }
  SECTION("who has staged it has died long ago") {
    world.connection.execute(
        "UPDATE ff_edge SET policy = jsonb_set(policy, '{staged_at_ms}', "
        "to_jsonb((policy->>'staged_at_ms')::bigint -"
        " 660000)) WHERE policy->>'edge_state' = 'pending'");
    CHECK(world.tick("dependency", Flow::at_once()) == "woken=1");
  }
  flow.claim("downstream", "parent");
  CHECK(world.real.refusal("complete", {{"handle", "parent"}}).empty());
}

TEST_CASE("who waits for children after a typed claim is woken by the last, and claimed again") {
  for (const std::string judge : {"claim", "issue_grant_and_claim"}) {
    INFO(judge);
    World world;
    Flow flow(world);
    world.take("claim_execution", flow.downstream, "parent");
    world.real.call("wait_children", {{"handle", "parent"}});
    flow.complete(0);
    CHECK(world.core(flow.downstream).at("eligibility_state") == "blocked_by_dependencies");
    flow.complete(1);

    CHECK(world.core(flow.downstream).at("eligibility_state") == "eligible_now");
    const Json lease = world.take(judge, flow.downstream, "parent", 60'000, {{"lane", "downstream"}});
    CHECK(lease.at("attempt") == 0);
    CHECK(world.real.refusal("complete", {{"handle", "parent"}}).empty());
  }
}

TEST_CASE("each of two edges between the same two executions counts") {
  World world;
  Flow flow(world, {{"policy", "all_of"}}, 1);
  flow.edge(0);
  flow.claim("downstream", "parent");
  world.real.call("wait_children", {{"handle", "parent"}});
  REQUIRE(number(world.connection, "SELECT sum(running_count) FROM ff_edge_group") == 2);

  CHECK(flow.complete(0) == "advanced=1");

  CHECK(number(world.connection, "SELECT sum(running_count) FROM ff_edge_group") == 0);
  CHECK(number(world.connection, "SELECT sum(success_count) FROM ff_edge_group") == 2);
  flow.claim("downstream", "parent");
}

TEST_CASE(
    "a downstream that an operator has replayed is not ended again by upstreams that had doomed it before") {
  World world;
  Flow flow(world, {{"policy", "all_of"}}, 2);
  CHECK(flow.fail(0) == "advanced=1");
  REQUIRE(world.core(flow.downstream).at("public_state") == "skipped");
  CHECK(world.tick("dependency", Flow::at_once()) == "advanced=1");  // its own end
  for (const std::string& each : {flow.upstream[0], flow.downstream})
    world.real.call("replay_execution", {{"execution", each}});
  flow.claim("downstream", "replayed");

  SECTION("the upstream that was replayed, too, succeeds") {
    CHECK(flow.complete(0) == "advanced=1");
  }
  SECTION("it fails again") {
    CHECK(flow.fail(0) == "advanced=1");
  }
  SECTION("another one ends") {
    CHECK(flow.complete(1) == "advanced=1");
  }
  CHECK(world.core(flow.downstream).at("lifecycle_phase") == "active");
  CHECK(world.real.refusal("complete", {{"handle", "replayed"}}).empty());
  CHECK(world.ends_of(flow.downstream, "success") == 1);
}

TEST_CASE("a later success of a satisfied any_of leaves a downstream in transit alone") {
  World world;
  Flow flow(world, kAnyOf);
  flow.complete(0);
  REQUIRE(world.real.call("claim_for_worker", {{"lane", "downstream"}}).at("execution") == flow.downstream);

  flow.complete(1);

  CHECK(world.core(flow.downstream).at("eligibility_state") == "pending_claim");
}

TEST_CASE("a later success of a satisfied quorum leaves a delayed downstream alone") {
  World world;
  Flow flow(world, {{"policy", "quorum"}, {"k", 1}, {"on_satisfied", "let_run"}});
  flow.complete(0);
  flow.claim("downstream", "h");
  world.real.call("delay", {{"handle", "h"}, {"delay_in_ms", 3'600'000}});

  flow.complete(1);

  CHECK(world.core(flow.downstream).at("eligibility_state") == "not_eligible_until_time");
  CHECK(world.core(flow.downstream).at("deadline_at_ms").is_number());
}

TEST_CASE(
    "a downstream of a satisfied any_of that waits for its children is woken by the last, and not before") {
  World world;
  Flow flow(world, kAnyOf, 3);
  flow.complete(0);
  flow.claim("downstream", "parent");
  world.real.call("wait_children", {{"handle", "parent"}});

  flow.complete(1);
  CHECK(world.core(flow.downstream).at("eligibility_state") == "blocked_by_dependencies");

  // By the event itself: whoever looks for those that were forgotten would find it, too.
  CHECK(flow.complete(2) == "advanced=1");
  CHECK(world.core(flow.downstream).at("eligibility_state") == "eligible_now");
  flow.claim("downstream", "parent");
}

TEST_CASE("a downstream that becomes impossible while it runs is fenced") {
  for (const std::string way : {"claim", "claim_execution"}) {
    INFO(way);
    World world;
    Flow flow(world);
    world.take(way, flow.downstream, "h", 60'000, {{"lane", "downstream"}});

    CHECK(flow.fail(0) == "advanced=1");

    CHECK(world.states(flow.downstream) == "terminal unowned not_applicable skipped attempt_terminal");
    CHECK(world.attempt(flow.downstream).at("outcome") == "cancelled");
    CHECK(world.lease_events_of(flow.downstream, "revoked") == 1);
    CHECK(world.ends_of(flow.downstream, "skipped") == 1);
    CHECK(world.real.refusal("complete", {{"handle", "h"}}) == "Contention.LeaseConflict");
    CHECK(world.ends_of(flow.downstream, "success") == 0);
  }
}

TEST_CASE("a downstream that becomes impossible while it is suspended cannot be resumed") {
  World world;
  Flow flow(world);
  flow.claim("downstream", "h");
  const Json waitpoint = world.real.call("suspend", {{"handle", "h"}}).at("waitpoints").at(0);

  CHECK(flow.fail(0) == "advanced=1");

  CHECK(world.suspension(flow.downstream).is_null());
  CHECK(world.real.refusal("deliver_signal", {{"execution", flow.downstream},
                                              {"waitpoint", waitpoint.at("waitpoint")},
                                              {"token", waitpoint.at("token")}}) == "NotFound.waitpoint");
  CHECK(world.core(flow.downstream).at("lifecycle_phase") == "terminal");
}

TEST_CASE("a filter sees completions that FlowFabric wrote without namespace and tag by their executions'") {
  World world;
  const Json origin{{"namespace", "ours"}, {"tags", {{"cairn.instance_id", "i1"}}}};
  Flow flow(world, kAnyOf, 1, origin);
  flow.claim("downstream", "parent");
  world.real.call("wait_children", {{"handle", "parent"}});
  flow.claim("u0", "u");
  world.real.call("complete", {{"handle", "u"}});
  REQUIRE(completion_events(world.connection).at(0).at("instance_tag").is_null());

  EngineOptions others = Flow::at_once();
  others.filter = for_both("ours", {"cairn.instance_id", "i2"});
  CHECK(world.tick("dependency", others).empty());
  EngineOptions ours = Flow::at_once();
  ours.filter = for_both("ours", {"cairn.instance_id", "i1"});
  CHECK(world.tick("dependency", ours) == "advanced=1");
  flow.claim("downstream", "parent");
}

TEST_CASE("siblings that a satisfied fan-in no longer needs are cancelled, and fenced") {
  World world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "cancel_remaining"}}, 3);
  world.take("claim_execution", flow.upstream[1], "typed");
  flow.claim("u2", "plain");
  flow.complete(0);

  CHECK(world.tick("edge_cancel_dispatcher") == "dispatched=1");

  for (const char* handle : {"typed", "plain"}) {
    INFO(handle);
    CHECK(world.real.refusal("complete", {{"handle", handle}}) == "Contention.LeaseConflict");
  }
  for (const std::size_t sibling : {1U, 2U}) {
    CHECK(world.core(flow.upstream[sibling]).at("public_state") == "cancelled");
    CHECK(world.lease_events_of(flow.upstream[sibling], "revoked") == 1);
    CHECK(world.ends_of(flow.upstream[sibling], "cancelled") == 1);
  }
  flow.claim("downstream", "parent");
}

TEST_CASE("a fan-in whose end a dispatcher marked and did not live to pass on is counted anew") {
  World world;
  Flow flow(world);
  flow.claim("downstream", "parent");
  world.real.call("wait_children", {{"handle", "parent"}});
  flow.complete(0);
  flow.succeeds(1);
  REQUIRE(world.tick("group_recount").empty());
  world.connection.execute("UPDATE ff_completion_event SET dispatched_at_ms = committed_at_ms");
  REQUIRE(world.tick("dependency", Flow::at_once()).empty());

  CHECK(world.tick("group_recount") == "recounted=1");

  CHECK(number(world.connection, "SELECT success_count FROM ff_edge_group") == 2);
  CHECK(number(world.connection, "SELECT running_count FROM ff_edge_group") == 0);
  flow.claim("downstream", "parent");
  CHECK(world.real.refusal("complete", {{"handle", "parent"}}).empty());
}

TEST_CASE(
    "a fan-in that one success decides is counted anew while a sibling lives, which is then cancelled") {
  World world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "cancel_remaining"}});
  flow.claim("downstream", "parent");
  world.real.call("wait_children", {{"handle", "parent"}});
  flow.succeeds(0);
  world.connection.execute("UPDATE ff_completion_event SET dispatched_at_ms = committed_at_ms");
  REQUIRE(world.tick("dependency", Flow::at_once()).empty());

  CHECK(world.tick("group_recount") == "recounted=1");

  CHECK(number(world.connection, "SELECT success_count FROM ff_edge_group") == 1);
  CHECK(number(world.connection, "SELECT running_count FROM ff_edge_group") == 1);
  flow.claim("downstream", "parent");
  CHECK(world.tick("edge_cancel_dispatcher") == "dispatched=1");
  CHECK(world.core(flow.upstream[1]).at("public_state") == "cancelled");
  CHECK(world.real.refusal("complete", {{"handle", "parent"}}).empty());
}

TEST_CASE("a fan-in that is still being staged is not counted anew, nor one that an operator replayed") {
  World world;
  Flow flow(world, {{"policy", "all_of"}}, 1);
  const auto stage_another = [&](bool apply) {
    world.real.call("stage_edge", {{"flow", flow.id},
                                   {"upstream", flow.upstream[0]},
                                   {"downstream", flow.downstream},
                                   {"apply", apply}});
  };
  SECTION("staged") {
    flow.complete(0);
    stage_another(true);
    stage_another(false);
  }
  SECTION("replayed") {
    flow.claim("downstream", "h");
    world.real.call("complete", {{"handle", "h"}});
    flow.complete(0);
    world.real.call("replay_execution", {{"execution", flow.downstream}});
    stage_another(true);
  }
  REQUIRE(number(world.connection, "SELECT running_count FROM ff_edge_group") == 1);
  CHECK(world.tick("group_recount").empty());
  CHECK(number(world.connection, "SELECT running_count FROM ff_edge_group") == 1);
}

TEST_CASE("who waits for any child after a claim_from_resume_grant is woken by the first") {
  World world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "let_run"}}, 2);
  flow.claim("downstream", "d");
  const Json waitpoint = world.real.call("suspend", {{"handle", "d"}}).at("waitpoints").at(0);
  world.real.call("deliver_signal", {{"execution", flow.downstream},
                                     {"waitpoint", waitpoint.at("waitpoint")},
                                     {"token", waitpoint.at("token")}});
  world.real.call("claim_from_resume_grant",
                  {{"execution", flow.downstream}, {"lane", "downstream"}, {"as", "next"}});
  world.real.call("wait_children", {{"handle", "next"}});
  REQUIRE(world.core(flow.downstream).at("public_state") == "resumable");

  flow.complete(0);

  CHECK(world.states(flow.downstream) == "runnable unowned eligible_now waiting attempt_interrupted");
}
