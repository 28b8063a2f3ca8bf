#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench.hpp"
#include "bench/figures.hpp"
#include "bench/stock.hpp"
#include "bench/ways.hpp"

namespace ff::bench {

/// One reconciler's backlog, and the ways of working it off. One thread.
class Contest {
 public:
  static constexpr int kConnections = 2;  ///< of ours and of the floor

  enum class Who { ours, row_by_row, floor };

  /// A backlog, dealt out over so many partitions.
  struct Backlog {
    int rows = 0;
    int partitions = kPartitions;
    /// Row by row need not work off all of them: it has a part, as dense as all, because with fewer rows in all of them it
    /// would pay more listing per row.
    int rival_partitions = partitions;
    /// Sees to it that some rows cannot be moved, and returns how many.
    std::function<std::int64_t()> spoil = {};

    int rows_in_first(int some_partitions) const;
    /// How many row by row is timed with: with the last of the partitions it has warmed up.
    int rival_rows() const { return rows_in_first(rival_partitions - 1); }
  };

  /// The tables must have no rows. Rows are made and checked over the short way. Ours has rehearsed. With checkpoints
  /// everything is written out before a way starts, so that none pays for what was before it: that takes longer than a
  /// small backlog. The connectors must outlive this.
  Contest(const pg::Connector& short_way, const pg::Connector& connector, const std::string& reconciler,
          bool checkpoints = true);
  Contest(const pg::Connector& connector, const std::string& reconciler, bool checkpoints = true)
      : Contest(connector, connector, reconciler, checkpoints) {}

  /// Those that there are for the reconciler, ours first.
  std::vector<Who> ways() const;
  Stock& stock() { return stock_; }
  /// The connection that adds, checks and deletes rows.
  pg::Connection& keeper() { return keeper_; }

  /// Makes the backlog, works it off, and returns the rows a second. Throws std::runtime_error when more or fewer rows than
  /// can be were moved or are not due any more. What is left stays until the next one, or clear().
  double rate(Who who, const Backlog& backlog);
  /// All that there are, in turns.
  std::vector<Way> rates(const Backlog& backlog, int rounds);
  void clear() { stock_.clear(); }

 private:
  std::int64_t get_ready(Who who, int partitions);
  std::optional<std::int64_t> work(Who who, int partitions);

  const bool checkpoints_;
  const std::string name_;
  const RowByRow row_by_row_;

  pg::Connection keeper_;
  Stock stock_;
  Ours ours_;
  const Milliseconds holdoff_;
  Floor floor_;
  pg::Connection rival_;
};

std::string name_of(Contest::Who who);

}  // namespace ff::bench
