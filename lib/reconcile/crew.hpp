#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reconcile/fork_join.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {

/// The only concurrency there is in a tick: further workers, as far as there are threads and connections to spare.
class Crew {
 public:
  /// `number`: of the pair in its reconciler.
  Crew(Job& job, pg::Pool& pool, ForkJoin& fork_join, int number)
      : job_(job),
        pool_(pool),
        fork_join_(fork_join),
        name_(std::string(job.reconciler.name) + ' ' + std::to_string(number)) {}

  /// Calls `work` with this worker and, at the same time, with up to `more` others, and returns when all have returned;
  /// what the others did is then in this worker's report. Throws what `work` throws with this worker.
  void together(Worker& worker, std::size_t more, const std::function<void(Worker&)>& work);

  /// Calls `work` for 0, 1, … below `count`, each once; whoever is done takes the next.
  void for_each(Worker& worker, std::size_t count, const std::function<void(Worker&, std::size_t)>& work);

  /// Moves the rows, which are sorted by group, in batches, one group after the other, with others where they are many.
  /// Returns those that it did not come to.
  std::vector<Candidate> move(Worker& worker, std::vector<Candidate> rows);

  /// The report of what `work` did with the tick's first worker, its failure included. Never throws pg::Error.
  TickReport lead(const std::function<void(Worker&)>& work);

  /// One that has served this pair, if there is. Throws pg::Error.
  pg::PooledConnection connection() { return pool_.acquire(name_); }

  /// No further connection was to be had in the last tick: in this one it may.
  void begin_tick() { no_connection_to_spare_ = false; }

 private:
  TickReport alone(pg::PooledConnection connection, const std::function<void(Worker&)>& work);
  std::optional<pg::PooledConnection> spare_connection();

  Job& job_;
  pg::Pool& pool_;
  ForkJoin& fork_join_;
  const std::string name_;  // by which the pool knows whose plans a session has
  std::atomic<bool> no_connection_to_spare_{false};
};

}  // namespace ff::reconcile
