#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>

#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "bench/ways.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnectionsEach = 1;  // as the daemon, unless it is given helpers
constexpr auto kPatience = 5min;
// Rates differ by more than that from one run of the same to the next.
constexpr double kWithinNoise = 0.97;

using Replicas = std::vector<Ours*>;

/// What all runs together have come to.
struct Tally {
  std::int64_t rows = 0;
  std::int64_t reported = 0;  ///< as moved, by the replicas
  std::int64_t events = 0;    ///< of leases that were taken away
  std::int64_t twice = 0;     ///< leases with more than one such event

  bool each_once() const { return reported == rows && events == rows && twice == 0; }
  void add(const Tally& run) {
    rows += run.rows;
    reported += run.reported;
    events += run.events;
    twice += run.twice;
  }
};

/// Until as many rows as there are have been reported moved, and how many were. A replica that has not taken what another
/// held ticks again.
std::int64_t work_off(const Replicas& replicas, std::int64_t rows) {
  std::atomic<std::int64_t> moved = 0;
  const SteadyTime started = Clock::system().now();
  const auto work = [&](Ours& replica) {
    while (moved < rows) {
      moved += replica.tick();
      if (Clock::system().now() - started > kPatience) throw std::runtime_error("the replicas get nowhere");
    }
  };
  std::vector<std::future<void>> running;
  for (Ours* replica : replicas)
    running.push_back(std::async(std::launch::async, [&work, replica] { work(*replica); }));
  for (auto& each : running) each.get();
  return moved;
}

/// Rows per second.
double rate(TimeoutTurns& turns, const Replicas& replicas, int rows, Tally& tally) {
  turns.fill(rows);
  for (Ours* replica : replicas) {
    replica->start_over();
    replica->warm_up();
  }
  const SteadyTime started = Clock::system().now();
  const std::int64_t reported = work_off(replicas, rows);
  const double took = seconds_since(started);
  const TakenLeases taken = taken_leases(turns.seeding());
  const Tally run{rows, reported, taken.events, taken.twice};
  tally.add(run);
  if (run.each_once()) expect_moved(turns.seeding(), rows);  // otherwise the goal tells
  return rows / took;
}

struct Fleet {
  Replicas replicas;
  Way way;
};

// The first three ways are those of one, two and four replicas.
std::vector<Goal> goals(const std::vector<Way>& ways, const Tally& tally) {
  std::vector<Goal> all;
  for (const std::size_t i : {1, 2}) {
    const double ratio = median_ratio(ways[i], ways[0]);
    all.push_back({fmt::format("{} together no slower than 1 (within 3%)", ways[i].name),
                   fmt::format("{} times", figure(ratio)), ratio >= kWithinNoise});
  }
  all.push_back({"no row done twice",
                 fmt::format("of {} leases {} have more than one event; {} events, {} reported moved",
                             tally.rows, tally.twice, tally.events, tally.reported),
                 tally.each_once()});
  return all;
}

// Two replicas' rival with as many connections is two ways further on, like four replicas'.
std::string beside_one_alone(const std::vector<Way>& ways, std::size_t replicas) {
  return fmt::format("{} reach {} times the rate of {}, which has as many and nobody to meet",
                     ways[replicas].name, figure(median_ratio(ways[replicas], ways[replicas + 2])),
                     ways[replicas + 2].name);
}

}  // namespace

std::vector<Regime> measure_replicas(const Bench& bench) {
  const int rows = bench.quick ? 10'000 : 100'000, rival_rows = bench.quick ? 500 : 5'000;
  TimeoutTurns turns(bench.connector, bench.connector);
  Ours a(bench.connector, kConnectionsEach), b(bench.connector, kConnectionsEach),
      c(bench.connector, kConnectionsEach), d(bench.connector, kConnectionsEach);
  // One alone with as many connections as two and four have together.
  Ours as_two(bench.connector, 2 * kConnectionsEach), as_four(bench.connector, 4 * kConnectionsEach);
  rehearse(turns.seeding(), {&a, &b, &c, &d, &as_two, &as_four});
  std::vector<Fleet> fleets{
      {{&a}, {"1 replica", {}}},
      {{&a, &b}, {"2 replicas", {}}},
      {{&a, &b, &c, &d}, {"4 replicas", {}}},
      {{&as_two}, {fmt::format("1 replica, {} connections", 2 * kConnectionsEach), {}}},
      {{&as_four}, {fmt::format("1 replica, {} connections", 4 * kConnectionsEach), {}}}};
  Tally tally;
  Way row_by_row{"row by row", {}};
  for (int round = 0; round < bench.rounds(); ++round) {
    for (std::size_t i = 0; i < fleets.size(); ++i) {
      Fleet& fleet = fleets[(i + static_cast<std::size_t>(round)) % fleets.size()];
      fleet.way.rounds.push_back(rate(turns, fleet.replicas, rows, tally));
    }
    row_by_row.rounds.push_back(rival_rows / turns.row_by_row(rival_rows, kPartitions * rival_rows / rows));
  }
  turns.clear();

  std::vector<Way> ways;
  for (const Fleet& fleet : fleets) ways.push_back(fleet.way);
  Regime regime{
      .name = "replicas",
      .title = fmt::format("attempt_timeout: {} lapsed leases in {} partitions, worked off by replicas with "
                           "{} connection each",
                           figure(rows), kPartitions, kConnectionsEach),
      .unit = "rows/s",
      .ways = ways,
      .goals = goals(ways, tally),
      .remarks = {fmt::format("row by row: one connection, {} rows in partitions as full; its rate counts",
                              figure(rival_rows)),
                  "all replicas look at the same rows at the same moment; rows that another holds are passed "
                  "over",
                  "before each figure the engines are new, but all their connections have planned a scan and "
                  "have acted in all partitions",
                  beside_one_alone(ways, 1), beside_one_alone(ways, 2)}};
  regime.ways.push_back(std::move(row_by_row));
  return {std::move(regime)};
}

}  // namespace ff::bench
