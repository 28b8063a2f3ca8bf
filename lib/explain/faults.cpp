// What `audit` finds in the execution's own rows, in its words.

#include <algorithm>
#include <array>

#include "audit/remedy.hpp"
#include "explain/states.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

constexpr Milliseconds kMonth = std::chrono::hours{24 * 30};

// As audit's sweep over ff_exec_core decides. Empty: none.
std::string_view fault_of_words(const Core& core) {
  constexpr std::array kNotOfWaiting{"running_attempt", "attempt_terminal", "terminal_failed", "cancelled"};
  if (core.ended()) return {};
  if (core.attempt_index < 0) return "negative_attempt_index";
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

}  // namespace

bool add_faults(const Facts& facts, std::vector<Finding>& found) {
  const std::size_t before = found.size();
  const auto add = [&](std::string_view name, const Columns& columns) {
    if (name.empty()) return;
    const audit::Check& check = audit::check_named(name);
    found.push_back({check.name, std::string(check.meaning), remedy(name, facts.id, columns)});
  };
  add(fault_of_words(*facts.core), {});
  for (const Attempt& attempt : facts.attempts)
    add(fault_of_lease(attempt, facts.now), {{"attempt_index", std::to_string(attempt.index)}});
  return found.size() > before;
}

}  // namespace ff::explain
