#include "bench/growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "bench/backlog.hpp"
#include "bench/compare.hpp"
#include "bench/row_by_row.hpp"
#include "bench/timeout_ways.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnections = 2;
constexpr auto kConnectTime = 10s;
constexpr double kWanted = 0.15;
constexpr int kMeasuredTwice = 1'000'000;  // from so many rows on

// Microseconds per row.
double cost(int rows, const std::function<void()>& work) {
  const SteadyTime started = Clock::system().now();
  work();
  return 1e6 * seconds_since(started) / rows;
}

class Growth {
 public:
  explicit Growth(const Bench& bench)
      : seeding_(backstage(bench.connector)),
        rival_(bench.connector.connect(Clock::system().now() + kConnectTime)),
        ours_(bench.connector, kConnections),
        floor_(bench.connector, kConnections) {
    floor_.run();
    rehearse(seeding_, {&ours_});
  }

  double ours(int rows) {
    fill(rows, kPartitions);
    ours_.start_over();
    ours_.warm_up();
    return measured(rows, [&] { ours_.tick(); });
  }
  double floor(int rows) {
    fill(rows, kPartitions);
    floor_.plan();
    return measured(rows, [&] { floor_.run(); });
  }
  double row_by_row(int rows, int partitions) {
    fill(rows, partitions);
    const Partitions all = partition_range({0}, {static_cast<std::int16_t>(partitions - 1)});
    return measured(rows, [&] { attempt_timeout_row_by_row(rival_, all); });
  }
  void clear() { empty_tables(seeding_); }

 private:
  void fill(int rows, int partitions) {
    empty_tables(seeding_);
    add_lapsed_leases(seeding_, rows, partitions);
  }
  double measured(int rows, const std::function<void()>& work) {
    const double each = cost(rows, work);
    expect_moved(seeding_, rows);
    return each;
  }

  pg::Connection seeding_;
  pg::Connection rival_;
  OurTimeout ours_;
  TimeoutFloor floor_;
};

// How much the dearest exceeds the cheapest.
Goal flat(const std::vector<Way>& ways) {
  const auto [least, most] = std::minmax_element(
      ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.median() < b.median(); });
  const double excess = most->median() / least->median() - 1;
  return {fmt::format("time per row flat within {:.0f}%", 100 * kWanted),
          fmt::format("{:.0f}%", 100 * excess), excess <= kWanted};
}

Curve curve(std::string name, const std::vector<int>& sizes, const std::vector<Way>& ways) {
  Curve line{.name = std::move(name), .points = {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) line.points.emplace_back(sizes[i], ways[i].median());
  return line;
}

constexpr int kRivalPartitions = 16;

struct Figures {
  std::vector<int> sizes;
  int rival_rows;
  std::vector<Way> ours = {};  // one of each size, like the floor's
  std::vector<Way> floor = {};
  Way row_by_row = {"row by row", {}};
};

void measure(const Bench& bench, Figures& figures) {
  Growth growth(bench);
  for (const int rows : figures.sizes) {
    figures.ours.push_back({fmt::format("ours, {} rows", figure(rows)), {}});
    figures.floor.push_back({fmt::format("floor, {} rows", figure(rows)), {}});
  }
  for (int round = 0; round < bench.rounds(); ++round) {
    for (std::size_t i = 0; i < figures.sizes.size(); ++i) {
      if (round > 1 && figures.sizes[i] >= kMeasuredTwice) continue;
      figures.ours[i].rounds.push_back(growth.ours(figures.sizes[i]));
      figures.floor[i].rounds.push_back(growth.floor(figures.sizes[i]));
    }
    figures.row_by_row.rounds.push_back(growth.row_by_row(figures.rival_rows, kRivalPartitions));
  }
  growth.clear();
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
  Regime regime{.name = "growth",
                .title = fmt::format(
                    "attempt_timeout: what a row costs in backlogs of {} to {} lapsed leases in {} "
                    "partitions, over {} connections",
                    figure(figures.sizes.front()), figure(figures.sizes.back()), kPartitions, kConnections),
                .unit = "µs/row",
                .ways = figures.ours,
                .goals = {flat(figures.ours)}};
  regime.ways.insert(regime.ways.end(), figures.floor.begin(), figures.floor.end());
  regime.ways.push_back(figures.row_by_row);
  regime.remarks = {
      fmt::format("row by row: {} rows in {} partitions over one connection; a row costs it the same in a "
                  "backlog of any size",
                  figure(figures.rival_rows), kRivalPartitions),
      "looking and planning are part of the time, and weigh more where there are few rows to share them",
      "before each figure the engine is new, but all its connections have planned a look and have acted in "
      "all "
      "partitions; the floor's have planned their statements"};
  if (!bench.quick) regime.remarks.emplace_back("a million rows: measured twice");
  regime.plot = plot(figures);
  return {std::move(regime)};
}

}  // namespace ff::bench
