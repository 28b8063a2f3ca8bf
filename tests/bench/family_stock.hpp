#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pg/connection.hpp"
#include "reconcile/reconciler.hpp"

namespace ff::bench {

/// A dense backlog for one reconciler, as stock_insert() makes it.
struct Stock {
  std::string_view name;                 ///< of the reconciler
  std::string_view rows_are;             ///< for people: what a row is, and what it takes with it
  int per_partition;                     ///< rows, of a full measurement
  std::vector<std::string_view> tables;  ///< every table that it or any way of working it off writes
};

/// Throws std::out_of_range when there is none for the reconciler.
const Stock& stock_of(std::string_view reconciler);

/// How old an event of the dependency stock is at least: older than those that are added while it is worked off, which
/// a slow way would otherwise meet and a quick one not.
constexpr Milliseconds kStale = std::chrono::hours{1};

/// The reconciler's defaults, but for kStale.
Settings settings_for_stock(const reconcile::Reconciler& reconciler);

/// Adds so many rows, and brings visibility up to date, as an old table's is.
void stock_up(pg::Connection& connection, const Stock& stock, int rows, int partitions);

/// Brings statistics up to date. They stay when the rows are deleted and the same are added again.
void analyze_stock(pg::Connection& connection, const Stock& stock);

/// Deletes every row of the stock's tables and makes the room free again. Several times as fast as TRUNCATE,
/// which makes and flushes a new file for each of 256 children and their indexes.
void clear_stock(pg::Connection& connection, const Stock& stock);

}  // namespace ff::bench
