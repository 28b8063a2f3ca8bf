#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/backlog.hpp"
#include "bench/row_by_row.hpp"
#include "bench/sql_file.hpp"
#include "pg/pool.hpp"
#include "reconcile/engine.hpp"
#include "supervisor/thread_fork_join.hpp"

namespace ff::bench {

/// Connections for engines of ours, and a thread for each. The connector must outlive this.
struct Lanes {
  Lanes(const pg::Connector& to, int connections);

  const int count;
  pg::Pool pool;
  supervisor::ThreadForkJoin fork_join;
};

/// A reconciler as the daemon runs it: an engine over all partitions.
class Ours {
 public:
  explicit Ours(std::shared_ptr<Lanes> lanes, const std::string& reconciler = "attempt_timeout");
  /// Over connections of its own.
  Ours(const pg::Connector& connector, int connections)
      : Ours(std::make_shared<Lanes>(connector, connections)) {}

  const reconcile::Reconciler& reconciler() const { return reconciler_; }

  /// Forgets what it has learned of batches and of rows that fail: with a new engine, over the same connections.
  void start_over();
  /// Scans over each connection, and moves nothing: then the server knows the plan of the scan, as it does once a daemon
  /// has been running. (It forgets plans when statistics are made anew.)
  void warm_up();
  /// Counts what is due over each connection: then it knows what tables there are, but has no plan of the scan.
  void count_over_each();
  /// Moves everything that is due over each connection, and takes it back. Throws std::runtime_error when that is
  /// nothing, and pg::Error.
  void rehearse();
  /// One tick; returns how many rows it moved. Throws pg::Error where it could not go on.
  std::int64_t tick();
  std::int64_t due();

 private:
  reconcile::Engine engine(reconcile::ForkJoin& fork_join);
  void over_each_connection(const std::function<void()>& work);

  std::shared_ptr<Lanes> lanes_;
  const reconcile::Reconciler& reconciler_;
  std::optional<reconcile::Engine> engine_;
};

/// Has each of them rehearse a small backlog in all partitions, so that every connection has met every table's
/// children in a page and in an act, as a running daemon's have. The tables are empty, before and afterwards.
void rehearse(pg::Connection& seeding, const std::vector<Ours*>& all);

/// The floor: the final changes of a reconciler to all due rows, as plain bulk statements in one transaction: no locks,
/// no limits, no second look. In sql/RECONCILER/floor.sql, where it would not repeat most of the reconciler's own
/// statements. $1 and $2: the first and the last partition, smallint; $3 now and $4 the latest due time that counts,
/// bigint; $5 the partitions.
class Floor {
 public:
  using Statements = std::vector<SqlStatement>;

  Floor(const pg::Connector& connector, int connections);

  /// Has the server plan the statements, and changes nothing: what Ours::warm_up() is for the others.
  void plan(const Statements& statements);
  /// Over so many partitions. Each connection takes its share of them, all at once.
  void run(const Statements& statements, int partitions, Milliseconds holdoff = Milliseconds{0});

 private:
  struct Share {
    pg::Connection& connection;
    pg::Params params;
  };
  std::vector<Share> shares(int partitions, Milliseconds holdoff);

  std::vector<pg::Connection> connections_;
};

/// What the regimes of attempt_timeout have in common. For each turn there are new lapsed leases and nothing else, and
/// afterwards they have to be moved. Turns return seconds. One thread.
class TimeoutTurns {
 public:
  static constexpr int kConnections = 2;  ///< of ours and of the floor

  /// Rows are made and checked over the short way. The connectors must outlive this.
  TimeoutTurns(const pg::Connector& short_way, const pg::Connector& connector);

  double ours(int rows, int partitions = kPartitions);
  double row_by_row(int rows, int partitions);
  double floor(int rows);

  /// For a turn of ours that is different: new rows, what is to be done to them, and a tick that leaves some.
  void fill(int rows, int partitions = kPartitions);
  double ours_takes(std::int64_t to_move, std::int64_t to_leave = 0);

  pg::Connection& seeding() { return seeding_; }
  void clear() { empty(seeding_); }

 private:
  double timed(const std::function<void()>& work, std::int64_t moves, std::int64_t leaves = 0);

  pg::Connection seeding_;
  pg::Connection rival_;
  const RowByRow row_by_row_{"attempt_timeout"};
  Ours ours_;
  Floor floor_;
  const Floor::Statements& changes_;
};

}  // namespace ff::bench
