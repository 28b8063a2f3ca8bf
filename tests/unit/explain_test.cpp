// What is made of the facts, without a database.
#include <catch2/catch.hpp>

#include "explain/finding.hpp"
#include "explain/verdict.hpp"
#include "explain/words.hpp"

using namespace ff;
using namespace ff::explain;

namespace {

constexpr UnixMillis kNow = unix_millis(1'800'000'000'000);

Facts facts_in(const std::string& phase, const std::string& eligibility) {
  Facts facts;
  facts.now = kNow;
  facts.core.emplace();
  facts.core->lifecycle_phase = phase;
  facts.core->eligibility_state = eligibility;
  facts.core->public_state = "waiting";
  return facts;
}

FanIn group(const std::string& kind, std::int64_t k, std::int64_t success, std::int64_t fail,
            std::int64_t skip, std::int64_t running) {
  FanIn fan_in;
  fan_in.kind = kind;
  fan_in.k = k;
  fan_in.success = success;
  fan_in.fail = fail;
  fan_in.skip = skip;
  fan_in.running = running;
  return fan_in;
}

}  // namespace

TEST_CASE("whatever state an execution is in, something is said of it with a next step") {
  for (const char* phase :
       {"submitted", "runnable", "active", "suspended", "blocked", "terminal", "cancelled", "?"})
    for (const char* eligibility :
         {"eligible_now", "not_eligible_until_time", "pending_claim", "blocked_by_dependencies", "blocked",
          "cancelled", "not_applicable", "?"}) {
      CAPTURE(phase, eligibility);
      const auto found = findings(facts_in(phase, eligibility));
      REQUIRE_FALSE(found.empty());
      for (const Finding& finding : found) {
        CHECK_FALSE(finding.text.empty());
        CHECK_FALSE(finding.next.empty());
      }
    }
  CHECK(findings(Facts{}).front().cause == "not_found");
}

TEST_CASE("a fan-in is satisfied or impossible by its policy and its counts") {
  CHECK(group("all_of", 1, 2, 0, 0, 0).satisfied());
  CHECK_FALSE(group("all_of", 1, 1, 0, 0, 1).satisfied());
  CHECK_FALSE(group("all_of", 1, 0, 0, 0, 0).satisfied());
  CHECK(group("all_of", 1, 1, 0, 1, 1).impossible());
  CHECK(group("any_of", 1, 1, 2, 0, 1).satisfied());
  CHECK_FALSE(group("any_of", 1, 0, 1, 0, 1).impossible());
  CHECK(group("any_of", 1, 0, 1, 1, 0).impossible());
  CHECK(group("quorum", 2, 2, 1, 0, 0).satisfied());
  CHECK_FALSE(group("quorum", 2, 1, 1, 0, 1).satisfied());
  CHECK_FALSE(group("quorum", 2, 1, 1, 0, 1).impossible());
  CHECK(group("quorum", 2, 1, 2, 0, 0).impossible());
  // An edge may still come, until one that runs has ended.
  CHECK_FALSE(group("quorum", 2, 0, 0, 0, 1).impossible());
  CHECK_FALSE(group("quorum", 2, 0, 0, 0, 0).impossible());
}

TEST_CASE("the current attempt of an active execution is the latest with a lease, of another the latest") {
  Facts facts = facts_in("active", "not_applicable");
  CHECK(facts.current_attempt() == nullptr);
  facts.attempts.resize(3);
  for (int i = 0; i < 3; ++i) facts.attempts[static_cast<std::size_t>(i)].index = i;
  CHECK(facts.current_attempt()->index == 2);
  facts.attempts[0].lease_expires_at = kNow;
  facts.attempts[1].lease_expires_at = kNow;
  CHECK(facts.current_attempt()->index == 1);
  facts.core->lifecycle_phase = "suspended";
  CHECK(facts.current_attempt()->index == 2);
}

TEST_CASE("an end that FlowFabric left out of public_state is told by its event") {
  CHECK(state("active", "running", "running_attempt", {}) == "running");
  CHECK(state("terminal", "failed", "terminal_failed", "expired") == "failed");
  CHECK(state("terminal", "running", "attempt_terminal", "success") == "completed");
  CHECK(state("cancelled", "suspended", "cancelled", "cancelled") == "cancelled");
  CHECK(state("terminal", "running", "attempt_terminal", {}) == "terminal");

  Facts facts = facts_in("terminal", "not_applicable");
  facts.core->public_state = "running";
  facts.core->attempt_state = "attempt_terminal";
  facts.core->terminal_at = kNow;
  facts.completions = {{2, "resumable", kNow, {}}, {1, "success", kNow, {}}};
  CHECK_THAT(findings(facts).front().text, Catch::StartsWith("it has ended as completed"));
}

TEST_CASE(
    "what a worker completed after its cancel is completed, and what was cancelled after a replay is not") {
  CHECK(state("terminal", "cancelled", "attempt_terminal", "success") == "completed");
  CHECK(state("terminal", "cancelled", "attempt_terminal", {}) == "cancelled");
  CHECK(state("terminal", "cancelled", "cancelled", "success") == "cancelled");
  CHECK(state("cancelled", "cancelled", "cancelled", "success") == "cancelled");
}

TEST_CASE("the deadline of what is delayed is the end of its delay, but for a back-off or a resume") {
  Facts facts = facts_in("runnable", "not_eligible_until_time");
  facts.core->public_state = "delayed";
  CHECK(facts.core->deadline_is_delay());
  facts.core->blocking_reason = "waiting_for_retry_backoff";
  CHECK_FALSE(facts.core->deadline_is_delay());
  facts.core->public_state = "running";  // a reason that was left over
  CHECK(facts.core->deadline_is_delay());
  facts.core->eligibility_state = "eligible_now";
  CHECK_FALSE(facts.core->deadline_is_delay());
}

TEST_CASE("a partition that is not covered comes before all else") {
  Facts facts = facts_in("runnable", "eligible_now");
  facts.covered = false;
  const auto found = findings(facts);
  REQUIRE(found.size() == 2);
  CHECK(found[0].cause == "not_covered");
  CHECK(found[1].cause == "unclaimed");
}

TEST_CASE("that no daemon is there is said") {
  Facts facts = facts_in("runnable", "eligible_now");
  CHECK(findings(facts).front().cause == "unclaimed");
  facts.daemon_seen = false;
  CHECK(findings(facts).front().cause == "no_daemon");
}

TEST_CASE("moments that no clock shows are spoken of, too") {
  CHECK(when(kNow + Milliseconds{12'300}, kNow) == "in 12.3 s");
  CHECK(when(kNow - Milliseconds{61'000}, kNow) == "1 m 1 s ago");
  CHECK_THAT(when(UnixMillis::max(), kNow), Catch::StartsWith("in "));
  CHECK_THAT(when(UnixMillis::min(), kNow), Catch::EndsWith(" ago"));
}
