#include "reconcile/engine.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace ff::reconcile {

Engine::Engine(const Reconciler& reconciler, const Scope& scope, pg::Pool& pool, const Clock& clock,
               ForkJoin& fork_join) {
  shared_->rate_limit.set_rate(max_rows_per_second(scope.settings));
  const auto add = [&](const Reconciler& pair) {
    pairs_.emplace_back(pair, scope, pool, clock, fork_join, static_cast<int>(pairs_.size()), shared_);
  };
  add(reconciler);
  for (const Reconciler& companion : reconciler.companions) add(companion);
}

void Engine::set_scope(const Scope& scope) {
  const Scope& before = this->scope();
  if (scope.settings != before.settings || !(scope.filter == before.filter)) forget_hold();
  shared_->rate_limit.set_rate(max_rows_per_second(scope.settings));
  for (PairEngine& pair : pairs_) pair.set_scope(scope);
}

// After a failure the companions wait for the next tick: whatever it was may be theirs, too.
TickReport Engine::tick(const TickOptions& options) {
  holds_back_ = false;
  PairEngine& first = pairs_.front();
  TickReport report = tick_pair(first, options);
  report.all_known_until = first.all_known_until(report);
  TickOptions theirs = options;
  theirs.scan_ahead = options.companions_scan_ahead;
  for (PairEngine& companion : std::span(pairs_).subspan(1)) {
    if (report.failure || holds_back_ || !companion.is_wanted()) continue;
    const bool is_shortcut = companion.reconciler().is_shortcut;
    theirs.scan = is_shortcut ? options.shortcuts_scan : options.companions_scan;
    if (is_shortcut)
      tick_shortcut(companion, theirs, report);
    else
      tick_companion(companion, theirs, report);
  }
  report.hold = hold_;
  report.finish();
  return report;
}

TickReport Engine::tick_pair(PairEngine& pair, const TickOptions& options) {
  return pair.tick(options,
                   [&](Worker& worker, bool any_due) { return allowance(pair, options, worker, any_due); });
}

void Engine::tick_companion(PairEngine& companion, const TickOptions& options, TickReport& report) {
  TickReport its = tick_pair(companion, options);
  report.all_known_until = std::min(report.all_known_until, companion.all_known_until(its));
  if (its.complete) report.companions_more = report.companions_more.value_or(false) || its.more;
  report.add_companion(std::move(its));
}

void Engine::tick_shortcut(PairEngine& shortcut, const TickOptions& options, TickReport& report) {
  PairEngine& pair = pair_of(shortcut);
  if (!pair.may_show_late()) return;
  TickReport its = tick_pair(shortcut, options);
  pair.adopt_upcoming_of(shortcut);
  report.add_companion(std::move(its));
}

// The pair that finds in the end what a shortcut finds sooner.
PairEngine& Engine::pair_of(const PairEngine& shortcut) {
  const auto found = std::ranges::find_if(pairs_, [&](const PairEngine& each) {
    const Reconciler& pair = each.reconciler();
    return !pair.is_shortcut && (pair.walk || pair.searches) && pair.act == shortcut.reconciler().act;
  });
  return found == pairs_.end() ? pairs_.front() : *found;
}

TickReport Engine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  TickReport report = pairs_.front().tick_one(execution, options);
  for (PairEngine& companion : std::span(pairs_).subspan(1))
    if (!report.failure && !companion.reconciler().is_shortcut && companion.is_wanted())
      report.add_companion(companion.tick_one(execution, options));
  report.finish();
  return report;
}

Backlog Engine::backlog(std::int64_t cap) {
  Backlog all = pairs_.front().backlog(cap);
  for (PairEngine& companion : std::span(pairs_).subspan(1))
    // What a shortcut finds is counted already.
    if (!companion.reconciler().is_shortcut && companion.is_wanted()) all.add(companion.backlog(cap));
  return all;
}

// How many rows the pair may try; nothing: none, and no other pair either. Asked once by each pair that has seen what is
// due, before it acts. While it holds, each scan of the first pair asks, whatever that has found.
std::optional<std::int64_t> Engine::allowance(PairEngine& acting, const TickOptions& options, Worker& worker,
                                              bool any_due) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const std::int64_t most = hold_above(scope().settings);
  if (options.dry_run) return kAny;
  if (most == 0) hold_.reset();
  if (most == 0 || (!any_due && !(hold_ && &acting == &pairs_.front()))) return kAny;
  const Backlog due = due_of_all(acting, options, worker.connection(), most);
  if (due.due <= most) {
    hold_.reset();
    return most;
  }
  if (!hold_) hold_ = Hold{.above = most, .since = due.database_time};
  hold_->above = most;
  hold_->released = hold_->released || (options.released && options.released(hold_->since));
  if (hold_->released) return kAny;
  holds_back_ = true;
  TickReport& report = worker.report();
  report.scanned += due.due;
  report.oldest_due = due.oldest_due;
  if (report.database_time == UnixMillis{}) report.database_time = due.database_time;
  return std::nullopt;
}

// Up to one more than `most`, over all pairs. What a shortcut finds is counted by the pair that walks or searches, but
// for what is not in its slice.
Backlog Engine::due_of_all(PairEngine& acting, const TickOptions& options, pg::Connection& connection,
                           std::int64_t most) {
  Backlog all;
  std::int64_t walked = 0;
  std::int64_t by_shortcut = 0;
  for (PairEngine& each : pairs_) {
    const Reconciler& pair = each.reconciler();
    if ((pair.is_shortcut && &each != &acting) || !each.is_wanted()) continue;
    if (&each != &acting) each.find_partitions(connection);
    const Backlog its = each.due_in_reach(connection, options.in_slices, most + 1);
    const bool has_shortcut = pair.walk || pair.searches;
    (pair.is_shortcut ? by_shortcut : has_shortcut ? walked : all.due) += its.due;
    keep_earlier(all.oldest_due, its.oldest_due);
    all.database_time = its.database_time;
  }
  all.due += std::max(walked, by_shortcut);
  return all;
}

}  // namespace ff::reconcile
