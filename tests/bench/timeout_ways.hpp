#pragma once

#include <vector>

#include "pg/pool.hpp"
#include "reconcile/engine.hpp"
#include "supervisor/thread_fork_join.hpp"

namespace ff::bench {

/// attempt_timeout as the daemon runs it: an engine over all partitions with a pool of its own and a thread
/// for each connection. The connector must outlive this.
class OurTimeout {
 public:
  OurTimeout(const pg::Connector& connector, int connections);

  /// Looks, and moves nothing: then the server knows the plan of the look, as it does once a daemon has been
  /// running. (It forgets plans when statistics are made anew.)
  void look();
  /// One tick. Throws pg::Error where it could not go on.
  reconcile::TickReport tick();

 private:
  pg::Pool pool_;
  supervisor::ThreadForkJoin fork_join_;
  reconcile::Engine engine_;
};

/// The floor: what attempt_timeout changes, as plain bulk statements in one transaction, without looking,
/// locks or limits. It may only be used where nobody else is at work and every active execution has a lapsed
/// lease. Each connection takes its share of the partitions, all at once.
class TimeoutFloor {
 public:
  TimeoutFloor(const pg::Connector& connector, int connections);

  void run();

 private:
  struct Share {
    pg::Connection connection;
    Partitions partitions;
  };
  std::vector<Share> shares_;
};

}  // namespace ff::bench
