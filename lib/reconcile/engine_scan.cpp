// How an engine asks what is due: whether a scan is worth it, over which partitions, and past those that somebody has
// locked.
#include <algorithm>
#include <iterator>

#include "pg/transaction.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/pager.hpp"

namespace ff::reconcile {
namespace {

// So many groups of partitions more than could be read may be locked, before it is taken for a lock on all of them.
constexpr std::size_t kMostLocked = 2;

}  // namespace

// The pair that finds in the end what a shortcut finds sooner.
Engine& Engine::pair_of(const Engine& shortcut) {
  const auto found = std::ranges::find_if(companions_, [&](const Engine& each) {
    return !each.reconciler().is_shortcut && each.reconciler().act == shortcut.reconciler().act;
  });
  return found == companions_.end() ? *this : *found;
}

void Engine::find_partitions(pg::Connection& connection) {
  const std::string_view count_query = job_->reconciler.partition_count;
  if (count_query.empty()) return;
  const auto count = connection.execute(count_query).one().get<std::int32_t>(0);
  if (static_cast<std::size_t>(count) == job_->groups.partitions()) return;
  job_->groups = Groups(partition_range({0}, {static_cast<std::int16_t>(count - 1)}));
}

// False: nothing would be found.
bool Engine::ask_first(Worker& worker) {
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

bool Engine::is_time_to_ask_again() const {
  if (!job_->told || !job_->told->ask_again) return false;
  const auto now = job_->server_clock.at(job_->clock.now());
  return now && *now >= *job_->told->ask_again + job_->holdoff();
}

// Where somebody holds a child of a table, the groups that other children hold are scanned all the same; that some could
// not be is the report's failure.
std::vector<Candidate> Engine::scan(Worker& worker, const std::vector<GroupSlice>& slices,
                                    Milliseconds ahead) {
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

}  // namespace ff::reconcile
