// Lapsed leases of real workers, and what real claims say of them afterwards.
#include <array>

#include "world.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr std::int64_t kLapsesAtOnce = 1;

}  // namespace

TEST_CASE("a lapsed lease of every claim is reclaimed, and every claim takes the same attempt") {
  for (const std::string& lost_by : three_claims()) {
    for (const std::string& judge : three_claims()) {
      INFO(lost_by << ", then " << judge);
      World world;
      const std::string execution = world.execution();
      world.take(lost_by, execution, "late", kLapsesAtOnce);

      CHECK(world.tick("lease_expiry") == "reclaimable=1");

      CHECK(world.states(execution) == "runnable unowned eligible_now waiting pending_retry_attempt");
      CHECK(world.real.refusal("renew", {{"handle", "late"}}) == "Contention.LeaseConflict");
      CHECK(world.lease_events_of(execution, "expired") == 1);
      const Json lease = world.take(judge, execution, "next");
      CHECK(lease.at("attempt") == 0);
      CHECK(lease.at("epoch") == 3);
      world.real.call("complete", {{"handle", "next"}});
      CHECK(world.ends_of(execution, "success") == 1);
    }
  }
}

TEST_CASE("a lapsed lease of every claim is retried, and every claim takes the next attempt") {
  for (const std::string& lost_by : three_claims()) {
    for (const std::string& judge : three_claims()) {
      INFO(lost_by << ", then " << judge);
      World world;
      const std::string execution = world.execution({{"max_retries", 1}});
      world.take(lost_by, execution, "late", kLapsesAtOnce);

      CHECK(world.tick("attempt_timeout") == "retried=1");

      CHECK(world.attempt(execution).at("outcome") == "interrupted");
      CHECK(world.real.refusal("renew", {{"handle", "late"}}) == "Contention.LeaseConflict");
      const Json lease = world.take(judge, execution, "next");
      CHECK(lease.at("attempt") == 1);
      world.real.call("complete", {{"handle", "next"}});
    }
  }
}

TEST_CASE("a crash loop spends the retries of its execution, whichever way it claims") {
  for (const std::string& way : three_claims()) {
    INFO(way);
    World world;
    const std::string execution = world.execution({{"max_retries", 2}});
    for (const char* outcome : {"retried=1", "retried=1", "expired=1"}) {
      world.take(way, execution, "late", kLapsesAtOnce);
      CHECK(world.tick("attempt_timeout") == outcome);
    }
    CHECK(world.states(execution) == "terminal unowned not_applicable expired attempt_terminal");
    CHECK(world.attempt(execution, 2).at("outcome") == "interrupted");
    CHECK(world.ends_of(execution, "expired") == 1);
  }
}

TEST_CASE("a renewal that comes behind a delay costs the execution none of its reclaims") {
  const EngineOptions together{.together_with = {{"attempt_timeout", {}}, {"lease_expiry", {}}}};
  World world;
  const std::string execution = world.execution();
  for (int round = 0; round < 4; ++round) {
    world.take("claim", execution, "h");
    world.real.call("delay", {{"handle", "h"}, {"delay_in_ms", 1}});
    // It asks for the epoch only, which a delay leaves as it is.
    world.real.call("renew", {{"handle", "h"}});
    world.connection.execute("UPDATE ff_attempt SET lease_expires_at_ms = 5");
    CHECK(world.tick("lease_expiry", together) == "released=1");
    CHECK(world.tick("delayed_promoter") == "promoted=1");
  }
  world.take("claim", execution, "late", kLapsesAtOnce);

  CHECK(world.tick("attempt_timeout", together).empty());
  CHECK(world.tick("lease_expiry", together) == "reclaimable=1");
}

TEST_CASE("a typed claim that crashes is reclaimed max_reclaims times, and then its retries are spent") {
  const EngineOptions together{.together_with = {{"attempt_timeout", {}}, {"lease_expiry", {}}}};
  // Whoever comes first leaves what is the other's.
  for (const std::array order :
       {std::array{"lease_expiry", "attempt_timeout"}, std::array{"attempt_timeout", "lease_expiry"}}) {
    INFO(order[0] << " first");
    World world;
    const std::string execution = world.execution({{"max_retries", 1}});
    std::string seen;
    for (int crash = 0; crash < 8; ++crash) {
      world.take("claim_execution", execution, "late", kLapsesAtOnce);
      for (const char* reconciler : order) seen += world.tick(reconciler, together);
      seen += ' ';
      if (world.core(execution).at("lifecycle_phase") == "terminal") break;
    }
    CHECK(seen ==
          "reclaimable=1 reclaimable=1 reclaimable=1 retried=1 reclaimable=1 reclaimable=1 reclaimable=1 "
          "expired=1 ");
  }
}

TEST_CASE("a live lease below a dead attempt is the current one") {
  World world;
  const std::string execution = world.execution({{"max_retries", 5}});
  for (int crash = 0; crash < 2; ++crash) {
    world.take("claim", execution);
    world.real.call("fail", {{"handle", "h"}});
  }
  world.take("claim_execution", execution, "below", 60'000, {{"attempt", 0}});
  CHECK(world.tick("lease_expiry").empty());
  CHECK(world.tick("attempt_timeout").empty());
  CHECK(world.real.refusal("renew", {{"handle", "below"}}).empty());

  world.real.call("renew_lease", {{"handle", "below"}, {"ttl_ms", kLapsesAtOnce}});
  CHECK(world.tick("lease_expiry") == "reclaimable=1");
  CHECK(world.attempt(execution, 1).at("outcome") == "retry");
  CHECK(world.take("claim_execution", execution, "next").at("attempt") == 0);
}

TEST_CASE("the deadline of a typed claim fences the worker, which ends nothing a second time") {
  for (const std::string& way : three_claims()) {
    INFO(way);
    World world;
    const std::string execution = world.execution({{"deadline_in_ms", 1}});
    world.take(way, execution);

    CHECK(world.tick("execution_deadline") == "expired=1");

    CHECK(world.real.refusal("complete", {{"handle", "h"}}) == "Contention.LeaseConflict");
    CHECK(world.real.refusal("complete_execution", {{"handle", "h"}}) == "Contention.ExecutionNotActive");
    CHECK(world.attempt(execution).at("outcome") == "interrupted");
    CHECK(world.lease_events_of(execution, "expired") == 1);
    CHECK(world.ends_of(execution, "expired") == 1);
    CHECK(world.ends_of(execution, "success") == 0);
  }
}

TEST_CASE("a deadline invents no lease event for an attempt without a lease, which keeps its outcome") {
  World world;
  const std::string execution = world.execution({{"deadline_in_ms", 1}});
  world.take("claim", execution);
  world.real.call("fail", {{"handle", "h"}});
  const std::int64_t ended_at = world.attempt(execution).at("terminal_at_ms");

  CHECK(world.tick("execution_deadline", {.settings = {{"include_waiting", 1}}}) == "expired=1");

  CHECK(world.lease_events_of(execution, "expired") == 0);
  CHECK(world.attempt(execution).at("outcome") == "retry");
  CHECK(world.attempt(execution).at("terminal_at_ms") == ended_at);
}

TEST_CASE("a lapsed lease for which a reclaim grant is out is left to whom it was granted") {
  World world;
  const std::string execution = world.execution({{"max_retries", 3}});
  world.take("claim", execution, "late", kLapsesAtOnce);
  world.pass();
  const Json grant = world.real.call("issue_reclaim_grant", {{"execution", execution}, {"worker", "w2"}});
  REQUIRE(grant.at("outcome") == "granted");

  CHECK(world.tick("lease_expiry").empty());
  CHECK(world.tick("attempt_timeout").empty());

  const Json lease =
      world.real.call("reclaim_execution", {{"execution", execution}, {"worker", "w2"}, {"as", "h2"}});
  CHECK(lease.at("outcome") == "claimed");
  CHECK(world.real.refusal("renew", {{"handle", "h2"}}).empty());
  CHECK(world.real.call("claim").is_null());
}

TEST_CASE("once the reclaim grant has lapsed, too, the lease is taken back") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution, "late", kLapsesAtOnce);
  world.pass();
  world.real.call("issue_reclaim_grant", {{"execution", execution}, {"worker", "w2"}, {"grant_ttl_ms", 1}});
  world.pass();

  CHECK(world.tick("lease_expiry") == "reclaimable=1");
  CHECK(world.taken_by("claim", execution).empty());
}

TEST_CASE("the lease that a reclaim leaves on the old attempt is cleared without an event") {
  for (const std::string reconciler : {"lease_expiry", "attempt_timeout"}) {
    INFO(reconciler);
    World world;
    const std::string execution = world.execution();
    world.take("claim", execution, "late", kLapsesAtOnce);
    world.pass();
    world.real.call("issue_reclaim_grant", {{"execution", execution}});
    world.real.call("reclaim_execution", {{"execution", execution}, {"as", "h2"}});

    CHECK(world.tick(reconciler) == "stale_cleared=1");

    CHECK(world.attempt(execution).at("outcome") == "interrupted_reclaimed");
    CHECK(world.lease_events_of(execution, "expired") == 0);
    CHECK(world.core(execution).at("ownership_state") == "leased");
    CHECK(world.real.refusal("complete", {{"handle", "h2"}}).empty());
  }
}

TEST_CASE("a lease that an operator's cancel left behind is released, and the execution has no owner") {
  World world;
  const std::string execution = world.execution();
  world.take("claim_execution", execution, "late", kLapsesAtOnce);
  world.real.call("cancel_execution", {{"execution", execution}});
  REQUIRE(world.attempt(execution).at("lease_expires_at_ms").is_number());

  CHECK(world.tick("lease_expiry") == "released=1");

  CHECK(world.core(execution).at("lifecycle_phase") == "cancelled");
  CHECK(world.core(execution).at("ownership_state") == "unowned");
  CHECK(world.attempt(execution).at("lease_expires_at_ms").is_null());
  CHECK(world.lease_events_of(execution, "expired") == 1);
}

TEST_CASE("a lease that the cancel of a flow left behind is released, and the member has no owner") {
  World world;
  const Json flow = world.real.call("create_flow", {{"partition", 2}}).at("flow");
  const std::string execution = world.execution({{"flow", flow}});
  world.take("claim", execution, "late", kLapsesAtOnce);
  world.real.call("cancel_flow", {{"flow", flow}});
  REQUIRE(world.core(execution).at("ownership_state") == "leased");

  CHECK(world.tick("lease_expiry") == "released=1");

  CHECK(world.core(execution).at("lifecycle_phase") == "cancelled");
  CHECK(world.core(execution).at("ownership_state") == "unowned");
}

TEST_CASE("a lease that a worker's cancel left behind is released, and what is replayed can be claimed") {
  for (const std::string& judge : three_claims()) {
    INFO(judge);
    World world;
    const std::string execution = world.execution();
    world.take("claim_execution", execution, "late", kLapsesAtOnce);
    world.real.call("cancel", {{"handle", "late"}});
    world.real.call("replay_execution", {{"execution", execution}});

    CHECK(world.tick("lease_expiry") == "released=1");

    CHECK(world.taken_by(judge, execution).empty());
    CHECK(world.ends_of(execution, "success") == 1);
  }
}

TEST_CASE("a replayed execution is not ended by the deadline of its former run") {
  World world;
  const std::string execution = world.execution({{"deadline_in_ms", 1}});
  world.take("claim", execution);
  world.real.call("complete", {{"handle", "h"}});
  world.pass();
  world.real.call("replay_execution", {{"execution", execution}});
  world.take("claim", execution);

  CHECK(world.tick("execution_deadline").empty());
  CHECK(world.real.refusal("complete", {{"handle", "h"}}).empty());
}

TEST_CASE("a deadline that was still ahead at the replay holds") {
  World world;
  const std::string execution = world.execution({{"deadline_in_ms", 3'600'000}});
  world.take("claim", execution);
  world.real.call("complete", {{"handle", "h"}});
  world.real.call("replay_execution", {{"execution", execution}});
  world.take("claim", execution);
  CHECK(world.tick("execution_deadline").empty());
  world.connection.execute(
      "UPDATE ff_exec_core SET deadline_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)");

  CHECK(world.tick("execution_deadline") == "expired=1");
  CHECK(world.real.refusal("complete", {{"handle", "h"}}) == "Contention.LeaseConflict");
}

TEST_CASE("what a replay begins is given back at once, though the run before would have had to wait") {
  const EngineOptions delayed{.delays_reclaims = true};
  World world;
  const std::string execution = world.execution();
  const auto lapse = [&] {
    world.take("claim", execution, "h", kLapsesAtOnce);
    return world.tick("lease_expiry", delayed);
  };
  CHECK(lapse() == "reclaimable=1");
  CHECK(lapse().empty());
  world.real.call("fail", {{"handle", "h"}, {"class", "permanent"}});
  world.real.call("replay_execution", {{"execution", execution}});

  CHECK(lapse() == "reclaimable=1");
  CHECK(lapse().empty());
}

TEST_CASE("what a replay begins has all its reclaims before it, however often the run before was reclaimed") {
  const EngineOptions together{.together_with = {{"attempt_timeout", {}}, {"lease_expiry", {}}}};
  const bool ends_itself = GENERATE(true, false);
  CAPTURE(ends_itself);
  World world;
  const std::string execution = world.execution();
  const auto lapse = [&] {
    world.take("claim", execution, "late", kLapsesAtOnce);
    return world.tick("lease_expiry", together) + world.tick("attempt_timeout", together);
  };
  for (int run = 0; run < 3; ++run) {
    for (int crash = 0; crash < 3; ++crash) CHECK(lapse() == "reclaimable=1");
    if (ends_itself) {
      world.take("claim", execution);
      world.real.call("fail", {{"handle", "h"}, {"class", "permanent"}});
    } else {
      CHECK(lapse() == "expired=1");
    }
    REQUIRE(world.core(execution).at("lifecycle_phase") == "terminal");
    world.real.call("replay_execution", {{"execution", execution}});
  }
  CHECK(world.taken_by("claim", execution).empty());
}
