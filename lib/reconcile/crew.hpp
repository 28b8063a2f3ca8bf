#pragma once

#include <functional>
#include <optional>

#include "reconcile/fork_join.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {

/// The only concurrency there is in a tick: further workers, as far as there are threads and connections to spare.
class Crew {
 public:
  Crew(Job& job, pg::Pool& pool, ForkJoin& fork_join) : job_(job), pool_(pool), fork_join_(fork_join) {}

  /// Calls `work` with this worker and, at the same time, with up to `more` others, and returns when all have returned;
  /// what the others did is then in this worker's report. Throws what `work` throws with this worker.
  void together(Worker& worker, std::size_t more, const std::function<void(Worker&)>& work);

  /// Calls `work` for 0, 1, … below `count`, each once; whoever is done takes the next.
  void for_each(Worker& worker, std::size_t count, const std::function<void(Worker&, std::size_t)>& work);

  /// A worker's report of what `work` did with a connection of its own, its failure included. Throws nothing.
  TickReport alone(pg::PooledConnection connection, const std::function<void(Worker&)>& work);

  /// No further connection was to be had in this tick: nobody else need try.
  void begin_tick() { no_connection_to_spare_ = false; }

 private:
  std::optional<pg::PooledConnection> spare_connection();

  Job& job_;
  pg::Pool& pool_;
  ForkJoin& fork_join_;
  std::atomic<bool> no_connection_to_spare_{false};
};

}  // namespace ff::reconcile
