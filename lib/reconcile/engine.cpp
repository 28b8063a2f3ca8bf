#include "reconcile/engine.hpp"

#include <algorithm>
#include <span>

namespace ff::reconcile {
namespace {

/// No pair can go on.
bool is_of_all(const pg::Error& error) {
  return error.connection_lost() || error.not_writable() || error.interrupted() ||
         error.kind() == pg::Error::Kind::timeout;
}

/// The pair that finds in the end what a shortcut finds sooner.
PairEngine& pair_behind(const PairEngine& shortcut, const std::vector<std::unique_ptr<PairEngine>>& pairs) {
  const auto found = std::ranges::find_if(pairs, [&](const auto& each) {
    const Reconciler& pair = each->reconciler();
    return !pair.is_shortcut && (pair.walk || pair.searches) && pair.act == shortcut.reconciler().act;
  });
  return found == pairs.end() ? *pairs.front() : **found;
}

}  // namespace

Engine::Engine(const Reconciler& reconciler, const Scope& scope, pg::Pool& pool, const Clock& clock,
               ForkJoin& fork_join) {
  shared_->rate_limit.set_rate(limit_of(scope.settings, kMaxRowsPerSecond));
  const auto add = [&](const Reconciler& pair) {
    const auto number = static_cast<int>(pairs_.size());
    pairs_.push_back(
        std::make_unique<PairEngine>(pair, scope, pool, clock, fork_join, number, shared_, *hold_limit_));
  };
  add(reconciler);
  for (const Reconciler& companion : reconciler.companions) add(companion);
}

void Engine::set_scope(const Scope& scope) {
  const Scope& before = this->scope();
  if (scope.settings != before.settings || !(scope.filter == before.filter)) forget_hold();
  shared_->rate_limit.set_rate(limit_of(scope.settings, kMaxRowsPerSecond));
  for (const auto& pair : pairs_) pair->set_scope(scope);
}

// Where the database is away, or does not answer, all wait for the next tick. After any other failure the companions go on:
// it may be of one pair alone, and for ever.
TickReport Engine::tick(const TickOptions& options) {
  bool is_away = false;
  const auto tick = [&](PairEngine& pair, const TickOptions& its) {
    TickReport report = pair.tick(its);
    is_away = report.failure && is_of_all(*report.failure);
    return report;
  };
  hold_limit_->begin_tick();
  TickReport report = tick(*pairs_.front(), options);
  bool all_had_their_turn = true;
  std::optional<UnixMillis> known_until = UnixMillis::max();
  TickOptions theirs = options;
  theirs.scan_ahead = options.companions_scan_ahead;
  for (const auto& companion : std::span(pairs_).subspan(1)) {
    if (!companion->is_wanted()) continue;
    all_had_their_turn = !is_away && !hold_limit_->holds_back() && !options.stop.stop_requested();
    if (!all_had_their_turn) break;
    const bool is_shortcut = companion->reconciler().is_shortcut;
    PairEngine& whose = is_shortcut ? pair_behind(*companion, pairs_) : *companion;
    if (is_shortcut && !whose.may_show_late()) {
      companion->skip_tick();
      continue;
    }
    theirs.scan = is_shortcut ? options.shortcuts_scan : options.companions_scan;
    TickReport its = tick(*companion, theirs);
    if (is_shortcut) {
      whose.adopt_upcoming_of(*companion);
    } else {
      known_until = std::min(known_until, its.known_until);
      if (its.complete) report.companions_more = report.companions_more.value_or(false) || its.more;
    }
    report.add_companion(std::move(its));
  }
  if (all_had_their_turn) {
    report.all_known_until = std::min(report.known_until, known_until);
    if (known_until != UnixMillis::max()) report.companions_known_until = known_until;
  }
  report.hold = hold_limit_->hold();
  report.finish();
  return report;
}

TickReport Engine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  TickReport report = pairs_.front()->tick_one(execution, options);
  for (const auto& companion : std::span(pairs_).subspan(1))
    if (!report.failure && !companion->reconciler().is_shortcut && companion->is_wanted())
      report.add_companion(companion->tick_one(execution, options));
  report.finish();
  return report;
}

Backlog Engine::backlog(std::int64_t cap) {
  Backlog all = pairs_.front()->backlog(cap);
  for (const auto& companion : std::span(pairs_).subspan(1))
    // What a shortcut finds is counted already.
    if (!companion->reconciler().is_shortcut && companion->is_wanted()) all.add(companion->backlog(cap));
  return all;
}

}  // namespace ff::reconcile
