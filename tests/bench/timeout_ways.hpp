#pragma once

#include <functional>
#include <optional>
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

  /// Forgets what it has learned of batches and of rows that fail: with a new engine, over the same
  /// connections.
  void start_over();
  /// Looks over each connection, and moves nothing: then the server knows the plan of the look, as it does
  /// once a daemon has been running. (It forgets plans when statistics are made anew.)
  void warm_up();
  /// Moves everything that is due over each connection, and takes it back. Throws std::runtime_error when that
  /// is nothing, and pg::Error.
  void rehearse();
  /// One tick. Throws pg::Error where it could not go on.
  reconcile::TickReport tick();

 private:
  reconcile::Engine engine(reconcile::ForkJoin& fork_join);
  void over_each_connection(const std::function<void()>& work);

  const int connections_;
  pg::Pool pool_;
  supervisor::ThreadForkJoin fork_join_;
  std::optional<reconcile::Engine> engine_;
};

/// Has each of them rehearse a small backlog in all partitions, so that every connection has met every table's
/// children in a page and in an act, as a running daemon's have. The tables are empty, before and afterwards.
void rehearse(pg::Connection& seeding, const std::vector<OurTimeout*>& all);

/// The floor: what attempt_timeout changes, as plain bulk statements in one transaction, without looking,
/// locks or limits. It may only be used where nobody else is at work and every active execution has a lapsed
/// lease. Each connection takes its share of the partitions, all at once.
class TimeoutFloor {
 public:
  TimeoutFloor(const pg::Connector& connector, int connections);

  /// Has the server plan the statements, and changes nothing: what OurTimeout::warm_up() is for the others.
  void plan();
  void run();

 private:
  struct Share {
    pg::Connection connection;
    Partitions partitions;
  };
  std::vector<Share> shares_;
};

}  // namespace ff::bench
