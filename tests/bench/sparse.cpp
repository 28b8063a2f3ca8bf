#include "bench/sparse.hpp"

#include "bench/contest.hpp"

namespace ff::bench {
namespace {

constexpr int kHeld = 25'600;
constexpr int kTurnsPerRound = 5;

}  // namespace

SparsePasses::SparsePasses(const Bench& bench)
    : keeper_(backstage(bench.connector)), stock_(keeper_, "attempt_timeout") {}

std::vector<Way> SparsePasses::measure(
    const std::vector<std::pair<std::string, std::function<void()>>>& works, int passes) {
  std::vector<Way> ways;
  std::vector<std::function<void()>> turns;
  for (const auto& [name, work] : works) ways.push_back({name});
  for (std::size_t i = 0; i < works.size(); ++i)
    turns.emplace_back([&, i] {
      add_leases(keeper_, {.count = kPartitions,
                           .from_ms = database_now_ms(keeper_) - 2 * kPartitions,
                           .length_ms = kPartitions});
      ways[i].rounds.push_back(1000 * seconds_taken(works[i].second));
      stock_.check(moved_ += kPartitions, 0);
    });
  take_turns(1 + passes, turns);
  for (Way& way : ways) way.rounds.erase(way.rounds.begin());
  return ways;
}

std::vector<Findings> measure_sparse(const Bench& bench) {
  auto keeper = backstage(bench.connector), rival = connect(bench.connector);
  Ours ours(bench.connector, Sessions::kOurs);
  const RowByRow row_by_row("attempt_timeout");
  // Statistics are made before the first turn and never again: with them plans are forgotten.
  add_leases(keeper, {.count = kHeld,
                      .from_ms = database_now_ms(keeper) + Milliseconds{std::chrono::hours{10}}.count()});
  settle(keeper, {"ff_exec_core", "ff_attempt"});
  const int passes = bench.rounds() * kTurnsPerRound;
  std::vector<Way> ways = SparsePasses(bench).measure(
      {{"ours", [&] { ours.tick(); }},
       {"row by row", [&] { row_by_row.work(rival, all_partitions(kPartitions)); }}},
      passes);
  empty(keeper);
  return {{.regime = "sparse", .ways = std::move(ways), .numbers = {{"held", kHeld}, {"passes", passes}}}};
}

}  // namespace ff::bench
