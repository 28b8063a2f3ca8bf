#include <fmt/format.h>

#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "bench/ways.hpp"

namespace ff::bench {
namespace {

constexpr int kHealthy = 25'600;
constexpr int kTurnsPerRound = 5;

}  // namespace

std::vector<Regime> measure_sparse(const Bench& bench) {
  auto seeding = backstage(bench.connector), rival = connect(bench.connector);
  Ours ours(bench.connector, TimeoutTurns::kConnections);
  const RowByRow row_by_row("attempt_timeout");
  const std::vector<std::function<void()>> works = {[&] { ours.tick(); },
                                                    [&] { row_by_row.work(rival, first_partitions()); }};
  std::vector<Way> ways = {{"ours", {}}, {"row by row", {}}};

  // Statistics are made before the first turn and never again: with them plans are forgotten, and here those of
  // a program that has been running for a while are measured. So the first turn does not count.
  add_healthy_leases(seeding, kHealthy);
  std::int64_t moved = 0;
  for (int turn = 0; turn <= bench.rounds() * kTurnsPerRound; ++turn) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      add_a_lapsed_lease_each(seeding);
      const SteadyTime started = Clock::system().now();
      works[way]();
      const double took = seconds_since(started);
      expect_moved(seeding, moved += kPartitions);
      if (turn > 0) ways[way].rounds.push_back(1000 * took);
    }
  }
  empty(seeding);
  const Goal goal = at_least_times(6, median_ratio(ways[1], ways[0]), "as fast as row by row");
  return {
      {.name = "sparse",
       .title = fmt::format("attempt_timeout: one lapsed lease in each of {} partitions, beside {} that "
                            "hold: the time of one pass over all, the scan included",
                            kPartitions, figure(kHealthy)),
       .unit = "ms",
       .ways = ways,
       .goals = {goal},
       .remarks = {fmt::format("medians of {} passes each, in turns, with statements planned by an earlier "
                               "pass",
                               ways[0].rounds.size())}}};
}

}  // namespace ff::bench
