// What `audit` finds in the execution's own rows, in its words.

#include <algorithm>
#include <array>

#include "audit/remedy.hpp"
#include "explain/states.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

constexpr Milliseconds kMonth = std::chrono::hours{24 * 30};

std::string_view fault_of_end(const Core& core) {
  constexpr std::array kOfEnds{"attempt_terminal", "terminal_failed", "cancelled"};
  if (!core.terminal_at) return "ended_without_time";
  if (core.is("terminal") && (std::ranges::find(kOfEnds, core.attempt_state) == kOfEnds.end() ||
                              core.eligibility_state == "eligible_now"))
    return "ended_in_part";
  return core.public_state == "resumable" ? "ended_but_resumable" : "";
}

// As audit's sweep over ff_exec_core decides. Empty: none.
std::string_view fault_of_words(const Core& core) {
  constexpr std::array kNotOfWaiting{"running_attempt", "attempt_terminal", "terminal_failed", "cancelled"};
  if (core.attempt_index < 0) return "negative_attempt_index";
  if (core.ended()) return fault_of_end(core);
  if (core.terminal_at) return "alive_after_its_end";
  if (core.is("active"))
    return core.ownership_state != "leased" || core.attempt_state != "running_attempt" ? "active_in_part"
                                                                                       : "";
  if (core.is("suspended"))
    return core.ownership_state != "released" || core.attempt_state != "attempt_interrupted"
               ? "suspended_in_part"
               : "";
  if (core.ownership_state == "leased") return "waiting_but_leased";
  return std::ranges::find(kNotOfWaiting, core.attempt_state) != kNotOfWaiting.end() ? "waiting_in_part" : "";
}

std::string_view fault_of_lease(const Attempt& attempt, UnixMillis now) {
  if (!attempt.lease_expires_at) return {};
  if (attempt.epoch < 1) return "lease_without_epoch";
  if (!attempt.worker) return "lease_without_worker";
  return *attempt.lease_expires_at > now + kMonth ? "lease_for_ever" : "";
}

// Its worker may be at work as well as that of a later attempt.
bool is_one_of_two(const Facts& facts, const Attempt& attempt) {
  const auto runs = [&](const Attempt& its) {
    return its.lease_expires_at && *its.lease_expires_at >= facts.now;
  };
  return facts.core->is("active") && runs(attempt) && attempt.outcome != "interrupted_reclaimed" &&
         std::ranges::any_of(facts.attempts,
                             [&](const Attempt& its) { return its.index > attempt.index && runs(its); });
}

// The word that the event of its end has, or would have.
std::string word_of_end(const Facts& facts) {
  const CompletionEvent* told = facts.told_end();
  return told != nullptr ? told->outcome : facts.core->word_of_end.value_or("");
}

}  // namespace

bool add_faults(const Facts& facts, std::vector<Finding>& found) {
  const std::size_t before = found.size();
  const auto add = [&](std::string_view name, const Columns& columns) {
    if (name.empty()) return;
    const audit::Check& check = audit::check_named(name);
    found.push_back({check.name, std::string(check.meaning), remedy(name, facts.id, columns)});
  };
  const auto of_attempt = [](const Attempt& attempt) {
    return Columns{{"attempt_index", std::to_string(attempt.index)}};
  };
  add(fault_of_words(*facts.core), {{"word", word_of_end(facts)}});
  for (const Attempt& attempt : facts.attempts) add(fault_of_lease(attempt, facts.now), of_attempt(attempt));
  const bool in_the_way = found.size() > before;
  for (const Attempt& attempt : facts.attempts)
    if (fault_of_lease(attempt, facts.now).empty() && is_one_of_two(facts, attempt))
      add("two_leases", of_attempt(attempt));
  if (const CompletionEvent* told = facts.told_too_early())
    add("told_but_alive", {{"event_id", std::to_string(told->id)}});
  return in_the_way;
}

}  // namespace ff::explain
