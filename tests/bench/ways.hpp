#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/backlog.hpp"
#include "bench/row_by_row.hpp"
#include "bench/sql_file.hpp"
#include "bench/stock.hpp"
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
  Ours(std::shared_ptr<Lanes> lanes, const std::string& reconciler);
  /// attempt_timeout, over connections of its own.
  Ours(const pg::Connector& connector, int connections)
      : Ours(std::make_shared<Lanes>(connector, connections), "attempt_timeout") {}

  const reconcile::Reconciler& reconciler() const { return reconciler_; }

  /// A new engine, over the same connections, which has learned nothing of batches and of rows that fail. Each connection
  /// has scanned before, and moved nothing: then the server knows the plan of the scan, as it does once a daemon has been
  /// running. (It forgets plans when statistics are made anew.)
  void start_over();
  /// Moves everything that is due over each connection, and takes it back. Throws std::runtime_error when that is
  /// nothing, and pg::Error.
  void rehearse();
  /// One tick; returns how many rows it moved. Throws pg::Error where it could not go on.
  std::int64_t tick();
  /// By an engine that knows nothing of rows that fail.
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
void rehearse(Stock& stock, const std::vector<Ours*>& all);

/// The floor: the final changes of a reconciler to all due rows, as plain bulk statements in one transaction: no locks,
/// no limits, no second look. In sql/RECONCILER/floor.sql, where it would not repeat most of the reconciler's own
/// statements. $1 and $2: the first and the last partition, smallint; $3 now and $4 the latest due time that counts,
/// bigint; $5 the partitions.
class Floor {
 public:
  /// `holdoff`: how long after its due time a row may be taken. The tables must have no rows: a first run meets them.
  Floor(const pg::Connector& connector, int connections, const std::string& reconciler, Milliseconds holdoff);

  bool exists() const { return !statements_.empty(); }
  /// Has the server plan the statements, and changes nothing.
  void plan() { execute("EXPLAIN ", kPartitions); }
  /// Over so many partitions. Each connection takes its share of them, all at once.
  void run(int partitions) { execute("", partitions); }

 private:
  void execute(const std::string& prefix, int partitions);

  const std::vector<SqlStatement> statements_;
  const Milliseconds holdoff_;
  std::vector<pg::Connection> connections_;
};

}  // namespace ff::bench
