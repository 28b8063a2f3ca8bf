// What an engine counts: for whoever asks, and against hold_above before it acts.
#include <algorithm>

#include "pg/transaction.hpp"
#include "reconcile/engine.hpp"

namespace ff::reconcile {
namespace {

// How far ahead a backlog's next due row is looked for.
constexpr Milliseconds kBacklogHorizon = std::chrono::hours{24};

void keep_earlier(std::optional<UnixMillis>& to, const std::optional<UnixMillis>& from) {
  if (from && (!to || *from < *to)) to = from;
}

}  // namespace

Backlog Engine::backlog(std::int64_t cap) {
  Backlog all = backlog_alone(cap);
  for (Engine& companion : companions_) {
    if (companion.reconciler().is_shortcut) continue;  // what it finds is counted already
    if (!companion.reconciler().wanted(companion.scope().family)) continue;
    const Backlog its = companion.backlog_alone(cap);
    all.due += its.due;
    all.capped = all.capped || its.capped;
    keep_earlier(all.oldest_due, its.oldest_due);
    keep_earlier(all.next_due, its.next_due);
    if (!all.known_until || !its.known_until)
      all.known_until.reset();
    else
      keep_earlier(all.known_until, its.known_until);
  }
  return all;
}

Backlog Engine::backlog_alone(std::int64_t cap) {
  begin_tick({});
  Worker worker(*job_, pool_.acquire(job_->familiar()));
  find_partitions(worker.connection());
  ask_first(worker);
  // Of a table that is walked through, as many rows as are counted at most: it may have any number.
  Walker from_the_start;
  const bool walks = job_->reconciler.walk.has_value();
  const auto slices = walks ? from_the_start.next(*job_, worker.connection(), cap) : whole(job_->groups);
  Backlog backlog;
  const Seen seen = sort_out(scan(worker, slices, kBacklogHorizon), cursor_.depth());
  for (const Candidate& row : seen.coming) {
    const UnixMillis takeable_at = row.due_at + job_->holdoff();
    if (!backlog.next_due || takeable_at < *backlog.next_due) backlog.next_due = takeable_at;
  }
  backlog.capped = walks && !from_the_start.at_end();
  count_due(worker.connection(), slices, cap, backlog);
  const bool read_all =
      job_->reconciler.foreseen && seen.oldest_of_many.empty() && (!walks || from_the_start.at_end());
  if (read_all && !worker.report().failure)
    backlog.known_until =
        seen.cut_off ? *seen.cut_off + job_->holdoff() : backlog.database_time + kBacklogHorizon;
  return backlog;
}

// Into `backlog`, until that has `cap` rows.
void Engine::count_due(pg::Connection& connection, const std::vector<GroupSlice>& slices, std::int64_t cap,
                       Backlog& backlog) {
  for (const auto& [group, slice] : slices) {
    const Partitions& partitions = job_->groups.all()[group];
    pg::Params params = job_->params(slice.partitions_of(partitions), slice);
    params.add(cap - backlog.due);
    pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
    const std::string sql = job_->statements.backlog.over(partitions);
    const pg::Result counted = std::move(transaction.read_all({{sql, params}}).front());
    const pg::Row row = counted.one();
    backlog.due += row.get<std::int64_t>("due");
    if (const auto oldest = row.get<std::optional<std::int64_t>>("oldest_due_ms"))
      keep_earlier(backlog.oldest_due, unix_millis(*oldest));
    backlog.database_time = unix_millis(row.get<std::int64_t>("now_ms"));
    if (backlog.due >= cap) backlog.capped = true;
    if (backlog.due >= cap) break;
  }
}

// What a tick would come to: what the next scan reads. Rows in quarantine are due for as long as they fail, and are not
// tried; as many more are counted.
Backlog Engine::due_in_reach(pg::Connection& connection, bool in_slices, std::int64_t cap) {
  const auto slices = cursor_.next(connection, in_slices);
  const auto quarantined = static_cast<std::int64_t>(job_->quarantine.size());
  Backlog backlog;
  count_due(connection, slices, cap + quarantined, backlog);
  backlog.due = std::max<std::int64_t>(backlog.due - quarantined, 0);
  return backlog;
}

// Up to one more than `most`, over all pairs. What a shortcut finds is counted by the pair that walks or searches, but
// for what is not in its slice.
Backlog Engine::due_of_all(pg::Connection& connection, const Engine& acting, std::int64_t most) {
  Backlog all;
  std::int64_t walked = 0;
  std::int64_t by_shortcut = 0;
  const auto add = [&](Engine& pair) {
    if (pair.reconciler().is_shortcut && &pair != &acting) return;
    if (!pair.reconciler().wanted(pair.scope().family)) return;
    if (&pair != &acting) pair.find_partitions(connection);
    const Backlog its = pair.due_in_reach(connection, job_->options.in_slices, most + 1);
    const bool has_shortcut = pair.reconciler().walk || pair.reconciler().searches;
    (pair.reconciler().is_shortcut ? by_shortcut : has_shortcut ? walked : all.due) += its.due;
    keep_earlier(all.oldest_due, its.oldest_due);
    all.database_time = its.database_time;
  };
  add(*this);
  for (Engine& companion : companions_) add(companion);
  all.due += std::max(walked, by_shortcut);
  return all;
}

// Asked once by each pair that has seen what is due, before it acts. While it holds, each scan of the first pair asks,
// whatever that has found.
bool Engine::may_act(Worker& worker, bool any_due) {
  return root_ == nullptr || root_->lets_act(*this, worker, any_due);
}

bool Engine::lets_act(Engine& acting, Worker& worker, bool any_due) {
  const std::int64_t most = hold_above(job_->scope.settings);
  if (acting.job_->options.dry_run) return true;
  if (most == 0) hold_.reset();
  if (most == 0 || (!any_due && !(hold_ && &acting == this))) return true;
  const Backlog due = due_of_all(worker.connection(), acting, most);
  if (due.due <= most) {
    hold_.reset();
    acting.job_->allowance = most;
    return true;
  }
  if (!hold_) hold_ = Hold{.above = most, .since = due.database_time};
  hold_->above = most;
  const auto& released = acting.job_->options.released;
  hold_->released = hold_->released || (released && released(hold_->since));
  if (hold_->released) return true;
  holds_back_ = true;
  worker.report().scanned += due.due;
  worker.report().oldest_due = due.oldest_due;
  if (worker.report().database_time == UnixMillis{}) worker.report().database_time = due.database_time;
  return false;
}

// More may have fallen due since they were counted: those wait for the next count.
void Engine::keep_to_allowance(Worker& worker, std::vector<Candidate>& rows) {
  std::int64_t left = job_->allowance;
  std::int64_t taken = 0;
  do {
    taken = std::min(left, static_cast<std::int64_t>(rows.size()));
  } while (!job_->allowance.compare_exchange_weak(left, left - taken));
  if (taken == static_cast<std::int64_t>(rows.size())) return;
  rows.resize(static_cast<std::size_t>(taken));
  worker.report().more = true;
}

bool Engine::allowance_is_spent(Worker& worker) {
  if (job_->allowance > 0) return false;
  worker.report().more = true;
  return true;
}

}  // namespace ff::reconcile
