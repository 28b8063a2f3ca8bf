#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/backlog.hpp"
#include "bench/ways.hpp"

namespace ff::bench {

/// The connections to one database, for one contest after the other: a new one would have to learn first
/// what tables there are.
struct Sessions {
  static constexpr int kOurs = 2;

  /// The connector must outlive this.
  explicit Sessions(const pg::Connector& to)
      : connector(to), ours(std::make_shared<Lanes>(to, kOurs)), floor(to, kOurs), keeper(backstage(to)) {}

  const pg::Connector& connector;
  std::shared_ptr<Lanes> ours;
  Floor floor;            ///< over as many as ours
  pg::Connection keeper;  ///< adds and deletes rows
};

/// One reconciler's backlog, and the ways of working it off. One thread.
class Contest {
 public:
  enum class Way { ours, row_by_row, floor };
  /// Equal: everything is written out before a way starts, so that none pays for what was before it. That
  /// takes longer than a small backlog.
  enum class Conditions { any, equal };

  /// The sessions must outlive this.
  Contest(Sessions& sessions, const reconcile::Reconciler& reconciler, Conditions conditions);

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

  void clear() { stock_.clear(sessions_.keeper); }

 private:
  std::int64_t get_ready(Way way, int partitions);
  std::optional<std::int64_t> work(Way way, int partitions);

  const Conditions conditions_;
  const std::string name_;
  const Stock stock_;
  const RowByRow row_by_row_;
  const Floor::Statements floor_;  // none: there is no floor
  const Milliseconds holdoff_;

  Sessions& sessions_;
  Ours ours_;
  pg::Connection rival_;  // its own: the same words may have other parameters in another contest
  bool stocked_ = false;
};

}  // namespace ff::bench
