#include "explain/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

std::string no_delay(const Facts& facts) {
  const bool delayed = facts.core->delayed();
  return delayed ? "its delay has no end: deadline_at_ms is null" : "it is not delayed";
}

// Who is left out of a division that both know.
std::string no_lease(const Facts& facts, const Inspection& inspection) {
  const bool any = std::any_of(facts.attempts.begin(), facts.attempts.end(),
                               [](const Attempt& attempt) { return attempt.lease_expires_at.has_value(); });
  if (!any) return "no attempt has a lease";
  const Attempt* current = facts.core ? facts.current_attempt() : nullptr;
  if (current != nullptr && current->lease_expires_at && *current->lease_expires_at >= facts.now)
    return "its lease has not lapsed";
  if (inspection.reconciler == "lease_expiry")
    return "reclaimed as often as max_reclaims allows: attempt_timeout takes it";
  return facts.core && facts.core->is("active")
             ? "lease_expiry takes it until it is reclaimed max_reclaims times"
             : "not active: lease_expiry takes the lease";
}

std::string no_deadline(const Facts& facts) {
  const Core& core = *facts.core;
  if (!core.deadline_at) return "it has no deadline";
  if (core.ended()) return "it has ended";
  if (core.delayed()) return "it is delayed";
  if (facts.deadline_is_of_former_run()) return "the deadline is of the run before it was replayed";
  return "it is not active, and include_waiting is off";
}

std::string no_rows(const Facts& facts, const Inspection& inspection) {
  const std::string_view name = inspection.reconciler;
  if (inspection.leaves_promised) return no_lease(facts, inspection);
  if (!facts.core) return "no row of its";
  if (name == "suspension_timeout")
    return facts.suspension ? "the suspension has no time-out" : "it has no suspension";
  if (name == "completion_repair")
    return facts.core->ended() ? "its end was told, or nobody waits for it" : "it has not ended";
  if (name == "delayed_promoter") return no_delay(facts);
  if (name == "execution_deadline") return no_deadline(facts);
  return std::string(inspection.no_rows.empty() ? "no row of its" : inspection.no_rows);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string how_long(const Quarantined& row, UnixMillis now) {
  const std::string tries = row.tries == 1 ? "once" : fmt::format("{} times", row.tries);
  return fmt::format("in quarantine after failing {}, next try {}", tries,
                     row.next_try > now ? when(row.next_try, now) : "at the next scan");
}

Verdict of_due(const Facts& facts, const Inspection& inspection) {
  Verdict verdict{inspection.reconciler, "due", inspection.takeable_at(),
                  inspection.is_dated ? "due for " + age(*inspection.takeable_at(), facts.now) : "due"};
  const auto say = [&](std::string_view word, const std::string& text) {
    verdict.word = word;
    verdict.text += ", " + text;
  };
  if (const Grant* grant = facts.grant("reclaim"); grant != nullptr && inspection.leaves_promised)
    say("promised", fmt::format("promised to {}: the grant {}", grant->worker, end_of(*grant, facts.now)));
  else if (!facts.holders.empty())
    say("locked", "locked by " + who(facts.holders.front(), facts.now));
  else if (inspection.trial && !inspection.trial->error.empty())
    say("failed", "would fail: " + inspection.trial->error);
  else if (inspection.trial && inspection.trial->locked)
    say("locked", "locked, itself or a row that goes with it");
  else if (inspection.trial && inspection.trial->outcomes.empty() &&
           inspection.trial->still_for > Milliseconds{0})
    say("later",
        fmt::format("has to stand still for {} first", spoken_duration(inspection.trial->still_for)));
  else if (inspection.trial && inspection.trial->outcomes.empty())
    say("moved", "and moved meanwhile");
  else if (inspection.quarantined)
    say("quarantined", "and may be moved now: it failed with " + inspection.quarantined->message);
  else if (inspection.trial)
    verdict.text += ", outcome: " + joined(inspection.trial->outcomes);
  if (inspection.quarantined) verdict.text += ", " + how_long(*inspection.quarantined, facts.now);
  return verdict;
}

Verdict of(const Facts& facts, const Inspection& inspection) {
  if (inspection.rows.empty())
    return {inspection.reconciler, "none", std::nullopt, no_rows(facts, inspection)};
  if (inspection.filtered)
    return {inspection.reconciler, "filtered", inspection.takeable_at(),
            "left out by the filter: " + what(inspection.filter)};
  if (!inspection.due())
    return {inspection.reconciler, "later", inspection.takeable_at(),
            "due " + when(*inspection.takeable_at(), facts.now)};
  return of_due(facts, inspection);
}

}  // namespace

std::vector<Verdict> verdicts(const Facts& facts) {
  std::vector<Verdict> all;
  for (const Inspection& inspection : facts.inspections) {
    all.push_back(of(facts, inspection));
    if (!inspection.enabled) all.back().text += " (switched off)";
    const bool is_held = inspection.held_above > 0 || (inspection.storm && inspection.due());
    if (is_held && all.back().word == "due") all.back().word = "held";
    if (is_held) all.back().text += " (held)";
    if (inspection.pauses.empty()) continue;
    if (all.back().word == "due" || all.back().word == "held") all.back().word = "paused";
    all.back().text += " (paused)";
  }
  return all;
}

}  // namespace ff::explain
