#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/partitions.hpp"
#include "pg/connect.hpp"
#include "reconcile/reconciler.hpp"

namespace ff::bench {

constexpr int kPartitions = 256;
/// The first so many.
Partitions first_partitions(int count = kPartitions);

/// For what is not measured: ten minutes from now.
SteadyTime patiently();

/// A session, within ten seconds.
pg::Connection connect(const pg::Connector& connector);

/// One for preparing and checking, whose own commits need not wait for the disk: a checkpoint follows them.
pg::Connection backstage(const pg::Connector& connector);

using Tables = std::vector<std::string>;

/// All in which a measurement leaves rows when it fails.
const Tables& all_tables();
/// Those that leases and their end touch.
const Tables& lease_tables();

/// Statistics and visibility of what was added or changed, as old tables' are; everything is on disk afterwards.
void settle(pg::Connection& connection, const Tables& tables = lease_tables());

/// To truncate 256 children takes a second, however little they hold; above that, new files are made faster than the old
/// ones are emptied.
constexpr std::int64_t kLarge = 256LL << 20;

/// Deletes all rows, and what they leave in the files. `large`: from so many bytes on a table's files are made anew.
void empty(pg::Connection& connection, const Tables& tables = all_tables(), std::int64_t large = kLarge);

/// The database's clock.
std::int64_t database_now_ms(pg::Connection& connection);

/// Adds `count` active executions with a lapsed lease each, dealt out over so many partitions; every other one in a
/// partition has three retries. Then brings statistics and visibility up to date, as an old table's are.
void add_lapsed_leases(pg::Connection& connection, int count, int partitions = kPartitions);

/// The same, with nothing brought up to date, of leases that lapse at this moment: one in each partition.
void add_a_lapsed_lease_each(pg::Connection& connection);

/// Adds `count` active executions whose leases hold for hours, over all partitions.
void add_healthy_leases(pg::Connection& connection, int count);

/// Throws std::runtime_error unless exactly so many lapsed leases have been moved since the tables were empty, each once
/// and with everything that belongs to it, and so many are left.
void expect_moved(pg::Connection& connection, std::int64_t moved, std::int64_t left = 0);

/// Active executions with a lease each, dealt out over all partitions. They have been reclaimed as often as lease_expiry
/// does it, so that attempt_timeout takes them, whichever of the two are on.
struct LeaseRows {
  int count = 0;
  std::string name_space;  ///< that the events will carry
  /// The leases lapse at random moments from here on for so long. As it is: long ago, few at the same one (of
  /// equal times a scan has to sort all).
  std::int64_t from_ms = 1000;
  std::int64_t length_ms = 1'000'000;
  bool retries = true;  ///< their executions have retries left; else they will expire
};

/// Adds them. What falls due when stays in ff_attempt.raw_fields as `due_ms`.
void add_leases(pg::Connection& connection, const LeaseRows& rows);

/// Takes the leases out again, and all that was made of them.
void clear_leases(pg::Connection& connection, const Tables& tables = lease_tables());

/// How many leases there are, lapsed or not, of executions in that namespace.
std::int64_t leases_left(pg::Connection& connection, const std::string& name_space);

/// Leases that were taken away, in a namespace: that of add_lapsed_leases() is "bench".
struct TakenLeases {
  std::int64_t executions = 0;
  std::int64_t events = 0;  ///< that say so
  std::int64_t twice = 0;   ///< executions with more than one
};
TakenLeases taken_leases(pg::Connection& connection, const std::string& name_space = "bench");

/// Throws std::runtime_error unless each of the namespace's `expected` executions has exactly one event `expired` and no
/// lease any more.
void require_all_expired_once(pg::Connection& connection, const std::string& name_space,
                              std::int64_t expected);

/// A dense backlog for one reconciler, as sql/RECONCILER/stock.sql makes it.
class Stock {
 public:
  /// Throws std::runtime_error when its file cannot be understood.
  explicit Stock(const std::string& reconciler);

  const std::string& rows_are() const { return rows_are_; }  ///< what a row is, and what it takes with it
  int per_partition() const { return per_partition_; }       ///< rows, of a full measurement
  /// Every table that it or any way of working it off writes.
  const std::vector<std::string>& tables() const { return tables_; }

  /// Adds so many rows, and brings visibility up to date, as an old table's is.
  void add(pg::Connection& connection, int rows, int partitions) const;
  /// Brings statistics up to date. They stay when the rows are deleted and the same are added again.
  void analyze(pg::Connection& connection) const;
  void clear(pg::Connection& connection) const;

 private:
  const std::string& insert_;
  std::string rows_are_;
  int per_partition_;
  std::vector<std::string> tables_;
};

/// How old an event of the dependency stock is at least: older than those that are added while it is worked off, which
/// a slow way would otherwise meet and a quick one not.
constexpr Milliseconds kStale = std::chrono::hours{1};

/// The reconciler's defaults, but for kStale.
Settings settings_for_stock(const reconcile::Reconciler& reconciler);

}  // namespace ff::bench
