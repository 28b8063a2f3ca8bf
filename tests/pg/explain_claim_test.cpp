// What `explain` says of who may claim an execution, and by which of FlowFabric's calls.
#include <catch2/catch.hpp>

#include "explain_stage.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("explain names the calls that take what was promised, which claim_execution refuses") {
  ExplainStage stage;
  const auto promised = [&](State state, std::int64_t ends_in_ms) {
    state.eligibility_state = "pending_claim";
    const Uuid id = stage.core(in_state(state));
    if (ends_in_ms != 0) stage.grant(id, "claim", ends_in_ms);
    return found_of(stage, id);
  };
  State state = runnable();
  state.attempt_state = "pending_first_attempt";
  CHECK_THAT(next_of(promised(state, kHour), "claim_promised"),
             Catch::StartsWith("claim it by FlowFabric's issue_grant_and_claim, or wait: grant_expiry "));
  stage.db.execute("DELETE FROM ff_claim_grant");
  state.attempt_state = "pending";
  CHECK_THAT(next_of(promised(state, kHour), "claim_promised"), Catch::StartsWith("wait: grant_expiry "));
  stage.db.execute("DELETE FROM ff_claim_grant");
  state.attempt_state = "attempt_interrupted";
  state.public_state = "resumable";
  CHECK_THAT(next_of(promised(state, kHour), "claim_promised"),
             Catch::StartsWith(
                 "claim it by FlowFabric's claim_resumed_execution or issue_grant_and_claim, or wait: "));
}

TEST_CASE("explain takes no grant for ended that never ends") {
  ExplainStage stage;
  const Uuid id = core_with(stage, in_state(runnable()), "eligibility_state = 'pending_claim'");
  stage.grant(id, "claim", -stage.now);
  const Found found = found_of(stage, id);
  CHECK_THAT(text_of(found, "claim_promised"), Catch::EndsWith("the grant never ends"));
  CHECK(finding(found, "claim_abandoned") == nullptr);
}

TEST_CASE("explain names whom FlowFabric's claim gives up at before it comes to an execution") {
  ExplainStage stage;
  const Uuid id = stage.core({.state = runnable(), .created_at_ms = 7});
  const Uuid first = stage.core({.state = runnable(), .created_at_ms = 5});
  CHECK(finding(found_of(stage, id), "behind_another") == nullptr);
  stage.set(first, "required_capabilities = '{gpu}'");
  const Found found = found_of(stage, id);
  CHECK_THAT(text_of(found, "behind_another"),
             Catch::StartsWith(to_string(ExecutionId{{3}, first})) && Catch::Contains("capabilities gpu"));
  CHECK_THAT(text_of(found, "unclaimed"), Catch::StartsWith("any worker may claim it after that one"));
  CHECK(finding(found_of(stage, first), "behind_another") == nullptr);
  const auto worker = [&](const char* lanes) {
    insert(stage.db, "ff_worker_registry",
           {{"partition_key", 3},
            {"namespace", "ns"},
            {"worker_instance_id", lanes},
            {"worker_id", "w"},
            {"lanes", lanes},
            {"capabilities_csv", "cpu,gpu"},
            {"last_heartbeat_ms", stage.now},
            {"liveness_ttl_ms", 600'000},
            {"registered_at_ms", stage.now}});
  };
  worker("{other}");
  CHECK(finding(found_of(stage, id), "behind_another") != nullptr);
  worker("{default}");
  CHECK(finding(found_of(stage, id), "behind_another") == nullptr);
}

TEST_CASE("explain advises no tick of dependency before an event is left to it") {
  ExplainStage stage;
  stage.settings["dependency"] = {{"stale_threshold", kHour}};
  const FanIn made = fan_in(stage, {});
  end_upstream(stage.db, made, 0);
  for (const auto& [id, cause] : {std::pair{made.downstream, "upstream_not_dispatched"},
                                  std::pair{made.upstreams[0], "end_not_dispatched"}})
    CHECK_THAT(next_of(found_of(stage, id), cause),
               Catch::StartsWith("wait: dependency passes it on, due in 5"));
}
