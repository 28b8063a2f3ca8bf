// Delays and budgets of the real FlowFabric, and what its claims and releases say of them afterwards.
#include "flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const std::vector<std::string>& two_claims() {
  static const std::vector<std::string> both{"claim", "issue_grant_and_claim"};
  return both;
}

}  // namespace

TEST_CASE("what was delayed after any claim is promoted, and taken where it was") {
  for (const std::string& delayed_by : three_claims()) {
    for (const std::string& judge : two_claims()) {
      INFO(delayed_by << ", then " << judge);
      World world;
      const std::string execution = world.execution();
      world.take(delayed_by, execution);
      world.real.call("delay", {{"handle", "h"}, {"delay_in_ms", 1}});

      CHECK(world.tick("delayed_promoter") == "promoted=1");

      CHECK(world.core(execution).at("public_state") == "waiting");
      const Json lease = world.take(judge, execution, "next");
      CHECK(lease.at("attempt") == 0);
      CHECK(world.real.refusal("complete", {{"handle", "next"}}).empty());
    }
  }
}

TEST_CASE("the end of a delay is no deadline of the run that an operator replays") {
  World world;
  Flow flow(world, {{"policy", "all_of"}}, 1);
  world.take("claim_execution", flow.downstream, "h", 60'000, {{"lane", "downstream"}});
  world.real.call("delay", {{"handle", "h"}, {"delay_in_ms", 500}});
  CHECK(flow.fail(0) == "advanced=1");
  REQUIRE(world.core(flow.downstream).at("public_state") == "skipped");
  world.real.call("replay_execution", {{"execution", flow.downstream}});
  world.take("claim_execution", flow.downstream, "again", 60'000, {{"lane", "downstream"}});
  world.pass(600);

  CHECK(world.tick("execution_deadline").empty());
  CHECK(world.real.refusal("complete", {{"handle", "again"}}).empty());
}

TEST_CASE("a retry with backoff is promoted when it is over, and keeps the deadline") {
  for (const std::string& failed_by : three_claims()) {
    for (const std::string& judge : three_claims()) {
      INFO(failed_by << ", then " << judge);
      World world;
      const std::string execution = world.execution({{"deadline_in_ms", 3'600'000}});
      const Json deadline = world.core(execution).at("deadline_at_ms");
      world.take(failed_by, execution);
      world.real.call("fail_execution", {{"handle", "h"}, {"max_retries", 3}, {"backoff_ms", 1}});
      REQUIRE(world.core(execution).at("public_state") == "delayed");

      CHECK(world.tick("delayed_promoter") == "promoted=1");

      CHECK(world.core(execution).at("deadline_at_ms") == deadline);
      CHECK(world.core(execution).at("public_state") == "waiting");
      CHECK(world.core(execution).at("blocking_reason").is_null());
      CHECK(world.taken_by(judge, execution).empty());
    }
  }
}

TEST_CASE("a retry with backoff is not promoted before it is over, not even by a deadline") {
  World world;
  const std::string execution = world.execution({{"deadline_in_ms", 1}});
  world.take("claim", execution);
  world.real.call("fail_execution", {{"handle", "h"}, {"max_retries", 3}, {"backoff_ms", 3'600'000}});

  CHECK(world.tick("delayed_promoter").empty());
  CHECK(world.core(execution).at("eligibility_state") == "not_eligible_until_time");
  CHECK(world.core(execution).at("deadline_at_ms").is_number());
}

TEST_CASE("an operator's resume with a delay is promoted at once, and keeps the deadline") {
  for (const std::string& taken_by : three_claims()) {
    INFO(taken_by);
    World world;
    const std::string execution = world.execution({{"deadline_in_ms", 3'600'000}});
    const Json deadline = world.core(execution).at("deadline_at_ms");
    world.take(taken_by, execution);
    world.real.call("suspend", {{"handle", "h"}});
    world.real.call("resume_execution", {{"execution", execution}, {"resume_delay_ms", 60'000}});

    CHECK(world.tick("delayed_promoter") == "promoted=1");

    CHECK(world.core(execution).at("deadline_at_ms") == deadline);
    CHECK(world.core(execution).at("blocking_reason").is_null());
    CHECK(world.taken_by("claim", execution).empty());
  }
}

// FlowFabric's own attempt_timeout retries without telling the SDK, which claims the attempt before once more.
TEST_CASE("an operator's resume with a delay is promoted also below an attempt that was interrupted") {
  World world;
  const std::string execution = world.execution({{"max_retries", 5}});
  world.take("claim", execution);
  world.real.call("fail", {{"handle", "h"}, {"class", "transient"}});
  world.take("claim", execution, "late", 1);
  world.pass();
  world.real.call("scan", {{"name", "attempt_timeout"}, {"partitions", {0}}});
  REQUIRE(world.attempt(execution, 1).at("outcome") == "interrupted");
  world.take("claim_execution", execution, "below", 60'000, {{"attempt", 0}});
  world.real.call("suspend", {{"handle", "below"}});
  world.real.call("resume_execution", {{"execution", execution}, {"resume_delay_ms", 60'000}});
  REQUIRE(world.core(execution).at("deadline_at_ms").is_null());

  CHECK(world.tick("delayed_promoter") == "promoted=1");

  CHECK(world.taken_by("claim", execution).empty());
}

TEST_CASE("a reason that an earlier backoff left does not cut a later delay short") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  world.real.call("fail_execution", {{"handle", "h"}, {"max_retries", 3}, {"backoff_ms", 1}});
  // Ended and replayed, it has the reason still: FlowFabric leaves it where it is.
  world.real.call("cancel", {{"handle", "h"}});
  world.real.call("replay_execution", {{"execution", execution}});
  world.take("claim", execution);
  world.real.call("delay", {{"handle", "h"}, {"delay_in_ms", 3'600'000}});
  REQUIRE(world.core(execution).at("blocking_reason") == "waiting_for_retry_backoff");

  CHECK(world.tick("delayed_promoter").empty());
  CHECK(world.core(execution).at("eligibility_state") == "not_eligible_until_time");
}

// claim_from_resume_grant takes whatever has no lease, delayed or not, and leaves public_state and the reason.
TEST_CASE("what the delay before was for does not cut a later one short") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  SECTION("a backoff") {
    world.real.call("fail_execution", {{"handle", "h"}, {"max_retries", 3}, {"backoff_ms", 3'600'000}});
  }
  SECTION("a backoff that is over") {
    world.real.call("fail_execution", {{"handle", "h"}, {"max_retries", 3}, {"backoff_ms", 1}});
  }
  SECTION("an operator's resume") {
    world.real.call("suspend", {{"handle", "h"}});
    world.real.call("resume_execution", {{"execution", execution}, {"resume_delay_ms", 60'000}});
  }
  world.real.call("claim_from_resume_grant", {{"execution", execution}, {"as", "next"}});
  world.real.call("delay", {{"handle", "next"}, {"delay_in_ms", 3'600'000}});
  REQUIRE(world.core(execution).at("public_state") == "delayed");

  CHECK(world.tick("delayed_promoter").empty());

  world.connection.execute("UPDATE ff_exec_core SET deadline_at_ms = 1");
  CHECK(world.tick("delayed_promoter") == "promoted=1");
  CHECK(world.core(execution).at("deadline_at_ms").is_null());
  CHECK(world.taken_by("claim", execution).empty());
}

TEST_CASE("a backoff without end does not end") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  world.real.call("fail_execution",
                  {{"handle", "h"}, {"max_retries", 3}, {"backoff_ms", 9'000'000'000'000'000'000}});
  REQUIRE(world.core(execution).at("raw_fields").at("delay_until").get<std::string>().size() == 19);

  CHECK(world.tick("delayed_promoter").empty());
}

TEST_CASE("a release after a reset gives back nothing of what was spent before it") {
  World world;
  const Json made = world.real.call(
      "create_budget", {{"partition", 5}, {"hard", {{"tokens", 100}}}, {"reset_interval_ms", 1}});
  const Json budget = made.at("budget");
  const std::string early = world.execution();
  const std::string late = world.execution();
  const auto spend = [&](const std::string& execution, int tokens) {
    world.real.call("record_spend",
                    {{"budget", budget}, {"execution", execution}, {"deltas", {{"tokens", tokens}}}});
  };
  const auto usage = [&] {
    return world.real.call("budget_status", {{"budget", budget}}).at("usage").at("tokens");
  };
  spend(early, 40);
  CHECK(usage() == 40);

  CHECK(world.tick("budget_reset") == "reset=1");
  CHECK(usage() == 0);
  spend(late, 7);
  world.real.call("release_budget", {{"budget", budget}, {"execution", early}});
  CHECK(usage() == 7);
  world.real.call("release_budget", {{"budget", budget}, {"execution", late}});
  CHECK(usage() == 0);
}

TEST_CASE("a silent worker is swept, and one that beats is not") {
  World world;
  world.real.call("register_worker", {{"instance", "silent"}, {"ttl_ms", 1}});
  world.real.call("register_worker", {{"instance", "beating"}, {"ttl_ms", 60'000}});
  EngineOptions everywhere;
  everywhere.partitions = partition_range({0}, {255});

  CHECK(world.tick("worker_registry_ttl", everywhere) == "swept=1");
  CHECK(world.real.call("heartbeat_worker", {{"instance", "silent"}}).at("outcome") == "NotRegistered");
  CHECK(world.real.call("heartbeat_worker", {{"instance", "beating"}}).at("outcome") != "NotRegistered");
}
