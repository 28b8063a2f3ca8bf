// What waits for others: for upstreams and children, and for reconcilers that pass on an end.

#include <fmt/format.h>

#include <algorithm>

#include "audit/remedy.hpp"
#include "explain/states.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

constexpr std::size_t kNamed = 3;  // so many upstreams are named in a line

std::string made_eligible(const Facts& facts) {
  return update_core(
      facts.id, "lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', public_state = 'waiting'");
}

// The event that an operator's cancel leaves out. What is too old for completion_repair, and no fan-in of which all have ended, is
// for people.
std::string missing_event(const Facts& facts, const Upstream& silent) {
  const ExecutionId& upstream = silent.id;
  const Inspection* repair = facts.inspection("completion_repair");
  if (repair != nullptr && silent.ended_at &&
      *silent.ended_at >= facts.now - Milliseconds{*repair->settings.at("max_age")})
    return tick("completion_repair", upstream);
  return audit::insert_event_of_end(silent.word_of_end.value_or(""),
                                    fmt::format("WHERE partition_key = {} AND execution_id = '{}'",
                                                upstream.partition.value, to_string(upstream.uuid)));
}

// For so long an event is left to FlowFabric's own dispatcher: a tick would move nothing before.
std::string passed_on(const Facts& facts, const ExecutionId& ended, UnixMillis since) {
  const Inspection* dependency = facts.inspection("dependency");
  if (dependency == nullptr) return tick("dependency", ended);
  const UnixMillis due = since + Milliseconds{*dependency->settings.at("stale_threshold")};
  return due > facts.now ? fmt::format("wait: dependency passes it on, due {}", when(due, facts.now))
                         : tick("dependency", ended);
}

// All who wait for an execution are told of its end in one transaction, and which of them it fails on the server need not say.
void add_undispatched(const Facts& facts, const Upstream& upstream, std::vector<Finding>& found) {
  const bool fails = upstream.passing_on && !upstream.passing_on->error.empty();
  found.push_back(
      {"upstream_not_dispatched",
       fmt::format("{} ended as {}, and nobody has passed that on for {}{}", to_string(upstream.id),
                   upstream.state(), age(*upstream.undispatched_since, facts.now),
                   fails ? fmt::format(": dependency fails on it, for this one or for another that "
                                       "waits for it, and so passes it on to none: {}",
                                       upstream.passing_on->error)
                         : ""),
       fails ? tick("dependency", upstream.id) + " # once what the error names is mended"
             : passed_on(facts, upstream.id, *upstream.undispatched_since)});
}

/// Whose end nobody was told: where as many ends are counted as there were, the event has been deleted since.
const Upstream* without_event(const Facts& facts) {
  if (facts.fan_in->counted() >= facts.ended_upstreams) return nullptr;
  const auto found = std::find_if(
      facts.upstreams.begin(), facts.upstreams.end(),
      [](const Upstream& upstream) { return upstream.ended() && !upstream.staged && upstream.events == 0; });
  return found == facts.upstreams.end() ? nullptr : &*found;
}

/// An edge that no end will ever come over; null: there is none.
const Upstream* broken(const Facts& facts) {
  const auto found = std::ranges::find_if(facts.upstreams, [&](const Upstream& upstream) {
    return upstream.lifecycle_phase.empty() || upstream.id.uuid == facts.id.uuid;
  });
  return found == facts.upstreams.end() ? nullptr : &*found;
}

// What is only staged is counted nowhere.
std::string without_edge(const Facts& facts, const Upstream& upstream) {
  const std::string_view check = upstream.staged                    ? "downstream_missing"
                                 : upstream.lifecycle_phase.empty() ? "upstream_missing"
                                                                    : "edge_to_itself";
  return remedy(
      check, facts.id,
      {{"flow_id", to_string(facts.core->flow.value_or(Uuid{}))}, {"edge_id", to_string(upstream.edge)}});
}

// An edge that is only staged may still decide it, but where one failure is enough.
bool cannot_happen(const Facts& facts) {
  const FanIn& fan_in = *facts.fan_in;
  const bool by_one = fan_in.kind != "any_of" && fan_in.kind != "quorum";
  return fan_in.impossible() && (by_one || !facts.any_staged);
}

// A flow is built edge by edge, and FlowFabric looks at a fan-in only when one of its upstreams ends.
std::string too_few_edges(const Facts& facts) {
  const FanIn& fan_in = *facts.fan_in;
  const std::int64_t all = fan_in.counted() + fan_in.running;
  if (fan_in.kind != "quorum" || fan_in.success + fan_in.running >= fan_in.k || all == 0) return {};
  return fmt::format(
      ": it needs {} successes, and over the {} {} that it has so far {} can come: unless more are applied "
      "before, the next end ends it as skipped",
      fan_in.k, all, all == 1 ? "edge" : "edges", fan_in.success + fan_in.running);
}

// As audit has it, an hour is enough to build a flow.
bool is_being_built(const Facts& facts) {
  return facts.core->created_at > facts.now - std::chrono::hours{1};
}

constexpr const char* kWaitForEdges = "wait: who builds its flow applies its edges one by one";

// Circles that are not met by following the first upstreams for a few steps.
constexpr const char* kMayBeCircle =
    " # who waits for others as well may wait in a circle: ff-reconcilerd audit finds those";

void add_no_edge(const Facts& facts, std::string_view cause, std::vector<Finding>& found) {
  found.push_back({cause, fmt::format("no edge says yet for whom it waits ({})", counts(*facts.fan_in)),
                   is_being_built(facts) ? kWaitForEdges : made_eligible(facts)});
}

// FlowFabric blocks nobody by an edge that is only staged, but who has staged it means it to. A fan-in of any or some that is
// satisfied stays so.
bool waits_for_staged(const Facts& facts) {
  const bool by_some = facts.fan_in && (facts.fan_in->kind == "any_of" || facts.fan_in->kind == "quorum");
  return facts.any_staged && !(by_some && facts.fan_in->satisfied());
}

// More upstreams than are read may stand before it.
std::string apply_or_delete(const Facts& facts, const Upstream* staged) {
  if (const Upstream* its = broken(facts)) return without_edge(facts, *its);
  if (is_being_built(facts)) return kWaitForEdges;
  if (staged == nullptr) return "ff-reconcilerd audit # names an edge that was staged more than an hour ago";
  return remedy(
      "edge_never_applied", facts.id,
      {{"flow_id", to_string(facts.core->flow.value_or(Uuid{}))}, {"edge_id", to_string(staged->edge)}});
}

const Upstream* first_staged(const Facts& facts) {
  const auto found = std::ranges::find_if(facts.upstreams, &Upstream::staged);
  return found == facts.upstreams.end() ? nullptr : &*found;
}

void add_staged(const Facts& facts, std::vector<Finding>& found) {
  const Upstream* staged = first_staged(facts);
  found.push_back({"edge_only_staged",
                   fmt::format("it waits for {} (edge only staged), whose end counts only once the edge is "
                               "applied",
                               staged == nullptr ? "an upstream" : to_string(staged->id)),
                   apply_or_delete(facts, staged)});
}

// What `audit` says of it, of the edge that it would name: who follows the upstreams comes back here.
void add_circle(const Facts& facts, std::vector<Finding>& found) {
  const auto& way = facts.way;
  const auto last = std::ranges::max_element(way, {}, &WaitsFor::edge);
  std::string by;
  for (std::size_t i = 0; i + 1 < way.size() && i < kNamed; ++i)
    by += (by.empty() ? ", here by way of " : ", ") + to_string(way[i].upstream);
  if (way.size() > kNamed + 1) by += fmt::format(" and {} more", way.size() - kNamed - 1);
  const audit::Check& check = audit::check_named("waits_in_circle");
  found.push_back({check.name, fmt::format("{}{} ({})", check.meaning, by, counts(*facts.fan_in)),
                   remedy(check.name, last->downstream,
                          {{"flow_id", to_string(facts.core->flow.value_or(Uuid{}))},
                           {"edge_id", to_string(last->edge)}})});
}

void add_those_at_work(const Facts& facts, bool for_children, std::vector<Finding>& found) {
  const std::string_view cause = for_children ? "waits_for_children" : "waits_for_upstreams";
  if (facts.upstreams.empty()) return add_no_edge(facts, cause, found);
  if (facts.any_staged && facts.fan_in->running == 0) return add_staged(facts, found);
  if (facts.waits_in_circle() && broken(facts) == nullptr) return add_circle(facts, found);
  std::string names;
  const Upstream* first = nullptr;
  std::size_t shown = 0;
  for (const Upstream& upstream : facts.upstreams) {
    if (upstream.ended() || shown == kNamed) continue;
    if (first == nullptr || first->staged) first = &upstream;
    ++shown;
    names += fmt::format("{}{} ({}{})", names.empty() ? "" : ", ", to_string(upstream.id),
                         upstream.lifecycle_phase.empty() ? "there is none" : upstream.public_state,
                         upstream.staged ? ", edge only staged" : "");
  }
  const std::int64_t more = facts.upstreams_in_all - facts.ended_upstreams - static_cast<std::int64_t>(shown);
  if (more > 0) names += fmt::format(" and {} more", more);
  found.push_back(
      {cause,
       fmt::format("it waits for {} ({}){}", names.empty() ? "upstreams that are not there" : names,
                   counts(*facts.fan_in), for_children ? "" : too_few_edges(facts)),
       broken(facts) != nullptr ? without_edge(facts, *broken(facts))
       : first != nullptr       ? explain(first->id) + (facts.way.empty() ? "" : kMayBeCircle)
                                : made_eligible(facts)});
}

void add_misled(const Facts& facts, std::string next, std::vector<Finding>& found) {
  const bool all_over = facts.ended_upstreams == facts.upstreams_in_all;
  const std::string text =
      all_over ? "all that it waits for has ended, and its fan-in still counts as if it had not"
               : fmt::format("{} of its {} upstreams {} ended and only {} {} counted", facts.ended_upstreams,
                             facts.upstreams_in_all, facts.ended_upstreams == 1 ? "has" : "have",
                             facts.fan_in->counted(), facts.fan_in->counted() == 1 ? "is" : "are");
  found.push_back({"fan_in_misled", fmt::format("{} ({})", text, counts(*facts.fan_in)), std::move(next)});
}

// What group_recount leaves alone as long as somebody may still be at it, or an end of a former run may be in the counts.
std::string counted_later(const Facts& facts) {
  if (facts.any_staged) return apply_or_delete(facts, first_staged(facts));
  return facts.ended_upstreams < facts.upstreams_in_all
             ? "wait: group_recount counts it anew once all of them are over"
             : "ff-reconcilerd audit # looks twice, and prints what sets the counts right";
}

}  // namespace

bool add_uncounted_edge(const Facts& facts, std::vector<Finding>& found) {
  const bool any_applied = !std::ranges::all_of(facts.upstreams, &Upstream::staged);
  if (facts.fan_in || !any_applied) {
    const bool is_so = waits_for_staged(facts) && (!facts.fan_in || facts.fan_in->satisfied());
    if (is_so) add_staged(facts, found);
    return is_so;
  }
  const audit::Check& check = audit::check_named("edge_without_group");
  found.push_back(
      {"blocked_without_fan_in", std::string(check.meaning),
       remedy(check.name, facts.id, {{"flow_id", to_string(facts.core->flow.value_or(Uuid{}))}})});
  return true;
}

void add_waiting(const Facts& facts, std::vector<Finding>& found) {
  const bool for_children = facts.core->blocking_reason == "waiting_for_children" &&
                            facts.core->eligibility_state == "blocked_by_dependencies";
  if ((!for_children || !facts.fan_in) && add_uncounted_edge(facts, found)) return;
  if (!facts.fan_in) {
    found.push_back({"blocked_without_fan_in",
                     "it is blocked, but no fan-in of its is there that could end that",
                     made_eligible(facts)});
    return;
  }
  const FanIn& fan_in = *facts.fan_in;
  const Inspection* dependency = facts.inspection("dependency");
  const bool all_ended = for_children && fan_in.running == 0 && fan_in.counted() > 0;
  const bool decided = for_children ? all_ended : cannot_happen(facts) || fan_in.satisfied();
  if (const Upstream* upstream = facts.undispatched())
    add_undispatched(facts, *upstream, found);
  else if (all_ended && facts.fan_in_agrees() && dependency != nullptr && dependency->due())
    found.push_back({"children_ended", fmt::format("its children have all ended ({})", counts(fan_in)),
                     tick("dependency", facts.id)});
  else if (const Inspection* recount = facts.inspection("group_recount");
           recount != nullptr && recount->due())
    add_misled(facts, tick("group_recount", facts.id), found);
  else if (const Upstream* silent = without_event(facts))
    found.push_back({"upstream_without_event",
                     fmt::format("{} ended as {}, and has no completion event: an operator's cancel writes "
                                 "none, and a retention deletes "
                                 "them. Nobody has counted its end ({})",
                                 to_string(silent->id), silent->state(), counts(fan_in)),
                     missing_event(facts, *silent)});
  else if (decided && !facts.fan_in_agrees())
    found.push_back(
        {"fan_in_miscounted",
         fmt::format(
             "its fan-in counts other ends than its upstreams had ({}; {} of {} upstreams have ended)",
             counts(fan_in), facts.ended_upstreams, facts.upstreams_in_all),
         "ff-reconcilerd audit # looks twice, and prints what sets the counts right"});
  else if (!for_children && cannot_happen(facts))
    found.push_back(
        {"fan_in_impossible",
         fmt::format("what it waits for cannot happen any more, and nothing has ended it ({})",
                     counts(fan_in)),
         "cancel it (FlowFabric's cancel_execution): each end is counted once, and no other comes"});
  else if (!for_children && fan_in.satisfied())
    found.push_back(
        {"fan_in_satisfied",
         fmt::format("what it waits for has happened, and nothing has made it eligible ({})", counts(fan_in)),
         made_eligible(facts)});
  else if (fan_in.counted() < facts.ended_upstreams)
    add_misled(facts, counted_later(facts), found);
  else
    add_those_at_work(facts, for_children, found);
}

void add_flow(const Facts& facts, std::vector<Finding>& found) {
  const auto pending = std::find_if(facts.completions.begin(), facts.completions.end(),
                                    [](const CompletionEvent& event) { return !event.dispatched_at; });
  if (pending != facts.completions.end())
    found.push_back({"end_not_dispatched",
                     fmt::format("its completion event {} ({}) has been waiting for {} to be passed on",
                                 pending->id, pending->outcome, age(pending->committed_at, facts.now)),
                     facts.told_too_early() != nullptr
                         ? "mend told_but_alive first: dependency tells those who wait for it"
                         : passed_on(facts, facts.id, pending->committed_at)});
  for (const Downstream& downstream : facts.downstreams)
    if (downstream.cancels_us && !facts.core->ended())
      found.push_back(
          {"to_be_cancelled",
           fmt::format("{} does not need it any more: it is to be cancelled", to_string(downstream.id)),
           downstream.enqueued ? tick("edge_cancel_dispatcher", downstream.id)
                               : remedy("cancel_forgotten", downstream.id,
                                        {{"flow_id", to_string(facts.core->flow.value_or(Uuid{}))}})});
  if (facts.fan_in && facts.fan_in->cancels_rest && !facts.fan_in->enqueued_at)
    found.push_back(
        {"cancel_forgotten", std::string(audit::check_named("cancel_forgotten").meaning),
         remedy("cancel_forgotten", facts.id, {{"flow_id", to_string(facts.core->flow.value_or(Uuid{}))}})});
  if (facts.fan_in && facts.fan_in->enqueued_at && !facts.fan_in->cancels_rest)
    found.push_back({"cancel_entry_left", std::string(audit::check_named("cancel_entry_left").meaning),
                     remedy("cancel_entry_left", facts.id)});
  if (facts.fan_in && facts.fan_in->enqueued_at && facts.fan_in->cancels_rest)
    found.push_back({"siblings_to_cancel",
                     fmt::format("those that it does not need any more have waited for {} to be cancelled",
                                 age(*facts.fan_in->enqueued_at, facts.now)),
                     tick("edge_cancel_dispatcher", facts.id)});
}

}  // namespace ff::explain
