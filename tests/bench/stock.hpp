#pragma once

#include <string>
#include <vector>

#include "bench/backlog.hpp"
#include "reconcile/reconciler.hpp"

namespace ff::bench {

/// A dense backlog for one reconciler, as sql/RECONCILER/stock.sql makes it, in tables that hold nothing else.
class Stock {
 public:
  /// Throws std::runtime_error when its file cannot be understood. The connection must outlive this.
  Stock(pg::Connection& keeper, const std::string& reconciler);

  const std::string& rows_are() const { return rows_are_; }  ///< what a row is, and what it takes with it
  int per_partition() const { return per_partition_; }       ///< rows, of a full measurement

  /// In place of what was left, adds so many rows, and brings visibility up to date, as an old table's is. Statistics, too,
  /// unless there were as many rows before.
  void fill(int rows, int partitions);
  void clear();

  /// Throws std::runtime_error unless exactly so many rows have been moved since the tables were filled, each once and with
  /// everything that belongs to it, and so many are left: for those reconcilers that have a sql/RECONCILER/check.sql.
  void check(std::int64_t moved, std::int64_t left);

  /// What every table that it or any way of working it off writes holds, in a few letters, without the numbers of events
  /// and the times that were written.
  std::vector<std::string> end_state();

 private:
  void run(std::string_view command);

  pg::Connection& keeper_;
  const std::string reconciler_;
  const std::string& insert_;
  std::string rows_are_;
  int per_partition_;
  Tables tables_;
  bool filled_ = false;
  std::pair<int, int> analyzed_{};
};

/// How old an event of the dependency stock is at least: older than those that are added while it is worked off, which
/// a slow way would otherwise meet and a quick one not.
constexpr Milliseconds kStale = std::chrono::hours{1};

/// The reconciler's defaults, but for kStale.
Settings settings_for_stock(const reconcile::Reconciler& reconciler);

}  // namespace ff::bench
