// Flows of the real FlowFabric whose cancel stopped midway.
#include <random>

#include "world.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// Nobody is left to acknowledge anything.
EngineOptions at_once() {
  EngineOptions options;
  options.settings = {{"grace", 0}};
  return options;
}

std::int64_t rows(World& world, const std::string& table) {
  return number(world.connection, "SELECT count(*) FROM " + table);
}

struct Cancelled {
  explicit Cancelled(World& its)
      : world(its), flow(world.real.call("create_flow", {{"partition", 2}}).at("flow")) {}

  std::string member(const std::string& lane) { return world.execution({{"flow", flow}, {"lane", lane}}); }
  std::string working(const std::string& lane, const std::string& way = "claim") {
    const std::string made = member(lane);
    world.take(way, made, lane, 60'000, {{"lane", lane}});
    return made;
  }
  Json suspend(const std::string& handle) {
    return world.real.call("suspend", {{"handle", handle}}).at("waitpoints").at(0);
  }
  void cancel(const std::string& policy) {
    world.real.call("cancel_flow_header", {{"flow", flow}, {"policy", policy}});
  }
  void acknowledge(const std::string& member) {
    world.real.call("cancel_execution", {{"execution", member}});
    world.real.call("ack_cancel_member", {{"flow", flow}, {"execution", member}});
  }
  std::string tick() { return world.tick("cancel_backlog", at_once()); }

  World& world;
  const Json flow;
};

}  // namespace

TEST_CASE("the workers of a flow whose server died after the header complete nothing any more") {
  for (const std::string way : {"claim", "claim_execution"}) {
    INFO(way);
    World world;
    Cancelled its(world);
    const std::string working = its.working("a", way);
    const std::string suspended = its.working("b", way);
    const Json waitpoint = its.suspend("b");
    const std::string waiting = its.member("c");
    its.cancel("cancel_all");

    CHECK(its.tick() == "flow_done=1 member_cancelled=3");

    for (const std::string& member : {working, suspended, waiting}) {
      CHECK(world.states(member) == "cancelled unowned not_applicable cancelled cancelled");
      CHECK(world.ends_of(member, "cancelled") == 1);
      CHECK(world.waitpoints(member) == 0);
    }
    CHECK(world.lease_events_of(working, "revoked") == 1);
    CHECK(world.real.refusal("renew", {{"handle", "a"}}) != "");
    CHECK(world.real.refusal("complete", {{"handle", "a"}}) == "Contention.LeaseConflict");
    CHECK(world.real.refusal("complete", {{"handle", "b"}}) == "Contention.LeaseConflict");
    CHECK(world.real.refusal("deliver_signal", {{"execution", suspended},
                                                {"waitpoint", waitpoint.at("waitpoint")},
                                                {"token", waitpoint.at("token")}}) == "NotFound.waitpoint");
    CHECK(world.real.refusal("ack_cancel_member", {{"flow", its.flow}, {"execution", waiting}}).empty());
    CHECK(rows(world, "ff_cancel_backlog") == 0);
  }
}

TEST_CASE("under the other policies of a cancel a worker finishes, and its member's row goes then") {
  for (const std::string policy : {"flow_only", "cancel_pending"}) {
    INFO(policy);
    World world;
    Cancelled its(world);
    const std::string working = its.working("a");
    const std::string waiting = its.member("b");
    its.cancel(policy);

    CHECK(its.tick() == "member_cancelled=1");
    CHECK(world.ends_of(waiting, "cancelled") == 1);
    CHECK(world.real.refusal("renew", {{"handle", "a"}}).empty());
    CHECK(world.real.refusal("complete", {{"handle", "a"}}).empty());
    CHECK(its.tick() == "flow_done=1 member_gone=1");
    CHECK(world.ends_of(working, "success") == 1);
    CHECK(world.ends_of(working, "cancelled") == 0);
  }
}

TEST_CASE("a member of a cancelled flow that a late signal has revived is cancelled all the same") {
  for (const std::string policy : {"cancel_all", "flow_only"}) {
    INFO(policy);
    World world;
    Cancelled its(world);
    const std::string suspended = its.working("a");
    const Json waitpoint = its.suspend("a");
    its.cancel(policy);
    world.real.call("deliver_signal", {{"execution", suspended},
                                       {"waitpoint", waitpoint.at("waitpoint")},
                                       {"token", waitpoint.at("token")}});
    REQUIRE(world.core(suspended).at("lifecycle_phase") == "runnable");

    CHECK(its.tick() == "flow_done=1 member_cancelled=1");
    CHECK(world.states(suspended) == "cancelled unowned not_applicable cancelled cancelled");
    CHECK(world.real.call("claim", {{"lane", "a"}}).is_null());
  }
}

TEST_CASE(
    "a member of a cancelled flow that its worker's retry has revived goes on where the policy allows it") {
  for (const std::string policy : {"cancel_all", "flow_only"}) {
    INFO(policy);
    World world;
    Cancelled its(world);
    const std::string member = world.execution({{"flow", its.flow}, {"lane", "a"}, {"max_retries", 3}});
    world.take("claim", member, "a", 60'000, {{"lane", "a"}});
    its.cancel(policy);
    world.real.call("fail", {{"handle", "a"}, {"class", "transient"}});
    REQUIRE(world.core(member).at("lifecycle_phase") == "runnable");

    const bool goes_on = policy == "flow_only";
    CHECK(its.tick() == (goes_on ? "flow_done=1 member_left=1" : "flow_done=1 member_cancelled=1"));
    CHECK(world.ends_of(member, "cancelled") == (goes_on ? 0 : 1));
    CHECK(world.real.call("claim", {{"lane", "a"}}).is_null() != goes_on);
  }
}

TEST_CASE("whatever has cancelled it, an execution is not completed by its worker afterwards") {
  for (const std::string way : {"claim", "claim_execution"}) {
    const std::string how = GENERATE("header", "flow", "execution");
    CAPTURE(way, how);
    World world;
    Cancelled its(world);
    const std::string member = its.working("a", way);
    if (how == "header") {
      its.cancel("cancel_all");
      its.acknowledge(member);
    } else if (how == "flow") {
      world.real.call("cancel_flow", {{"flow", its.flow}, {"policy", "cancel_all"}});
    } else {
      world.real.call("cancel_execution", {{"execution", member}});
    }
    REQUIRE(rows(world, "ff_cancel_backlog") == 0);
    world.pass();

    // A cancel finds the attempt of a worker that has claimed by a handle, and takes it.
    const bool is_done = how == "execution" && way == "claim";
    CHECK(its.tick() == (is_done ? "" : "lease_revoked=1"));
    CHECK(world.real.refusal("complete", {{"handle", "a"}}) == "Contention.LeaseConflict");
    CHECK(world.ends_of(member, "success") == 0);
    CHECK(world.ends_of(member, "cancelled") == (is_done ? 0 : 1));
    CHECK(its.tick().empty());
  }
}

TEST_CASE("an acknowledged member that its worker's retry revives is cancelled when it is claimed again") {
  World world;
  Cancelled its(world);
  const std::string member = world.execution({{"flow", its.flow}, {"lane", "a"}, {"max_retries", 3}});
  world.take("claim", member, "a", 60'000, {{"lane", "a"}});
  its.cancel("cancel_all");
  its.acknowledge(member);
  world.real.call("fail", {{"handle", "a"}, {"class", "transient"}});
  REQUIRE(world.core(member).at("lifecycle_phase") == "runnable");
  world.take("claim", member, "b", 60'000, {{"lane", "a"}});
  world.pass();

  CHECK(its.tick() == "lease_revoked=1");
  CHECK(world.real.refusal("complete", {{"handle", "b"}}) == "Contention.LeaseConflict");
  CHECK(world.ends_of(member, "cancelled") == 1);
}

TEST_CASE("a flow without living members leaves no backlog") {
  World world;
  Cancelled its(world);
  its.working("a");
  world.real.call("complete", {{"handle", "a"}});
  its.cancel("cancel_all");
  REQUIRE(rows(world, "ff_cancel_backlog") == 1);
  CHECK(its.tick() == "flow_done=1");
  CHECK(rows(world, "ff_cancel_backlog") == 0);
}

TEST_CASE("a hundred servers that died in mid-cancel leave an empty backlog, and no member that completes") {
  World world;
  std::mt19937 dice(20'261'124);
  const auto below = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most - 1)(dice);
  };
  struct Left {
    std::string execution;
    std::string handle;  ///< empty: nobody works on it
    bool is_leased = false;
  };
  std::vector<Left> left;
  std::vector<Left> let_work;  // acknowledged, with their leases
  for (int cut = 0; cut < 100; ++cut) {
    Cancelled its(world);
    std::vector<Left> members;
    for (std::size_t i = 0, all = 1 + below(4); i < all; ++i) {
      const std::string name = "m" + std::to_string(cut) + "_" + std::to_string(i);
      const std::size_t kind = below(4);
      if (kind == 0) {
        members.push_back({its.member(name), ""});
        continue;
      }
      members.push_back({its.working(name, kind == 1 ? "claim_execution" : "claim"), name});
      members.back().is_leased = kind != 3;
      if (kind == 3) its.suspend(name);
    }
    its.cancel("cancel_all");
    // The server acknowledges in the order in which the header named them; what it has acknowledged, nobody knows of.
    std::shuffle(members.begin(), members.end(), dice);
    const std::size_t acknowledged = below(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i < acknowledged) its.acknowledge(members[i].execution);
      if (i >= acknowledged)
        left.push_back(members[i]);
      else if (members[i].is_leased)
        let_work.push_back(members[i]);
    }
  }
  REQUIRE(!let_work.empty());
  REQUIRE(rows(world, "ff_cancel_backlog") == 100);
  REQUIRE(rows(world, "ff_cancel_backlog_member") == static_cast<std::int64_t>(left.size()));

  CHECK(world.tick("cancel_backlog", at_once()) ==
        "flow_done=100 lease_revoked=" + std::to_string(let_work.size()) +
            " member_cancelled=" + std::to_string(left.size()));

  CHECK(rows(world, "ff_cancel_backlog") == 0);
  CHECK(rows(world, "ff_cancel_backlog_member") == 0);
  left.insert(left.end(), let_work.begin(), let_work.end());
  for (const Left& member : left) {
    CHECK(world.ends_of(member.execution, "cancelled") == 1);
    if (!member.handle.empty())
      CHECK(world.real.refusal("complete", {{"handle", member.handle}}) == "Contention.LeaseConflict");
    CHECK(world.states(member.execution) == "cancelled unowned not_applicable cancelled cancelled");
  }
}

// Of a former suspension: the worker reads its signals still, and makes a waitpoint that it suspends with later.
TEST_CASE(
    "what a worker that may finish has left of a suspension, and made for the next one, is left to it") {
  const auto timeout = GENERATE(1, 3'600'000);
  CAPTURE(timeout);
  World world;
  Cancelled its(world);
  const std::string member = its.working("a");
  const Json waitpoint = world.real
                             .call("suspend", {{"handle", "a"},
                                               {"timeout_in_ms", timeout},
                                               {"timeout_behavior", "auto_resume_with_timeout_signal"}})
                             .at("waitpoints")
                             .at(0);
  REQUIRE(world.real
              .refusal("deliver_signal", {{"execution", member},
                                          {"waitpoint", waitpoint.at("waitpoint")},
                                          {"token", waitpoint.at("token")}})
              .empty());
  world.real.call("claim_resumed_execution", {{"execution", member}, {"as", "a"}, {"lane", "a"}});
  const Json made = world.real.call("create_waitpoint", {{"handle", "a"}, {"key", "k"}});
  its.cancel("cancel_pending");
  REQUIRE(world.core(member).at("lifecycle_phase") == "cancelled");
  world.pass();

  CHECK(world.tick("suspension_timeout") == (timeout == 1 ? "resumed_before=1" : ""));

  CHECK(world.waitpoints(member) == 1);
  SECTION("while it works") {
    CHECK(world.real.call("observe_signals", {{"handle", "a"}}).size() == 1);
    const Json used =
        world.real
            .call("suspend",
                  {{"handle", "a"}, {"waitpoints", {{{"pending", made.at("waitpoint")}, {"key", "k"}}}}})
            .at("waitpoints")
            .at(0);
    CHECK(used.at("key") == "k");
    CHECK(world.tick("suspension_timeout").empty());
    CHECK(world.suspension(member).at("member_map").empty());
  }
  SECTION("until its lease has run out") {
    world.connection.execute(
        "UPDATE ff_attempt SET lease_expires_at_ms = 1 WHERE lease_expires_at_ms IS NOT NULL");
    CHECK(world.tick("suspension_timeout") == "orphan_cleared=1");
    CHECK(world.waitpoints(member) == 0);
    CHECK(world.suspension(member).is_null());
  }
}

TEST_CASE(
    "a signal that answers what a worker that may finish has suspended since the cancel is a part of its "
    "work") {
  World world;
  Cancelled its(world);
  const std::string member = its.working("a");
  its.cancel("cancel_pending");
  world.pass();
  const Json waitpoint = its.suspend("a");
  const auto signal = [&](const Json& to) {
    return world.real.refusal(
        "deliver_signal",
        {{"execution", member}, {"waitpoint", to.at("waitpoint")}, {"token", to.at("token")}});
  };
  REQUIRE(signal(waitpoint).empty());
  const bool is_claimed = GENERATE(false, true);
  if (is_claimed)
    world.real.call("claim_resumed_execution", {{"execution", member}, {"as", "a"}, {"lane", "a"}});

  CHECK(its.tick() == "flow_done=1 member_left=1");

  if (!is_claimed)
    world.real.call("claim_resumed_execution", {{"execution", member}, {"as", "a"}, {"lane", "a"}});
  CHECK(world.real.refusal("complete", {{"handle", "a"}}).empty());
  CHECK(world.ends_of(member, "success") == 1);
}
