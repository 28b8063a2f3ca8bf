#include "reconcile/hold_limit.hpp"

#include <algorithm>
#include <limits>

namespace ff::reconcile {

// While rows are held, the first pair counts again at every scan, even an empty one, so that the hold can end.
std::optional<std::int64_t> HoldLimit::may_try(const Job& pair, Worker& worker, bool any_due) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const std::int64_t most = hold_above(pair.scope.settings);
  if (pair.options.dry_run) return kAny;
  if (most == 0) forget();
  if (most == 0 || (!any_due && !(hold_ && &pair == pairs_.front().job))) return kAny;
  const Backlog due = due_of_all(pair, worker.connection(), most);
  if (due.due <= most) {
    forget();
    return most;
  }
  if (!hold_) hold_ = Hold{.above = most, .since = due.database_time};
  hold_->above = most;
  hold_->released = hold_->released || (pair.options.released && pair.options.released(hold_->since));
  if (hold_->released) return kAny;
  holds_back_ = true;
  TickReport& report = worker.report();
  report.scanned += due.due;
  report.oldest_due = due.oldest_due;
  if (report.database_time == UnixMillis{}) report.database_time = due.database_time;
  return std::nullopt;
}

// Up to one more than `most`. What a shortcut finds is counted by the pair that walks or searches, but for what is not in
// its slice.
Backlog HoldLimit::due_of_all(const Job& acting, pg::Connection& connection, std::int64_t most) {
  Backlog all;
  std::int64_t walked = 0;
  std::int64_t by_shortcut = 0;
  for (const Pair& each : pairs_) {
    const Reconciler& pair = each.job->reconciler;
    const bool is_acting = each.job == &acting;
    if ((pair.is_shortcut && !is_acting) || !each.job->is_wanted()) continue;
    if (!is_acting) each.job->find_partitions(connection);
    const Backlog its = due_of(each, connection, acting.options.in_slices, most + 1);
    const bool has_shortcut = pair.walk || pair.searches;
    (pair.is_shortcut ? by_shortcut : has_shortcut ? walked : all.due) += its.due;
    keep_earlier(all.oldest_due, its.oldest_due);
    all.database_time = its.database_time;
  }
  all.due += std::max(walked, by_shortcut);
  return all;
}

// What a tick would come to: rows in quarantine are due for as long as they fail, and are not tried; as many more are counted.
// Nor is what cannot be read.
Backlog HoldLimit::due_of(const Pair& pair, pg::Connection& connection, bool in_slices, std::int64_t cap) {
  const auto quarantined = static_cast<std::int64_t>(pair.job->quarantine.size());
  Backlog backlog =
      count_due(*pair.job, connection, pair.cursor->in_reach(connection, in_slices), cap + quarantined);
  backlog.due = std::max<std::int64_t>(backlog.due - quarantined, 0);
  return backlog;
}

}  // namespace ff::reconcile
