#include <fmt/format.h>

#include <algorithm>

#include "bench/bench.hpp"
#include "bench/contest.hpp"

namespace ff::bench {
namespace {

constexpr int kMeasuredTwice = 1'000'000;  // from so many rows on

/// Ours and the floor over a backlog of one size, in microseconds per row.
struct Size {
  explicit Size(int rows)
      : backlog{.rows = rows},
        ours{fmt::format("ours, {} rows", figure(rows))},
        floor{fmt::format("floor, {} rows", figure(rows))} {}
  Contest::Backlog backlog;
  Way ours;
  Way floor;
};

void measure(Contest& contest, std::vector<Size>& sizes, const Contest::Backlog& of_rival, Way& row_by_row,
             int rounds) {
  const auto turn = [&](Way& way, Contest::Who who, const Contest::Backlog& backlog) {
    way.rounds.push_back(1e6 / contest.rate(who, backlog));
  };
  for (int round = 0; round < rounds; ++round) {
    for (Size& size : sizes) {
      if (round > 1 && size.backlog.rows >= kMeasuredTwice) continue;
      turn(size.ours, Contest::Who::ours, size.backlog);
      turn(size.floor, Contest::Who::floor, size.backlog);
    }
    turn(row_by_row, Contest::Who::row_by_row, of_rival);
  }
  contest.clear();
}

// A row costs row by row the same in a backlog of any size.
std::vector<Curve> curves(const std::vector<Size>& sizes, const Way& row_by_row) {
  Curve ours{"ours"}, floor{"floor"}, rival{"row by row"};
  for (const Size& size : sizes) {
    ours.points.emplace_back(size.backlog.rows, size.ours.median());
    floor.points.emplace_back(size.backlog.rows, size.floor.median());
    rival.points.emplace_back(size.backlog.rows, row_by_row.median());
  }
  return {std::move(ours), std::move(floor), std::move(rival)};
}

}  // namespace

std::vector<Findings> measure_growth(const Bench& bench) {
  std::vector<Size> sizes;
  for (const int rows :
       bench.quick ? std::vector{1'000, 5'000, 20'000} : std::vector{10'000, 100'000, kMeasuredTwice})
    sizes.emplace_back(rows);
  const Contest::Backlog of_rival{.rows = bench.quick ? 500 : 5'000, .partitions = 16};
  Way row_by_row{"row by row"};
  Contest contest(bench.connector, "attempt_timeout");
  measure(contest, sizes, of_rival, row_by_row, bench.rounds());

  const auto by_median = [](const Size& size) { return size.ours.median(); };
  const auto [least, most] = std::ranges::minmax(sizes, {}, by_median);
  Findings found{.regime = "growth",
                 .numbers = {{"least", sizes.front().backlog.rows},
                             {"most", sizes.back().backlog.rows},
                             {"connections", Contest::kConnections},
                             {"rival_rows", of_rival.rival_rows()},
                             {"rival_partitions", of_rival.partitions - 1},
                             {"excess", 100 * (most.ours.median() / least.ours.median() - 1)}},
                 .curves = curves(sizes, row_by_row)};
  for (const Size& size : sizes) found.ways.push_back(size.ours);
  for (const Size& size : sizes) found.ways.push_back(size.floor);
  found.ways.push_back(std::move(row_by_row));
  if (!bench.quick) found.words["measured_twice"] = "a million rows";
  return {std::move(found)};
}

}  // namespace ff::bench
