// How rows are looked for and taken.
#include "beside/lines.hpp"
#include "flow.hpp"

namespace ff::test {
namespace {

constexpr std::int64_t kAtOnce = 1;
constexpr const char* kHoldAttempts = "SELECT FROM ff_attempt FOR UPDATE";
constexpr const char* kHoldGroups = "SELECT FROM ff_edge_group FOR UPDATE";

// Foreign executions whose leases lapsed before all others, as far as a scan and its filter look at them.
constexpr const char* kForeign = R"(
  WITH foreign_ones AS (
    INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                              public_state, attempt_state, created_at_ms, raw_fields)
    SELECT 0, gen_random_uuid(), 'default', 'active', 'leased', 'not_applicable', 'running', 'running_attempt', 1,
           '{"namespace": "foreign"}' FROM generate_series(1, 1000)
    RETURNING partition_key, execution_id)
  INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, lease_expires_at_ms)
  SELECT partition_key, execution_id, 0, 1 FROM foreign_ones)";

// Groups that have been dispatched, but are listed still.
constexpr const char* kListed = R"(
  WITH listed AS (
    INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
    SELECT 2, gen_random_uuid(), gen_random_uuid(), 1 FROM generate_series(1, 50)
    RETURNING partition_key, flow_id, downstream_eid)
  INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy)
  SELECT partition_key, flow_id, downstream_eid, '{"kind": "all_of"}' FROM listed)";

std::string phase_of(World& world, const std::string& execution) {
  return world.core(execution).at("lifecycle_phase");
}

std::string transactions(Side& side) {
  for (int i = 0; i < 20; ++i) {
    side.world.execution();
    side.world.real.call("claim", {{"as", "h"}, {"ttl_ms", kAtOnce}});
  }
  side.scan("lease_expiry");
  return std::to_string(number(side.world.connection, "SELECT count(DISTINCT xmin::text) FROM ff_attempt"));
}

std::string behind_foreign(Side& side) {
  World& world = side.world;
  world.connection.execute(kForeign);
  const std::string own = world.execution({{"namespace", "own"}});
  world.take("claim", own, "h", kAtOnce);
  side.scan("lease_expiry", "own");
  return phase_of(world, own);
}

std::string error_of_a_filter(Side& side) {
  const std::string own = side.world.execution({{"namespace", "own"}});
  side.world.take("claim", own, "h", kAtOnce);
  return side.look_behind("LOCK ff_exec_core", "lease_expiry", "own");
}

std::string held_row(Side& side) {
  side.world.take("claim", side.world.execution(), "h", kAtOnce);
  return side.look_behind(kHoldAttempts, "lease_expiry");
}

// A delay that is over, a deadline that is, and a waitpoint that has expired: what is left of them, and then when
// FlowFabric is asked for each by name.
std::string timers(Side& side) {
  World& world = side.world;
  const auto taken = [&](const std::string& lane, Json more = Json::object()) {
    more["lane"] = lane;
    const std::string execution = world.execution(more);
    world.take("claim", execution, lane, 60'000, {{"lane", lane}});
    return execution;
  };
  const std::string delayed = taken("delayed");
  world.real.call("delay", {{"handle", "delayed"}, {"delay_in_ms", 1}});
  const std::string ended = taken("ended", {{"deadline_in_ms", 1}});
  const std::string waiting = taken("waiting");
  const Json waitpoint = world.real.call("create_waitpoint", {{"handle", "waiting"}, {"expires_in_ms", 1}});
  const auto left = [&] {
    return world.core(delayed).at("eligibility_state").get<std::string>() + ", " + phase_of(world, ended) +
           ", " + std::to_string(world.waitpoints(waiting)) + " waitpoints";
  };
  side.look_all();
  if (side.ours) return left();
  const std::string by_themselves = left();
  world.real.call("scan", {{"name", "delayed_promoter"}, {"execution", delayed}});
  world.real.call("scan", {{"name", "execution_deadline"}, {"execution", ended}});
  world.real.call(
      "scan",
      {{"name", "close_waitpoint"}, {"execution", waiting}, {"waitpoint", waitpoint.at("waitpoint")}});
  return by_themselves + "; by name " + left();
}

std::string backoff_and_delayed_resume(Side& side) {
  World& world = side.world;
  const std::string failed = world.execution();
  world.take("claim", failed);
  world.real.call("fail_execution", {{"handle", "h"}, {"max_retries", 3}, {"backoff_ms", 1}});
  const std::string resumed = world.execution({{"lane", "r"}});
  world.take("claim", resumed, "r", 60'000, {{"lane", "r"}});
  world.real.call("suspend", {{"handle", "r"}});
  world.real.call("resume_execution", {{"execution", resumed}, {"resume_delay_ms", 1}});
  side.look_all();
  std::string states;
  for (const std::string& execution : {failed, resumed}) {
    if (!side.ours) world.real.call("scan", {{"name", "delayed_promoter"}, {"execution", execution}});
    states += world.core(execution).at("eligibility_state").get<std::string>() + " ";
  }
  return states;
}

std::string broken_cascade(Side& side) {
  Flow flow(side.world);
  flow.succeeds(0);
  side.look_behind(kHoldGroups, "dependency");
  side.scan("dependency");
  return std::to_string(number(side.world.connection, "SELECT sum(success_count) FROM ff_edge_group"));
}

// A fan-in that is satisfied, while a sibling works.
Flow satisfied(Side& side) {
  Flow flow(side.world, {{"policy", "any_of"}, {"on_satisfied", "cancel_remaining"}}, 2,
            {{"namespace", "theirs"}});
  flow.claim("u1", "sibling");
  flow.complete(0);
  return flow;
}

std::string foreign_group(Side& side) {
  const Flow flow = satisfied(side);
  side.scan("edge_cancel_dispatcher", "ours");
  return phase_of(side.world, flow.upstream[1]);
}

std::string behind_listed_groups(Side& side) {
  const Flow flow = satisfied(side);
  side.world.connection.execute(kListed);
  side.scan("edge_cancel_dispatcher");
  return phase_of(side.world, flow.upstream[1]);
}

std::string ledger_of_a_reset_budget(Side& side) {
  World& world = side.world;
  const Json budget =
      world.real
          .call("create_budget", {{"partition", 5}, {"hard", {{"tokens", 100}}}, {"reset_interval_ms", 1}})
          .at("budget");
  const std::string early = world.execution();
  const std::string late = world.execution();
  const auto spend = [&](const std::string& execution, int tokens) {
    world.real.call("record_spend",
                    {{"budget", budget}, {"execution", execution}, {"deltas", {{"tokens", tokens}}}});
  };
  spend(early, 5);
  side.scan("budget_reset");
  spend(late, 7);
  world.real.call("release_budget", {{"budget", budget}, {"execution", early}});
  return world.real.call("budget_status", {{"budget", budget}}).at("usage").at("tokens").dump();
}

// An execution that was admitted, and has ended, for longer than its window; and another that wants its place.
std::string admissions(Side& side) {
  World& world = side.world;
  const Json quota = world.real.call("create_quota_policy", {{"cap", 1}}).at("quota");
  const auto admit = [&](const Json& more) {
    Json arguments{{"quota", quota}, {"execution", world.execution()}, {"cap", 1}, {"window_seconds", 1}};
    arguments.update(more);
    return world.real.call("check_admission", arguments).get<std::string>();
  };
  const std::string first = admit({{"now_ms", now_ms(world.connection) - 120'000}});
  side.look_all();
  return first + ", " + admit(Json::object());
}

std::string window_of_an_idle_quota(Side& side) {
  World& world = side.world;
  const Json quota = world.real.call("create_quota_policy", {{"cap", 1}}).at("quota");
  world.real.call("check_admission", {{"quota", quota},
                                      {"execution", world.execution()},
                                      {"now_ms", now_ms(world.connection) - 2 * 86'400'000}});
  side.look_all();
  if (side.ours) world.tick("quota_window");
  return std::to_string(number(world.connection, "SELECT count(*) FROM ff_quota_window"));
}

}  // namespace

std::vector<Line> lines_of_scans() {
  return {
      {"a transaction of several round trips per row", transactions, "20", "1"},
      {"the filter is applied after the limit, one query per row", behind_foreign, "active", "runnable"},
      {"a database error counts as \"does not match\"", error_of_a_filter, "0 done, no error",
       "0 done, an error"},
      {"waits for row locks", held_row, "0 done, an error", "0 done, no error"},
      {"a delay, a deadline and a waitpoint's expiry are looked at for one named execution only", timers,
       "not_eligible_until_time, active, 1 waitpoints; by name eligible_now, terminal, 0 waitpoints",
       "eligible_now, terminal, 0 waitpoints"},
      {"a back-off and a delayed resume are looked at by nobody", backoff_and_delayed_resume,
       "not_eligible_until_time not_eligible_until_time ", "eligible_now eligible_now "},
      {"the cancel dispatcher ignores the filter", foreign_group, "terminal", "active"},
      {"the cancel dispatcher looks at the same first 50 groups", behind_listed_groups, "active", "terminal"},
      {"a completion event is claimed in one transaction and applied in another", broken_cascade, "0", "1"},
      {"a budget's reset leaves the ledger by execution", ledger_of_a_reset_budget, "2", "7"},
      {"nobody who ends is taken off a quota's count", admissions, "Admitted, ConcurrencyExceeded",
       "Admitted, Admitted"},
      {"a quota's window is swept by its next admission only", window_of_an_idle_quota, "1", "0"}};
}

}  // namespace ff::test
