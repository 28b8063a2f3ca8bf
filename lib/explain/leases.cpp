// Who has the execution's lease, and who takes it once it has lapsed.

#include <fmt/format.h>

#include <algorithm>

#include "audit/remedy.hpp"
#include "explain/states.hpp"
#include "explain/words.hpp"

namespace ff::explain {
namespace {

// Of the two that take leases, the one that this lease is left to.
const Inspection* taker(const Facts& facts) {
  const Inspection* by_expiry = facts.inspection("lease_expiry");
  const Inspection* by_timeout = facts.inspection("attempt_timeout");
  const auto has_it = [](const Inspection* inspection) {
    return inspection != nullptr && !inspection->rows.empty();
  };
  const bool both = has_it(by_expiry) && has_it(by_timeout);
  if (both) return by_expiry->enabled || !by_timeout->enabled ? by_expiry : by_timeout;
  return has_it(by_expiry) ? by_expiry : has_it(by_timeout) ? by_timeout : nullptr;
}

// By the filter of who would take it.
bool is_left_out(const Facts& facts) {
  const Inspection* inspection = taker(facts);
  return inspection != nullptr && inspection->filtered;
}

void add_lapsed(const Facts& facts, const Attempt& attempt, std::vector<Finding>& found) {
  const std::string lapsed = "the lease of " + attempt.worker.value_or("a worker") + " lapsed " +
                             age(*attempt.lease_expires_at, facts.now) + " ago";
  const Inspection* inspection = taker(facts);
  if (const Grant* grant = facts.grant("reclaim")) {
    found.push_back(
        {"lease_promised",
         fmt::format("{}, and the execution is promised to {}: a reclaim grant {}", lapsed, grant->worker,
                     end_of(*grant, facts.now)),
         is_left_out(facts)
             ? "that worker reclaims it"
             : "that worker reclaims it, or the daemon takes the lease when the grant has ended"});
    return;
  }
  if (is_left_out(facts)) return;  // which another line tells
  if (inspection == nullptr) {
    found.push_back({"lease_lapsed", lapsed, tick("lease_expiry", facts.id)});
    return;
  }
  if (!inspection->due() && attempt.reclaims > 0) {
    found.push_back(
        {"lease_waits",
         fmt::format("{}, and was reclaimed {} before: {} leaves it so much the longer (storm), due {}",
                     lapsed, attempt.reclaims == 1 ? "once" : fmt::format("{} times", attempt.reclaims),
                     inspection->reconciler, when(*inspection->takeable_at(), facts.now)),
         tick(inspection->reconciler, facts.id)});
    return;
  }
  if (!inspection->due()) {
    found.push_back({"lease_in_grace",
                     fmt::format("{}, and {} leaves it for its grace: due {}", lapsed, inspection->reconciler,
                                 when(*inspection->takeable_at(), facts.now)),
                     "wait for the end of the grace, or set a shorter one"});
    return;
  }
  if (inspection->storm) return;  // which another line tells: a tick by hand would take it all the same
  const bool spent = inspection->reconciler == "attempt_timeout" && attempt.index >= facts.core->max_retries;
  if (spent)
    found.push_back(
        {"retries_spent",
         fmt::format("{}, and of {} retries none is left: attempt_timeout ends the execution as expired",
                     lapsed, facts.core->max_retries),
         tick(inspection->reconciler, facts.id)});
  else
    found.push_back({"lease_lapsed", fmt::format("{}: {} takes it", lapsed, inspection->reconciler),
                     tick(inspection->reconciler, facts.id)});
}

}  // namespace

void add_active(const Facts& facts, bool at_fault, std::vector<Finding>& found) {
  const Attempt* attempt = facts.current_attempt();
  if (attempt == nullptr || !attempt->lease_expires_at) {
    const std::string_view name = attempt == nullptr ? "active_without_attempt" : "active_without_lease";
    found.push_back(
        {"active_without_lease", std::string(audit::check_named(name).meaning), remedy(name, facts.id)});
    return;
  }
  if (*attempt->lease_expires_at < facts.now) return add_lapsed(facts, *attempt, found);
  if (due_inspection(facts, "dead_worker") != nullptr) {
    found.push_back(
        {"holder_silent",
         fmt::format(
             "{} works on attempt {}, and its lease ends {}, but by the register of workers it is dead",
             attempt->worker.value_or("a worker"), attempt->index,
             when(*attempt->lease_expires_at, facts.now)),
         tick("dead_worker", facts.id)});
    return;
  }
  if (at_fault) return;
  found.push_back(
      {"lease_runs",
       fmt::format("{} works on attempt {}: its lease ends {}", attempt->worker.value_or("a worker"),
                   attempt->index, when(*attempt->lease_expires_at, facts.now)),
       is_left_out(facts)
           ? "wait: that worker is at work; its lease is not taken by a daemon that leaves it out"
           : "wait: a worker that is gone renews no more, and the lease is taken when it has lapsed"});
}

}  // namespace ff::explain
