#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/family_floor.hpp"
#include "bench/family_rival.hpp"
#include "bench/family_stock.hpp"
#include "pg/pool.hpp"
#include "reconcile/engine.hpp"
#include "supervisor/thread_fork_join.hpp"

namespace ff::bench {

/// The connections to one database, for one contest after the other: a new one would have to learn first
/// what tables there are.
struct Lanes {
  static constexpr int kOurs = 2;

  /// The connector must outlive this.
  explicit Lanes(const pg::Connector& to);

  const pg::Connector& connector;
  pg::Pool ours;
  supervisor::ThreadForkJoin fork_join{kOurs - 1};
  std::vector<pg::Connection> floor;  ///< as many as ours
  pg::Connection keeper;              ///< adds and deletes rows
};

/// One reconciler's backlog, and the ways of working it off. One thread.
class Contest {
 public:
  enum class Way { ours, row_by_row, floor };
  /// Equal: everything is written out before a way starts, so that none pays for what was before it. That
  /// takes longer than a small backlog.
  enum class Conditions { any, equal };

  /// The lanes must outlive this.
  Contest(Lanes& lanes, const reconcile::Reconciler& reconciler, Conditions conditions);

  /// Those that there are for the reconciler, ours first.
  std::vector<Way> ways() const;
  const Stock& stock() const { return stock_; }

  /// Makes a backlog, works it off in `worked_off` of its partitions (which only row by row need not do in
  /// all, and the last of which it has to warm up with), and returns the rows a second. Throws
  /// std::runtime_error when more or fewer rows than those of these partitions were moved or are not due any
  /// more. The backlog is left as it is then.
  double measure(Way way, int rows, int partitions, int worked_off);

  /// What every table holds, in a few letters, without the numbers of events and the times that were written.
  std::vector<std::string> end_state();

  void clear() { clear_stock(lanes_.keeper, stock_); }

 private:
  std::int64_t get_ready(Way way, int partitions);
  std::optional<std::int64_t> work(Way way, int partitions);
  std::int64_t due();

  const Conditions conditions_;
  const Stock& stock_;
  const RowByRow& row_by_row_;
  const std::vector<std::string>& floor_;
  const Settings settings_;
  const Milliseconds holdoff_;

  Lanes& lanes_;
  reconcile::Engine engine_;
  pg::Connection rival_;  // its own: the same words may have other parameters in another contest
  bool stocked_ = false;
};

}  // namespace ff::bench
