#include "reconcile/crew.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>

namespace ff::reconcile {
namespace {

// How long a further worker waits for a connection; the tick does not end before.
constexpr Milliseconds kPatience{500};

// The end of the batch that begins at `from`, of rows sorted by group.
std::size_t end_of_batch(Candidates rows, std::size_t from, std::size_t most_rows, const Groups& groups,
                         std::size_t most_groups) {
  const auto group_at = [&](std::size_t i) { return groups.of(rows[i].key.partition); };
  std::size_t end = from;
  for (std::size_t its_groups = 0; end < rows.size() && end - from < most_rows; ++end) {
    const bool another = end == from || group_at(end) != group_at(end - 1);
    if (another && ++its_groups > most_groups) break;
  }
  return end;
}

}  // namespace

void Crew::together(Worker& worker, std::size_t more, const std::function<void(Worker&)>& work) {
  std::mutex mutex;
  std::vector<TickReport> others;
  const auto help = [&] {
    auto connection = spare_connection();
    if (!connection) return;
    TickReport report = alone(std::move(*connection), work);
    const std::lock_guard lock(mutex);
    others.push_back(std::move(report));
  };
  const auto add_others = [&] {
    for (TickReport& other : others) worker.report().add(std::move(other));
  };
  try {
    fork_join_.run(
        no_connection_to_spare_ ? 0 : more, [&] { work(worker); }, help);
  } catch (...) {
    add_others();
    throw;
  }
  add_others();
}

void Crew::for_each(Worker& worker, std::size_t count,
                    const std::function<void(Worker&, std::size_t)>& work) {
  if (count == 0) return;
  std::atomic<std::size_t> taken{0};
  together(worker, count - 1, [&](Worker& any) {
    for (std::size_t i = taken++; i < count; i = taken++) work(any, i);
  });
}

std::vector<Candidate> Crew::move(Worker& worker, std::vector<Candidate> rows) {
  // What has failed before goes alone: most of it fails again, and would cost the others of a batch their first try.
  const auto failed = std::stable_partition(
      rows.begin(), rows.end(), [&](const Candidate& row) { return !job_.quarantine.contains(row.key); });
  const Candidates fresh(rows.begin(), failed);
  const std::size_t most_groups = job_.one_group_each ? 1
                                                      : std::min(job_.statements.lock.groups_together(),
                                                                 job_.statements.act.groups_together());
  std::mutex mutex;
  std::size_t from = 0;
  const auto next = [&](Worker& any) -> Candidates {
    const std::lock_guard lock(mutex);
    if (from == fresh.size() || (from == 0 ? !any.may_begin_one() : any.out_of_time())) return {};
    const std::size_t begin = from;
    from = end_of_batch(fresh, begin, job_.batch_size.now(), job_.groups, most_groups);
    return fresh.subspan(begin, from - begin);
  };
  const auto work = [&](Worker& any) {
    for (Candidates batch = next(any); !batch.empty(); batch = next(any)) any.move_rows(batch);
  };
  const std::size_t whole_batches = fresh.size() / job_.batch_size.now();
  if (whole_batches > 1 && !job_.reconciler.rows_meet)
    together(worker, whole_batches - 1, work);
  else
    work(worker);
  std::vector<Candidate> left(fresh.begin() + static_cast<std::ptrdiff_t>(from), fresh.end());
  for (const Candidate& row : Candidates(failed, rows.end()))
    if (worker.out_of_time())
      left.push_back(row);
    else
      worker.move_rows({&row, 1});
  return left;
}

TickReport Crew::lead(const std::function<void(Worker&)>& work) {
  try {
    return alone(connection(), work);
  } catch (const pg::Error& error) {
    TickReport report;
    report.failure = error;
    return report;
  }
}

// What went wrong with the whole is part of its report, so that what was committed before is not forgotten.
TickReport Crew::alone(pg::PooledConnection connection, const std::function<void(Worker&)>& work) {
  Worker worker(job_, std::move(connection));
  try {
    work(worker);
    worker.wait_for_held();
  } catch (const pg::Error& error) {
    // What ends all goes before what was of some partitions only.
    const bool is_of_all = error.connection_lost() || error.not_writable() || error.interrupted();
    if (!worker.report().failure || is_of_all) worker.report().failure = error;
  } catch (const std::exception& error) {
    // Not the database but we ourselves are at fault.
    if (!worker.report().failure)
      worker.report().failure =
          pg::Error(pg::Error::Kind::internal, std::string("internal error: ") + error.what());
  }
  return std::move(worker.report());
}

// A tick can do without: the server may have no more connections to give than the one it has.
std::optional<pg::PooledConnection> Crew::spare_connection() {
  try {
    return pool_.acquire(Clock::system().now() + kPatience, name_);
  } catch (const pg::Error& error) {
    spdlog::debug("{}: no further connection for a large backlog: {}", job_.reconciler.name, error.what());
    no_connection_to_spare_ = true;
    return std::nullopt;
  }
}

}  // namespace ff::reconcile
