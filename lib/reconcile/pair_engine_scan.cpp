// How a pair's engine asks what is due, for a tick or to count it: whether a scan is worth it, over which partitions, and
// past those that somebody has locked.
#include <algorithm>
#include <iterator>

#include "pg/transaction.hpp"
#include "reconcile/pager.hpp"
#include "reconcile/pair_engine.hpp"

namespace ff::reconcile {
namespace {

// So many groups of partitions more than could be read may be locked, before it is taken for a lock on all of them.
constexpr std::size_t kMostLocked = 2;

// How far ahead a backlog's next due row is looked for.
constexpr Milliseconds kBacklogHorizon = std::chrono::hours{24};

}  // namespace

void PairEngine::find_partitions(pg::Connection& connection) {
  const std::string_view count_query = job_->reconciler.partition_count;
  if (count_query.empty()) return;
  const auto count = connection.execute(count_query).one().get<std::int32_t>(0);
  const Partitions all = all_partitions(count);
  if (!job_->groups.are_of(all)) job_->groups = Groups(all);
}

// False: nothing would be found.
bool PairEngine::ask_first(Worker& worker) {
  if (!job_->prelude) return true;
  pg::Transaction transaction(worker.connection(), {.plan = pg::Plan::generic});
  const SteadyTime sent = job_->clock.now();
  const bool worth_a_scan = job_->ask(transaction);
  transaction.rollback();
  job_->learn_time({sent, job_->clock.now(), job_->told->database_time});
  if (worker.report().database_time == UnixMillis{})
    worker.report().database_time = job_->told->database_time;
  return worth_a_scan;
}

bool PairEngine::is_time_to_ask_again() const {
  if (!job_->told || !job_->told->ask_again) return false;
  const auto now = job_->shared->server_clock.at(job_->clock.now());
  return now && *now >= *job_->told->ask_again + job_->holdoff();
}

// Where somebody holds a child of a table, the groups that other children hold are scanned all the same; that some could
// not be is the report's failure.
std::vector<Candidate> PairEngine::scan(Worker& worker, std::vector<GroupSlice> slices, Milliseconds ahead) {
  std::erase_if(
      slices, [&](const GroupSlice& each) { return !job_->is_worth_a_scan(job_->groups.all()[each.group]); });
  std::vector<Candidate> all;
  std::size_t read = 0;
  std::size_t locked = 0;
  for (std::size_t from = 0; from < slices.size();) {
    const std::size_t most = job_->one_group_each ? 1 : job_->statements.page.groups_together();
    const std::size_t to = std::min(from + most, slices.size());
    std::vector<Question> questions;
    for (std::size_t i = from; i < to; ++i)
      questions.push_back(page(*job_, slices[i].slice.partitions_of(job_->groups.all()[slices[i].group]),
                               slices[i].slice, cursor_.depth(), ahead));
    try {
      std::ranges::move(worker.read(questions), std::back_inserter(all));
      read += to - from;
    } catch (const pg::Error& error) {
      if (!error.table_locked() || slices.size() == 1) throw;
      if (to - from > 1) {
        job_->one_group_each = true;
        continue;
      }
      // Each has cost the longest wait for a lock.
      if (++locked > kMostLocked + read) throw;
      worker.report().failure = error;
    }
    from = to;
  }
  return all;
}

Backlog PairEngine::backlog(std::int64_t cap) {
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
void PairEngine::count_due(pg::Connection& connection, const std::vector<GroupSlice>& slices,
                           std::int64_t cap, Backlog& backlog) {
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

// Rows in quarantine are due for as long as they fail, and are not tried; as many more are counted.
Backlog PairEngine::due_in_reach(pg::Connection& connection, bool in_slices, std::int64_t cap) {
  const auto slices = in_slices && reconciler().walk ? cursor_.next_slice(connection) : whole(job_->groups);
  const auto quarantined = static_cast<std::int64_t>(job_->quarantine.size());
  Backlog backlog;
  count_due(connection, slices, cap + quarantined, backlog);
  backlog.due = std::max<std::int64_t>(backlog.due - quarantined, 0);
  return backlog;
}

}  // namespace ff::reconcile
