// What the end of one execution means to others.
#include "beside/lines.hpp"
#include "flow.hpp"

namespace ff::test {
namespace {

const Json kAnyOf{{"policy", "any_of"}, {"on_satisfied", "let_run"}};

std::string or_taken(const std::string& refusal) {
  return refusal.empty() ? "taken" : refusal;
}

std::string eligibility(World& world, const std::string& execution) {
  return world.core(execution).at("eligibility_state");
}

// A sibling that works and one that is suspended, no longer needed.
std::string cancelled_siblings(Side& side) {
  World& world = side.world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "cancel_remaining"}}, 3);
  flow.claim("u1", "working");
  flow.claim("u2", "suspended");
  world.real.call("suspend", {{"handle", "suspended"}});
  flow.succeeds(0);
  side.scan("dependency");
  side.scan("edge_cancel_dispatcher");
  std::string text = world.suspension(flow.upstream[2]).is_null() ? "no suspension, " : "suspended, ";
  text += std::to_string(world.waitpoints(flow.upstream[2])) + " waitpoints, ";
  for (const std::size_t sibling : {1U, 2U})
    text += std::to_string(world.ends_of(flow.upstream[sibling], "cancelled")) + " told, ";
  return text + or_taken(world.real.refusal("complete", {{"handle", "working"}}));
}

std::string second_success(Side& side) {
  Flow flow(side.world, kAnyOf);
  flow.succeeds(0);
  side.scan("dependency");
  flow.claim("downstream", "h");
  side.world.real.call("delay", {{"handle", "h"}, {"delay_in_ms", 3'600'000}});
  flow.succeeds(1);
  side.scan("dependency");
  return eligibility(side.world, flow.downstream);
}

std::string children_that_had_ended(Side& side) {
  Flow flow(side.world);
  flow.claim("downstream", "parent");
  flow.succeeds(0);
  flow.succeeds(1);
  side.scan("dependency");
  side.world.real.call("wait_children", {{"handle", "parent"}});
  side.look_all();
  return eligibility(side.world, flow.downstream);
}

std::string impossible_downstream(Side& side) {
  Flow flow(side.world);
  flow.claim("downstream", "working");
  flow.fails(0);
  side.scan("dependency");
  const std::string refusal = side.world.real.refusal("complete", {{"handle", "working"}});
  return or_taken(refusal) + ", " + std::to_string(side.world.ends_of(flow.downstream, "success")) +
         " success";
}

// Both had ended, and an operator brings both back.
std::string replayed_downstream(Side& side) {
  World& world = side.world;
  Flow flow(world, {{"policy", "all_of"}}, 1);
  flow.fails(0);
  side.scan("dependency");
  for (const std::string& each : {flow.upstream[0], flow.downstream})
    world.real.call("replay_execution", {{"execution", each}});
  flow.claim("downstream", "working");
  flow.succeeds(0);
  side.scan("dependency");
  const std::string state = world.core(flow.downstream).at("public_state");
  return state + ", " + or_taken(world.real.refusal("complete", {{"handle", "working"}}));
}

// A second edge between the same two, staged and applied when the first has been counted.
std::string edge_after_the_end(Side& side) {
  Flow flow(side.world);
  flow.claim("downstream", "parent");
  side.world.real.call("wait_children", {{"handle", "parent"}});
  flow.succeeds(0);
  side.scan("dependency");
  flow.edge(0);
  flow.succeeds(1);
  side.scan("dependency");
  side.look_all();
  return eligibility(side.world, flow.downstream);
}

// The one that decides it had ended, and been told of, before its edge was applied. The other lives on.
std::string deciding_edge_after_the_end(Side& side) {
  World& world = side.world;
  Flow flow(world, {{"policy", "any_of"}, {"on_satisfied", "cancel_remaining"}}, 1);
  flow.upstream.push_back(world.execution({{"flow", flow.id}, {"lane", "u1"}}));
  flow.succeeds(1);
  side.scan("dependency");
  flow.edge(1);
  flow.claim("downstream", "parent");
  world.real.call("wait_children", {{"handle", "parent"}});
  side.look_all();
  return eligibility(world, flow.downstream);
}

// The header's cancel alone, of a member that works and one that is suspended: its server acknowledged nothing.
std::string cancelled_header(Side& side) {
  World& world = side.world;
  Flow flow(world);
  flow.claim("u0", "working");
  flow.claim("u1", "suspended");
  world.real.call("suspend", {{"handle", "suspended"}});
  world.real.call("cancel_flow_header", {{"flow", flow.id}, {"policy", "cancel_all"}});
  side.look_all();
  std::string text =
      std::to_string(number(world.connection, "SELECT count(*) FROM ff_cancel_backlog_member")) +
      " in the backlog, ";
  for (const std::string& member : flow.upstream)
    text += std::to_string(world.ends_of(member, "cancelled")) + " told, ";
  return text + or_taken(world.real.refusal("complete", {{"handle", "working"}}));
}

// Three that are at work, each cancelled in another way; nothing is left that says so.
std::string cancelled_with_a_lease(Side& side) {
  World& world = side.world;
  std::string text;
  for (const std::string how : {"acknowledged", "cancel_flow", "cancel_execution"}) {
    Flow flow(world, {{"policy", "all_of"}}, 1);
    const std::string& working = flow.upstream[0];
    world.take("claim_execution", working, how, 600'000, {{"lane", "u0"}});
    if (how == "acknowledged") {
      world.real.call("cancel_flow_header", {{"flow", flow.id}, {"policy", "cancel_all"}});
      world.real.call("cancel_execution", {{"execution", working}});
      world.real.call("ack_cancel_member", {{"flow", flow.id}, {"execution", working}});
    } else if (how == "cancel_flow") {
      world.real.call("cancel_flow", {{"flow", flow.id}, {"policy", "cancel_all"}});
    } else {
      world.real.call("cancel_execution", {{"execution", working}});
    }
    side.look_all();
    text += (text.empty() ? "" : ", ") + or_taken(world.real.refusal("complete", {{"handle", how}}));
  }
  return text;
}

std::string untold_cancels(Side& side) {
  std::string text;
  for (const bool by_worker : {true, false}) {
    Flow flow(side.world, {{"policy", "all_of"}}, 1);
    flow.claim("u0", "u");
    if (by_worker)
      side.world.real.call("cancel", {{"handle", "u"}});
    else
      side.world.real.call("cancel_execution", {{"execution", flow.upstream[0]}});
    side.look_all();
    text += (text.empty() ? "" : ", ") +
            side.world.core(flow.downstream).at("lifecycle_phase").get<std::string>();
  }
  return text;
}

}  // namespace

std::vector<Line> lines_of_flows() {
  return {
      {"a cancelled sibling keeps its lease, suspension and waitpoints, and nobody hears of its end",
       cancelled_siblings, "suspended, 1 waitpoints, 0 told, 0 told, taken",
       "no suspension, 0 waitpoints, 1 told, 1 told, Contention.LeaseConflict"},
      {"the cancel of a flow whose server dies midway leaves its backlog and its workers, and tells nobody",
       cancelled_header, "3 in the backlog, 0 told, 0 told, taken",
       "0 in the backlog, 1 told, 1 told, Contention.LeaseConflict"},
      {"a member that is acknowledged, one of `cancel_flow`, and what an operator cancels after a typed "
       "claim keep "
       "their leases",
       cancelled_with_a_lease, "taken, taken, taken",
       "Contention.LeaseConflict, Contention.LeaseConflict, Contention.LeaseConflict"},
      {"a cancel by a worker, by an operator or of a flow's header writes no completion event",
       untold_cancels, "runnable, runnable", "terminal, terminal"},
      {"each later success of a satisfied fan-in changes its downstream once more", second_success,
       "eligible_now", "not_eligible_until_time"},
      {"who waits for children that had ended before waits for ever", children_that_had_ended,
       "blocked_by_dependencies", "eligible_now"},
      {"an edge that is applied after its upstream's end counts it as running for ever", edge_after_the_end,
       "blocked_by_dependencies", "eligible_now"},
      {"an end before its edge was applied that decides a fan-in is missed for as long as a sibling lives",
       deciding_edge_after_the_end, "blocked_by_dependencies", "eligible_now"},
      {"a downstream that becomes impossible while it runs or is suspended keeps its lease",
       impossible_downstream, "taken, 1 success", "Contention.LeaseConflict, 0 success"},
      {"a replayed downstream of a failed fan-in is ended once more by each end of an upstream",
       replayed_downstream, "skipped, taken", "running, taken"}};
}

}  // namespace ff::test
