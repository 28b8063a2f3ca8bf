#include "explain/finding.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quoted.hpp"
#include "explain/states.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// What has no such name, or a name that an option could have, no line names. The file of the configuration is the one with the
// filter: it is not pasted to a line that speaks of --config.
std::string tick_past_the_filter(const Facts& facts, const Inspection& inspection) {
  const std::string line = tick(inspection.reconciler, facts.id);
  const auto& its = facts.core ? facts.core->name_space : std::nullopt;
  if (inspection.filter.instance_tag || !its || its->empty() || its->starts_with('-'))
    return line + " # with the --config of a file that has not this filter";
  return line + " --namespace " + (is_plain(*its) ? *its : shell_word(*its));
}

void add_filtered(const Facts& facts, const Inspection& inspection, std::vector<Finding>& found) {
  const std::string its = facts.core && facts.core->name_space ? *facts.core->name_space : "none";
  found.push_back({"filtered",
                   fmt::format("{} is configured for {} only, and leaves it out (its namespace: {})",
                               inspection.reconciler, what(inspection.filter), its),
                   tick_past_the_filter(facts, inspection)});
}

void add_held(const Facts& facts, std::vector<Finding>& found) {
  for (const Holder& holder : facts.holders)
    found.push_back({"locked", fmt::format("a row in {} is held by {}", holder.table, who(holder, facts.now)),
                     holder.pid == 0
                         ? "ROLLBACK PREPARED or COMMIT PREPARED, with that name: ask who has prepared it"
                         : fmt::format("SELECT pg_terminate_backend({}); -- ends that session; what it has "
                                       "not committed is rolled back",
                                       holder.pid)});
}

void add_storm(const StormHold& storm, std::string_view name, std::vector<Finding>& found) {
  if (storm.open_for)
    found.push_back({"breaker_open",
                     fmt::format("so many workers fell silent at once that {} of the daemon that was asked "
                                 "takes no lease for {} more (storm control)",
                                 name, age({}, UnixMillis{} + *storm.open_for)),
                     "wait: who lives renews its lease meanwhile; what is left is taken then"});
  else if (storm.queued > 0)
    found.push_back(
        {"queued",
         fmt::format(
             "{} rows of {} wait for their turn: only so many are given back a second (storm control)",
             storm.queued, name),
         "wait"});
}

// Of lease_expiry and attempt_timeout, the one that is on takes what is left to the other, too: with that one nothing is amiss.
bool is_left_to_partner(const Facts& facts, const Inspection& inspection) {
  const bool by_expiry = inspection.reconciler == "lease_expiry";
  if (inspection.enabled || (!by_expiry && inspection.reconciler != "attempt_timeout")) return false;
  const Inspection* partner = facts.inspection(by_expiry ? "attempt_timeout" : "lease_expiry");
  return partner != nullptr && partner->enabled && !partner->filtered && !partner->rows.empty();
}

void add_obstacles(const Facts& facts, const Inspection& inspection, std::vector<Finding>& found) {
  if (inspection.rows.empty() || is_left_to_partner(facts, inspection)) return;
  const std::string_view name = inspection.reconciler;
  if (inspection.filtered) return add_filtered(facts, inspection, found);
  if (!inspection.enabled && inspection.due())
    found.push_back(
        {"switched_off", fmt::format("{} is switched off in the configuration", name), tick(name, facts.id)});
  for (const pause::Pause& each : inspection.pauses)
    found.push_back(
        {"paused",
         fmt::format("{} is paused{}, {}", name, each.reconciler == pause::kAll ? " with all" : "",
                     pause::text_of(each, facts.now)),
         pause::resume_line(each.reconciler, /*is_known=*/true)});
  if (inspection.held_above > 0)
    found.push_back(
        {"held",
         fmt::format("more than {} rows are due (hold_above): {} moves none of them until an operator "
                     "releases them",
                     inspection.held_above, name),
         fmt::format("ff-reconcilerd resume {}", name)});
  if (inspection.storm && inspection.due()) add_storm(*inspection.storm, name, found);
  if (inspection.trial && !inspection.trial->error.empty())
    found.push_back({"failed", fmt::format("{} fails on it: {}", name, inspection.trial->error),
                     tick(name, facts.id) + " # once what the error names is mended"});
  else if (inspection.trial && inspection.trial->locked)
    found.push_back({"locked",
                     fmt::format("{} finds a row that it needs held by somebody: of this execution, or of "
                                 "one that goes with it",
                                 name),
                     "it is tried again at every tick: ask again, then look for old transactions in "
                     "pg_stat_activity"});
}

// As a word of its own: FlowFabric's apply_dependency_to_child is none of ours.
bool names(std::string_view text, std::string_view reconciler) {
  const auto at = text.find(reconciler);
  if (at == std::string_view::npos || (at > 0 && text[at - 1] != ' ')) return false;
  const std::string_view after = text.substr(at + reconciler.size());
  return after.empty() || after.front() == ' ' || after.front() == ',';
}

// What is said of a state holds of whom the daemon may move: what a filter leaves out is moved by a line without it, and by
// itself not at all.
void mind_the_filter(const Facts& facts, Finding& each) {
  for (const Inspection& inspection : facts.inspections) {
    if (!inspection.filtered || !names(each.next, inspection.reconciler)) continue;
    if (each.next.find(tick(inspection.reconciler, facts.id)) != std::string::npos)
      each.next = tick_past_the_filter(facts, inspection);
    else if (!each.next.starts_with("ff-reconcilerd "))
      each.next += fmt::format(" -- but by its filter {} leaves it out", inspection.reconciler);
  }
}

void add_not_found(const Facts& facts, std::vector<Finding>& found) {
  const std::string text = fmt::format("there is no execution {}", to_string(facts.id));
  if (!facts.elsewhere) {
    found.push_back({"not_found", text, "check the uuid and the database"});
    return;
  }
  found.push_back({"not_found", text + fmt::format(", but one in partition {}", facts.elsewhere->value),
                   explain({*facts.elsewhere, facts.id.uuid})});
}

// A reconciler that has it to move, where nothing above said so: no state of its alone gives that away.
void add_due(const Facts& facts, std::vector<Finding>& found) {
  for (const Inspection& inspection : facts.inspections) {
    const std::string_view name = inspection.reconciler;
    const bool named = std::ranges::any_of(found, [&](const Finding& each) {
      return each.text.find(name) != std::string::npos || each.next.find(name) != std::string::npos;
    });
    const bool promised = inspection.leaves_promised && facts.grant("reclaim") != nullptr;
    if (inspection.filtered || !inspection.moves() || named || promised ||
        is_left_to_partner(facts, inspection))
      continue;
    found.push_back(
        {"due",
         fmt::format("{} has it to move{}", name,
                     inspection.is_dated ? ": due " + when(*inspection.takeable_at(), facts.now) : ""),
         tick(name, facts.id)});
  }
}

}  // namespace

std::vector<Finding> findings(const Facts& facts) {
  std::vector<Finding> found;
  if (!facts.has_partition)
    found.push_back({"no_partition",
                     fmt::format("the database has no partition {}", facts.id.partition.value),
                     "check the id of the execution, and the database"});
  else if (!facts.covered)
    found.push_back({"not_covered",
                     fmt::format("partition {} is not among those that the configuration covers",
                                 facts.id.partition.value),
                     "the daemon that covers it has to move it: `status` with its configuration"});
  add_held(facts, found);
  for (const Inspection& inspection : facts.inspections) add_obstacles(facts, inspection, found);
  const bool has_rows =
      std::ranges::any_of(facts.inspections, [](const auto& each) { return !each.rows.empty(); });
  if (has_rows && !facts.pauses_unread.empty())
    found.push_back({"pauses_unread",
                     fmt::format("whether its reconcilers are paused is not known: {}", facts.pauses_unread),
                     "ff-reconcilerd check-db # says what to grant"});
  if (!facts.daemon_seen)
    found.push_back({"no_daemon", "no daemon is connected to this database",
                     "ff-reconcilerd run # or see why it is not there"});
  if (!facts.core)
    add_not_found(facts, found);
  else
    add_states(facts, found);
  for (Finding& each : found)
    if (each.cause != "filtered") mind_the_filter(facts, each);
  add_due(facts, found);
  return found;
}

}  // namespace ff::explain
