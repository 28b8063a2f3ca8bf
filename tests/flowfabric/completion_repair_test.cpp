// Ends that the real FlowFabric tells nobody, and who waits for them.
#include "flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// Somebody works on `upstream` as `worker` until it is cancelled, and `downstream` waits for it.
struct Cancelled {
  std::string upstream;
  std::string downstream;
};

void scan(World& world, const char* name) {
  world.pass();
  world.real.call("scan", {{"name", name}, {"partitions", {0, 1, 2, 3}}, {"stale_ms", 0}});
}

Cancelled by_its_worker(World& world) {
  const Flow flow(world, {{"policy", "all_of"}}, 1);
  world.real.call("claim", {{"lane", "u0"}, {"as", "worker"}});
  world.real.call("cancel", {{"handle", "worker"}});
  return {flow.upstream[0], flow.downstream};
}

Cancelled by_an_operator(World& world) {
  const Flow flow(world, {{"policy", "all_of"}}, 1);
  world.real.call("claim", {{"lane", "u0"}, {"as", "worker"}});
  world.real.call("cancel_execution", {{"execution", flow.upstream[0]}});
  return {flow.upstream[0], flow.downstream};
}

// Everybody in it is cancelled, but a signal revives the downstream, which was suspended.
Cancelled by_its_flow(World& world) {
  const Flow flow(world, {{"policy", "all_of"}}, 1);
  world.real.call("claim", {{"lane", "u0"}, {"as", "worker"}});
  world.real.call("claim", {{"lane", "downstream"}, {"as", "suspended"}});
  const Json waitpoint = world.real.call("suspend", {{"handle", "suspended"}}).at("waitpoints").at(0);
  world.real.call("cancel_flow_header", {{"flow", flow.id}, {"policy", "cancel_all"}});
  world.real.call("deliver_signal", {{"execution", flow.downstream},
                                     {"waitpoint", waitpoint.at("waitpoint")},
                                     {"token", waitpoint.at("token")}});
  return {flow.upstream[0], flow.downstream};
}

// A sibling that one fan-in needs no more, and another one waits for.
Cancelled by_their_dispatcher(World& world) {
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "cancel_remaining"}}, 2);
  const std::string other = world.execution({{"flow", flow.id}, {"lane", "other"}});
  world.real.call(
      "stage_edge",
      {{"flow", flow.id}, {"upstream", flow.upstream[1]}, {"downstream", other}, {"apply", true}});
  flow.claim("u1", "worker");
  flow.complete(0);
  scan(world, "edge_cancel_dispatcher");
  return {flow.upstream[1], other};
}

}  // namespace

TEST_CASE(
    "who waits for a member that was cancelled in any way hears of it, once, and its worker is refused") {
  const std::vector<std::pair<const char*, Cancelled (*)(World&)>> ways{
      {"cancel", by_its_worker},
      {"cancel_execution", by_an_operator},
      {"cancel_flow_header", by_its_flow},
      {"edge_cancel_dispatcher", by_their_dispatcher}};
  for (const auto& [name, way] : ways) {
    for (const bool passed_on_by_us : {true, false}) {
      INFO(name << (passed_on_by_us ? ", passed on by us" : ", passed on by FlowFabric"));
      World world;
      const Cancelled made = way(world);
      REQUIRE(world.ends_of(made.upstream, "cancelled") == 0);

      CHECK(world.tick("completion_repair") == "repaired=1");

      CHECK(world.tick("completion_repair").empty());
      CHECK(world.ends_of(made.upstream, "cancelled") == 1);
      CHECK(world.real.refusal("complete", {{"handle", "worker"}}) == "Contention.LeaseConflict");
      CHECK(world.ends_of(made.upstream, "success") == 0);
      CHECK(world.attempt(made.upstream).at("lease_expires_at_ms").is_null());
      if (passed_on_by_us)
        CHECK_FALSE(
            world.tick("dependency", Flow::at_once()).empty());  // and of a resume, where there was one
      else
        scan(world, "dependency");
      CHECK(world.core(made.downstream).at("public_state") == "skipped");
    }
  }
}

TEST_CASE("an end that FlowFabric has told itself is not told again") {
  World world;
  Flow flow(world, {{"policy", "all_of"}}, 3);
  flow.succeeds(0);
  flow.fails(1);
  CHECK(world.tick("completion_repair").empty());
  world.real.call("cancel_execution", {{"execution", flow.upstream[2]}});
  CHECK(world.tick("completion_repair") == "repaired=1");
  CHECK(world.ends_of(flow.upstream[0], "success") == 1);
  CHECK(world.ends_of(flow.upstream[1], "failed") == 1);
}

TEST_CASE("a replayed execution whose first end was counted is not told again while others work") {
  World world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "let_run"}}, 2);
  const bool is_counted = GENERATE(true, false);
  if (is_counted)
    flow.fail(0);
  else
    flow.fails(0);
  world.real.call("replay_execution", {{"execution", flow.upstream[0]}});
  CHECK(world.tick("completion_repair").empty());
  flow.claim("u0", "again");
  world.pass();
  world.real.call("cancel", {{"handle", "again"}});

  CHECK(world.tick("completion_repair").empty());

  world.tick("dependency", Flow::at_once());
  CHECK(world.ends_of(flow.upstream[0], "failed") == 1);
  CHECK(world.ends_of(flow.upstream[0], "cancelled") == 0);
  CHECK(world.core(flow.downstream).at("lifecycle_phase") != "terminal");
  flow.complete(1);
  CHECK(world.core(flow.downstream).at("eligibility_state") == "eligible_now");
}

TEST_CASE("a replayed execution of which nobody was told ever is told once") {
  World world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "let_run"}}, 2);
  flow.claim("u0", "first");
  world.real.call("cancel", {{"handle", "first"}});
  world.real.call("replay_execution", {{"execution", flow.upstream[0]}});
  world.pass();
  world.real.call("cancel_execution", {{"execution", flow.upstream[0]}});
  CHECK(world.tick("completion_repair") == "repaired=1");
  CHECK(world.tick("completion_repair").empty());
  CHECK(world.ends_of(flow.upstream[0], "cancelled") == 1);
}

TEST_CASE("a worker that cancels what an operator has cancelled makes no second end of it") {
  World world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "let_run"}}, 2);
  flow.claim("u0", "worker");
  world.real.call("cancel_execution", {{"execution", flow.upstream[0]}});
  CHECK(world.tick("completion_repair") == "repaired=1");
  world.pass();
  world.real.call("cancel", {{"handle", "worker"}});
  REQUIRE(world.core(flow.upstream[0]).at("lifecycle_phase") == "terminal");
  CHECK(world.tick("completion_repair").empty());
  CHECK(world.ends_of(flow.upstream[0], "cancelled") == 1);
}

TEST_CASE("a downstream that an operator has replayed after a cancel is left to him") {
  World world;
  Flow flow(world, {{"policy", "all_of"}}, 2);
  flow.fails(0);
  world.tick("dependency", Flow::at_once());
  REQUIRE(world.core(flow.downstream).at("public_state") == "skipped");
  world.real.call("cancel_execution", {{"execution", flow.upstream[1]}});
  world.pass();
  world.real.call("replay_execution", {{"execution", flow.downstream}});
  CHECK(world.tick("completion_repair").empty());
  flow.claim("downstream", "d");
  CHECK(world.real.refusal("complete", {{"handle", "d"}}).empty());
}

// As README says of every policy but cancel_all; FlowFabric's own complete asks for the epoch only.
TEST_CASE("a cancelled member whose worker may finish is told of by that worker, whoever waits meanwhile") {
  World world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "let_run"}}, 2);
  flow.complete(0);
  flow.claim("downstream", "d");
  world.real.call("claim", {{"lane", "u1"}, {"as", "worker"}});
  world.real.call("cancel_flow_header", {{"flow", flow.id}, {"policy", "cancel_pending"}});
  world.real.call("fail", {{"handle", "d"}, {"class", "transient"}});
  REQUIRE(world.core(flow.downstream).at("lifecycle_phase") == "runnable");

  CHECK(world.tick("completion_repair").empty());

  SECTION("who does") {
    CHECK(world.real.refusal("renew", {{"handle", "worker"}}).empty());
    CHECK(world.real.refusal("complete", {{"handle", "worker"}}).empty());
    CHECK(world.ends_of(flow.upstream[1], "success") == 1);
    CHECK(world.tick("completion_repair").empty());
  }
  SECTION("until its lease has run out") {
    world.connection.execute(
        "UPDATE ff_attempt SET lease_expires_at_ms = 1 WHERE lease_expires_at_ms IS NOT NULL");
    CHECK(world.tick("completion_repair") == "repaired=1");
    CHECK(world.ends_of(flow.upstream[1], "cancelled") == 1);
    CHECK(world.real.refusal("complete", {{"handle", "worker"}}) == "Contention.LeaseConflict");
  }
}
