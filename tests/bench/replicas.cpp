#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>

#include "bench/bench.hpp"
#include "bench/contest.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnectionsEach = 1;  // as the daemon, unless it is given helpers
constexpr auto kPatience = 5min;

using Replicas = std::vector<Ours*>;

/// What all runs together have come to.
struct Tally {
  std::int64_t rows = 0;
  std::int64_t reported = 0;  ///< as moved, by the replicas
  std::int64_t events = 0;    ///< of leases that were taken away
  std::int64_t twice = 0;     ///< leases with more than one such event

  std::int64_t wrong() const { return std::abs(reported - rows) + std::abs(events - rows) + twice; }
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
double rate(Contest& contest, const Replicas& replicas, int rows, Tally& tally) {
  contest.stock().fill(rows, kPartitions);
  contest.keeper().execute_script("CHECKPOINT", patiently());
  for (Ours* replica : replicas) replica->start_over();
  std::int64_t reported = 0;
  const double took = seconds_taken([&] { reported = work_off(replicas, rows); });
  const TakenLeases taken = taken_leases(contest.keeper());
  const Tally run{rows, reported, taken.events, taken.twice};
  tally.add(run);
  if (run.wrong() == 0) contest.stock().check(rows, 0);  // otherwise the goal tells
  return rows / took;
}

}  // namespace

std::vector<Findings> measure_replicas(const Bench& bench) {
  Contest::Backlog backlog{.rows = bench.quick ? 10'000 : 100'000, .rival_partitions = 14};
  Contest contest(bench.connector, "attempt_timeout");
  // The last two are one alone with as many connections as two and four have together.
  std::vector<std::unique_ptr<Ours>> all;
  for (const int connections : {1, 1, 1, 1, 2, 4})
    all.push_back(std::make_unique<Ours>(bench.connector, connections * kConnectionsEach));
  Replicas each;
  for (const auto& one : all) each.push_back(one.get());
  rehearse(contest.stock(), each);

  const std::vector<Replicas> fleets{
      {each[0]}, {each[0], each[1]}, {each[0], each[1], each[2], each[3]}, {each[4]}, {each[5]}};
  std::vector<Way> ways{{"1 replica"},
                        {"2 replicas"},
                        {"4 replicas"},
                        {fmt::format("1 replica, {} connections", 2 * kConnectionsEach)},
                        {fmt::format("1 replica, {} connections", 4 * kConnectionsEach)},
                        {"row by row"}};
  Tally tally;
  std::vector<std::function<void()>> turns;
  for (std::size_t i = 0; i < fleets.size(); ++i)
    turns.emplace_back([&, i] { ways[i].rounds.push_back(rate(contest, fleets[i], backlog.rows, tally)); });
  turns.emplace_back([&] { ways.back().rounds.push_back(contest.rate(Contest::Who::row_by_row, backlog)); });
  take_turns(bench.rounds(), turns);
  contest.clear();

  return {{.regime = "replicas",
           .ways = ways,
           .numbers = {{"rows", backlog.rows},
                       {"connections", kConnectionsEach},
                       {"rival_rows", backlog.rival_rows()},
                       {"two_beside_one", median_ratio(ways[1], ways[3])},
                       {"four_beside_one", median_ratio(ways[2], ways[4])},
                       {"wrong", static_cast<double>(tally.wrong())},
                       {"leases", static_cast<double>(tally.rows)},
                       {"twice", static_cast<double>(tally.twice)},
                       {"events", static_cast<double>(tally.events)},
                       {"reported", static_cast<double>(tally.reported)}}}};
}

}  // namespace ff::bench
