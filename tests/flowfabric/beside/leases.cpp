// Leases that have lapsed.
#include "beside/lines.hpp"

namespace ff::test {
namespace {

constexpr std::int64_t kAtOnce = 1;

std::string or_taken(const std::string& refusal) {
  return refusal.empty() ? "taken" : refusal;
}

std::string lapsed(Side& side, const std::string& way = "claim", const Json& more = {}) {
  const std::string execution = side.world.execution(more);
  side.world.take(way, execution, "late", kAtOnce);
  return execution;
}

std::string late_renew(Side& side) {
  lapsed(side);
  side.scan("lease_expiry");
  return or_taken(side.world.real.refusal("renew", {{"handle", "late"}}));
}

std::string retry_of_a_typed_claim(Side& side) {
  const std::string execution = lapsed(side, "claim_execution", {{"max_retries", 1}});
  side.scan("attempt_timeout");
  return side.world.core(execution).at("lifecycle_phase");
}

// Who holds the execution in the end?
std::string reclaim_grant(Side& side) {
  World& world = side.world;
  const std::string execution = lapsed(side);
  world.pass();
  world.real.call("issue_reclaim_grant", {{"execution", execution}, {"worker", "w2"}});
  side.scan("lease_expiry");
  const Json other = world.real.call("claim", {{"as", "other"}});
  const std::string reclaimed =
      world.real.call("reclaim_execution", {{"execution", execution}, {"worker", "w2"}, {"as", "w2"}})
          .at("outcome");
  return std::string(other.is_null() ? "nothing" : "claimed") + ", " + reclaimed;
}

std::string claim_of_what_is_reclaimed(Side& side) {
  const std::string execution = lapsed(side);
  side.scan("lease_expiry");
  side.world.real.call("write_grant", {{"execution", execution}});
  return or_taken(side.world.real.refusal("claim_execution", {{"execution", execution}, {"as", "next"}}));
}

std::string event_of_a_timeout(Side& side) {
  lapsed(side, "claim", {{"namespace", "ours"}, {"tags", {{"cairn.instance_id", "i1"}}}});
  side.scan("attempt_timeout");
  const Json event = completion_events(side.world.connection).at(0);
  return event.at("namespace").dump() + " " + event.at("instance_tag").dump();
}

std::string public_state(Side& side) {
  const std::string execution = lapsed(side);
  side.scan("lease_expiry");
  return side.world.core(execution).at("public_state");
}

std::string older_attempt(Side& side) {
  World& world = side.world;
  const std::string execution = lapsed(side);
  world.pass();
  world.real.call("issue_reclaim_grant", {{"execution", execution}});
  world.real.call("reclaim_execution", {{"execution", execution}, {"as", "healthy"}});
  side.scan("attempt_timeout");
  return world.core(execution).at("lifecycle_phase");
}

std::string crash_loop(Side& side) {
  const std::string execution = side.world.execution();
  for (int crash = 0; crash < 6; ++crash) {
    side.world.real.call("claim", {{"as", "late"}, {"ttl_ms", kAtOnce}});
    side.scan("lease_expiry");
    side.scan("attempt_timeout");
  }
  return side.world.core(execution).at("lifecycle_phase");
}

std::string promised_to_nobody(Side& side) {
  side.world.execution();
  side.world.real.call("claim_for_worker", {{"grant_ttl_ms", kAtOnce}});
  side.world.pass();
  side.look_all();
  return side.world.real.call("claim", {{"as", "other"}}).is_null() ? "nothing" : "claimed";
}

std::string old_grant(Side& side) {
  const std::string execution = side.world.execution();
  side.world.real.call("write_grant", {{"execution", execution}, {"grant_ttl_ms", kAtOnce}});
  side.world.pass();
  side.look_all();
  side.world.real.call("write_grant", {{"execution", execution}});
  return or_taken(side.world.real.refusal("claim_execution", {{"execution", execution}, {"as", "next"}}));
}

}  // namespace

std::vector<Line> lines_of_leases() {
  return {{"the epoch stays when a lease is taken", late_renew, "taken", "Contention.LeaseConflict"},
          {"the current attempt is the one the execution's row names", retry_of_a_typed_claim, "terminal",
           "runnable"},
          {"a lapsed lease is taken though a reclaim grant is out for it", reclaim_grant, "claimed, claimed",
           "nothing, claimed"},
          {"what is reclaimed says `attempt_interrupted`", claim_of_what_is_reclaimed,
           "Contention.ExecutionNotLeaseable", "taken"},
          {"completion events of time-outs carry no namespace and no tag", event_of_a_timeout, "null null",
           "\"ours\" \"i1\""},
          {"`public_state` stays as it was", public_state, "running", "waiting"},
          {"a lapsed lease on an older attempt ends the execution", older_attempt, "terminal", "active"},
          {"two scanners race for a lapsed lease", crash_loop, "runnable", "terminal"},
          {"an execution that the scheduler has granted waits for its claimer for ever", promised_to_nobody,
           "nothing", "claimed"},
          {"a grant that has ended stays, and a claim with a new one is refused for it", old_grant,
           "Contention.ClaimGrantExpired", "taken"}};
}

}  // namespace ff::test
