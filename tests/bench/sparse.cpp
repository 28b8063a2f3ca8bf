#include "bench/sparse.hpp"

#include <fmt/format.h>

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
constexpr int kHealthy = 25'600;
constexpr int kTurnsPerRound = 5;

double milliseconds(const std::function<void()>& work) {
  const SteadyTime started = Clock::system().now();
  work();
  return 1000 * seconds_since(started);
}

}  // namespace

std::vector<Regime> measure_sparse(const Bench& bench) {
  auto seeding = backstage(bench.connector);
  auto rival = bench.connector.connect(Clock::system().now() + kConnectTime);
  OurTimeout ours(bench.connector, kConnections);
  const std::vector<std::function<void()>> works = {
      [&] { ours.tick(); }, [&] { attempt_timeout_row_by_row(rival, all_partitions()); }};
  std::vector<Way> ways = {{"ours", {}}, {"row by row", {}}};

  // Statistics are made before the first turn and never again: with them plans are forgotten, and here those of
  // a program that has been running for a while are measured. So the first turn does not count.
  add_healthy_leases(seeding, kHealthy);
  std::int64_t moved = 0;
  for (int turn = 0; turn <= bench.rounds() * kTurnsPerRound; ++turn) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      add_a_lapsed_lease_each(seeding);
      const double took = milliseconds(works[way]);
      expect_moved(seeding, moved += kPartitions);
      if (turn > 0) ways[way].rounds.push_back(took);
    }
  }
  empty_tables(seeding);

  Regime regime{.name = "sparse",
                .title = fmt::format("attempt_timeout: one lapsed lease in each of {} partitions, beside {} "
                                     "that hold: the time of one pass over all, the look included",
                                     kPartitions, figure(kHealthy)),
                .unit = "ms",
                .ways = std::move(ways)};
  regime.goals = {at_least_times(6, median_ratio(regime.ways[1], regime.ways[0]), "as fast as row by row")};
  regime.remarks = {
      fmt::format("medians of {} passes each, in turns, with statements planned by an earlier pass",
                  regime.ways[0].rounds.size())};
  return {std::move(regime)};
}

}  // namespace ff::bench
