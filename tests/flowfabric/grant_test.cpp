// Grants of the real scheduler that nobody takes up, and executions that a typed claim left ahead of their attempt: what
// its claims say of them afterwards.
#include "world.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const EngineOptions kNoGrace{.settings = {{"grace", 0}}};

// Which had ended before anybody came.
std::string granted(World& world) {
  const std::string execution = world.execution();
  REQUIRE(world.real.call("claim_for_worker", {{"grant_ttl_ms", 1}}).at("execution") == execution);
  return execution;
}

Json suspended(World& world, const std::string& way, const std::string& execution) {
  world.take(way, execution);
  return world.real.call("suspend", {{"handle", "h"}}).at("waitpoints").at(0);
}

void signal(World& world, const std::string& execution, const Json& waitpoint) {
  world.real.call(
      "deliver_signal",
      {{"execution", execution}, {"waitpoint", waitpoint.at("waitpoint")}, {"token", waitpoint.at("token")}});
}

std::int64_t grants(World& world) {
  return number(world.connection, "SELECT count(*) FROM ff_claim_grant");
}

}  // namespace

TEST_CASE("an execution that was granted to nobody who came is taken by each of the real claims") {
  for (const std::string& judge : three_claims()) {
    INFO(judge);
    World world;
    const std::string execution = granted(world);
    CHECK(world.real.call("claim", {{"as", "early"}}).is_null());

    CHECK(world.tick("grant_expiry", kNoGrace) == "returned=1");

    CHECK(grants(world) == 0);
    CHECK(world.taken_by(judge, execution).empty());
    CHECK(world.tick("grant_expiry", kNoGrace).empty());
  }
}

TEST_CASE("an execution that was granted to nobody who came is granted anew, and then left to its claimer") {
  World world;
  const std::string execution = granted(world);
  REQUIRE(world.tick("grant_expiry", kNoGrace) == "returned=1");

  CHECK(world.real.call("claim_for_worker").at("execution") == execution);

  CHECK(world.tick("grant_expiry", kNoGrace).empty());
  CHECK(world.core(execution).at("eligibility_state") == "pending_claim");
  CHECK(grants(world) == 1);
  CHECK(world.taken_by("issue_grant_and_claim", execution).empty());
}

TEST_CASE("a resumed execution that was granted to nobody who came goes on where it was") {
  World world;
  const std::string execution = world.execution();
  signal(world, execution, suspended(world, "claim", execution));
  REQUIRE(world.real.call("claim_for_worker", {{"grant_ttl_ms", 1}}).at("execution") == execution);

  CHECK(world.tick("grant_expiry", kNoGrace) == "returned=1");

  CHECK(world.states(execution) == "runnable released eligible_now resumable attempt_interrupted");
  CHECK(world.take("claim_resumed_execution", execution, "next").at("attempt") == 0);
  CHECK(world.real.call("observe_signals", {{"handle", "next"}}).size() == 1);
  CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
}

TEST_CASE("an old grant is no obstacle to a claim, and whoever works is left alone") {
  World world;
  const std::string waiting = world.execution({{"lane", "waiting"}});
  const std::string working = world.execution({{"lane", "working"}});
  for (const std::string& execution : {waiting, working})
    world.real.call("write_grant", {{"execution", execution}, {"grant_ttl_ms", 1}});
  world.real.call("issue_grant_and_claim", {{"execution", working}, {"as", "h"}});

  CHECK(world.tick("grant_expiry", kNoGrace) == "expired=2");

  CHECK(grants(world) == 0);
  CHECK(world.taken_by("claim_execution", waiting).empty());
  CHECK(world.real.refusal("complete", {{"handle", "h"}}).empty());
}

TEST_CASE("what is granted for a reclaim is left until it has ended") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution, "late", 1);
  world.pass();
  world.real.call("issue_reclaim_grant", {{"execution", execution}, {"worker", "w2"}});
  CHECK(world.tick("grant_expiry", kNoGrace).empty());
  CHECK(world.real.call("reclaim_execution", {{"execution", execution}, {"worker", "w2"}, {"as", "w2"}})
            .at("outcome") == "claimed");
  world.real.call("write_grant", {{"execution", execution}, {"grant_ttl_ms", 1}});
  CHECK(world.tick("grant_expiry", kNoGrace) == "expired=1");
  CHECK(world.real.refusal("renew", {{"handle", "w2"}}).empty());
}

TEST_CASE("what suspends after a typed claim goes on at its attempt, whenever the signal comes") {
  for (const std::string way : {"claim_execution", "issue_grant_and_claim"}) {
    for (const bool signalled_before : {true, false}) {
      INFO(way << (signalled_before ? ", then the signal" : ", then the repair"));
      World world;
      const std::string execution = world.execution();
      const Json waitpoint = suspended(world, way, execution);
      REQUIRE(world.core(execution).at("attempt_index") == 1);
      if (signalled_before) signal(world, execution, waitpoint);
      const std::string states = world.states(execution);

      CHECK(world.tick("index_repair") == "repaired=1");

      CHECK(world.states(execution) == states);
      CHECK(world.tick("index_repair").empty());
      if (!signalled_before) signal(world, execution, waitpoint);
      CHECK(world.take("claim_resumed_execution", execution, "next").at("attempt") == 0);
      CHECK(world.real.call("observe_signals", {{"handle", "next"}}).size() == 1);
      CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
    }
  }
}

TEST_CASE("what an operator resumes after a typed claim is taken by issue_grant_and_claim") {
  World world;
  const std::string execution = world.execution();
  suspended(world, "issue_grant_and_claim", execution);
  world.real.call("resume_execution", {{"execution", execution}});
  REQUIRE_FALSE(
      world.real.refusal("issue_grant_and_claim", {{"execution", execution}, {"as", "early"}}).empty());

  CHECK(world.tick("index_repair") == "repaired=1");

  CHECK(world.take("issue_grant_and_claim", execution, "next").at("attempt") == 0);
  CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
}

TEST_CASE("who delays itself or waits for children after a typed claim names its attempt at once") {
  for (const std::string step : {"delay", "wait_children"}) {
    INFO(step);
    World world;
    const std::string execution = world.execution();
    world.take("claim_execution", execution);
    world.real.call(step, {{"handle", "h"}, {"delay_in_ms", 3'600'000}});

    CHECK(world.tick("index_repair") == "repaired=1");

    CHECK(world.core(execution).at("attempt_index") == 0);
    CHECK(world.core(execution).at("raw_fields").at("total_attempt_count") == "0");
  }
}

TEST_CASE("index_repair leaves alone who has its attempt, or is to begin another") {
  World world;
  const std::string untyped = world.execution({{"lane", "untyped"}});
  world.real.call("claim", {{"lane", "untyped"}, {"as", "h"}});
  world.real.call("suspend", {{"handle", "h"}});
  const std::string failed = world.execution({{"max_retries", 3}});
  world.take("claim_execution", failed);
  world.real.call("fail", {{"handle", "h"}, {"class", "transient"}});
  world.execution({{"lane", "new"}});

  CHECK(world.tick("index_repair").empty());
}

// Its suspension's conditions are kept, and met again by any signal: one to a waitpoint that a worker makes while it works
// takes the execution out of its hands, and leaves it the lease.
TEST_CASE("what a signal took from its worker is returned and taken, whatever becomes of the lease") {
  enum class End { revoked, lapsed, lapsed_beside_us };
  // An operator revokes the lease of the attempt that the core names, which is not that of a typed claim.
  const auto [way, end] =
      GENERATE(table<std::string, End>({{"claim", End::revoked},
                                        {"claim", End::lapsed},
                                        {"claim_execution", End::lapsed},
                                        {"claim_execution", End::lapsed_beside_us},
                                        {"issue_grant_and_claim", End::lapsed},
                                        {"issue_grant_and_claim", End::lapsed_beside_us}}));
  const bool is_granted = GENERATE(true, false);
  INFO(way << ", " << static_cast<int>(end) << (is_granted ? ", granted" : ""));
  World world;
  const std::string execution = world.execution({{"max_retries", 3}});
  signal(world, execution, suspended(world, "claim", execution));
  world.take("claim_resumed_execution", execution, "first");
  world.real.call("fail", {{"handle", "first"}, {"class", "transient"}});
  const int attempt = world.take(way, execution, "second", end == End::revoked ? 60'000 : 1).at("attempt");
  signal(world, execution, world.real.call("create_waitpoint", {{"handle", "second"}}));
  REQUIRE(world.states(execution) == "runnable leased eligible_now resumable running_attempt");

  if (end == End::revoked) world.real.call("revoke_lease", {{"execution", execution}, {"instance", ""}});
  if (end == End::lapsed) CHECK(world.tick("lease_expiry") == "released=1");
  if (end == End::lapsed_beside_us) {
    world.pass();
    world.real.call("scan", {{"name", "lease_expiry"}, {"partitions", {0}}});
  }
  REQUIRE(number(world.connection, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL") ==
          0);
  if (is_granted) {
    REQUIRE(world.real.call("claim_for_worker", {{"grant_ttl_ms", 1}}).at("execution") == execution);
    CHECK(world.tick("grant_expiry", kNoGrace) == "returned=1");
  }
  CHECK(world.tick("index_repair") == "repaired=1");

  CHECK(world.states(execution) == "runnable unowned eligible_now resumable attempt_interrupted");
  CHECK(world.tick("index_repair").empty());
  CHECK(world.take("claim_resumed_execution", execution, "next").at("attempt") == attempt);
  CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
}
