#include <fmt/format.h>

#include <algorithm>

#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "bench/ways.hpp"

namespace ff::bench {
namespace {

constexpr double kWanted = 0.15;
constexpr int kMeasuredTwice = 1'000'000;  // from so many rows on
constexpr int kRivalPartitions = 16;

// How much the dearest exceeds the cheapest.
Goal flat(const std::vector<Way>& ways) {
  const auto [least, most] = std::ranges::minmax(ways, {}, &Way::median);
  const double excess = most.median() / least.median() - 1;
  return {fmt::format("time per row flat within {:.0f}%", 100 * kWanted),
          fmt::format("{:.0f}%", 100 * excess), excess <= kWanted};
}

struct Figures {
  std::vector<int> sizes;
  int rival_rows;
  std::vector<Way> ours = {};  // one of each size, like the floor's
  std::vector<Way> floor = {};
  Way row_by_row = {"row by row", {}};
};

// Microseconds per row.
void measure(const Bench& bench, Figures& figures) {
  TimeoutTurns turns(bench.connector, bench.connector);
  for (const int rows : figures.sizes) {
    figures.ours.push_back({fmt::format("ours, {} rows", figure(rows)), {}});
    figures.floor.push_back({fmt::format("floor, {} rows", figure(rows)), {}});
  }
  for (int round = 0; round < bench.rounds(); ++round) {
    for (std::size_t i = 0; i < figures.sizes.size(); ++i) {
      const int rows = figures.sizes[i];
      if (round > 1 && rows >= kMeasuredTwice) continue;
      figures.ours[i].rounds.push_back(1e6 * turns.ours(rows) / rows);
      figures.floor[i].rounds.push_back(1e6 * turns.floor(rows) / rows);
    }
    figures.row_by_row.rounds.push_back(1e6 * turns.row_by_row(figures.rival_rows, kRivalPartitions) /
                                        figures.rival_rows);
  }
  turns.clear();
}

Curve curve(std::string name, const std::vector<int>& sizes, const std::vector<Way>& ways) {
  Curve line{.name = std::move(name), .points = {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) line.points.emplace_back(sizes[i], ways[i].median());
  return line;
}

Plot plot(const Figures& figures) {
  const double least = figures.sizes.front(), most = figures.sizes.back();
  const double rival = figures.row_by_row.median();
  return {.x = "lapsed leases",
          .y = "microseconds per row",
          .logarithmic_x = true,
          .logarithmic_y = true,
          .curves = {curve("ours", figures.sizes, figures.ours), curve("floor", figures.sizes, figures.floor),
                     Curve{"row by row", {{least, rival}, {most, rival}}}}};
}

}  // namespace

std::vector<Regime> measure_growth(const Bench& bench) {
  Figures figures =
      bench.quick ? Figures{{1'000, 5'000, 20'000}, 500} : Figures{{10'000, 100'000, kMeasuredTwice}, 5'000};
  measure(bench, figures);
  Regime regime{
      .name = "growth",
      .title = fmt::format("attempt_timeout: what a row costs in backlogs of {} to {} lapsed leases in {} "
                           "partitions, over {} connections",
                           figure(figures.sizes.front()), figure(figures.sizes.back()), kPartitions,
                           TimeoutTurns::kConnections),
      .unit = "µs/row",
      .ways = figures.ours,
      .goals = {flat(figures.ours)},
      .plot = plot(figures)};
  regime.ways.insert(regime.ways.end(), figures.floor.begin(), figures.floor.end());
  regime.ways.push_back(figures.row_by_row);
  regime.remarks = {
      fmt::format("row by row: {} rows in {} partitions over one connection; a row costs it the same in a "
                  "backlog of any size",
                  figure(figures.rival_rows), kRivalPartitions),
      "looking and planning are part of the time, and weigh more where there are few rows to share them",
      "before each figure the engine is new, but all its connections have planned a scan and have acted in "
      "all partitions; the floor's have planned their statements"};
  if (!bench.quick) regime.remarks.emplace_back("a million rows: measured twice");
  return {std::move(regime)};
}

}  // namespace ff::bench
