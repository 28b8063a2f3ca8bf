#include <algorithm>

#include "bench/contest.hpp"
#include "bench/idle.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kHeld = 25'600;
constexpr int kTurnsPerRound = 5;
constexpr Milliseconds kEndedWithin = 72h;  // outbox_retention takes their events after a week
constexpr Milliseconds kKept = 100 * 24h;
constexpr std::int64_t kAtOnce = 250'000;  // between two checkpoints, so that the server's log stays short
constexpr int kPasses = 15;

/// Passes over one lapsed lease in each partition.
class SparsePasses {
 public:
  explicit SparsePasses(const Bench& bench);

  /// So many of each, in turns, in milliseconds; each finds new leases, and has to move them. One more before that does not
  /// count: what is measured is a program that has been running for a while and has planned its statements.
  std::vector<Way> measure(const std::vector<std::pair<std::string, std::function<void()>>>& works,
                           int passes);

 private:
  pg::Connection keeper_;
  Stock stock_;
  std::int64_t moved_ = 0;
};

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

void add_ended_in_parts(pg::Connection& connection, std::int64_t rows) {
  const std::int64_t from = database_now_ms(connection) - kEndedWithin.count();
  for (; rows > 0; rows -= kAtOnce) {
    add_ended(connection,
              {.count = std::min(rows, kAtOnce), .from_ms = from, .length = kEndedWithin, .kept_for = kKept});
    connection.execute_script("CHECKPOINT", patiently());
  }
}

}  // namespace

std::vector<Findings> measure_sparse(const Bench& bench) {
  auto keeper = backstage(bench.connector), rival = connect(bench.connector);
  Ours ours(bench.connector, Contest::kConnections);
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

// The same executions live in both stocks; what makes the larger one is ended.
std::vector<Findings> measure_ten_million(const Bench& bench) {
  const std::int64_t fewer = bench.quick ? 2'000 : 100'000, more = bench.quick ? 20'000 : 10'000'000;
  auto connection = backstage(bench.connector);
  const IdleRows rows = add_idle_rows(connection, "idle_rows", bench.quick ? 2'000 : 20'000);
  const auto alive = connection.execute("SELECT count(*) FROM ff_exec_core").one().get<std::int64_t>(0);
  const Times times = settled_times(bench);

  Findings idle{.regime = "ten_million_idle"}, sparse{.regime = "ten_million_sparse"};
  std::int64_t there = alive;
  for (const auto& [name, size] : {std::pair{"ours, fewer", fewer}, std::pair{"ours, more", more}}) {
    add_ended_in_parts(connection, size - there);
    there = size;
    settle(connection, rows.tables);
    idle.ways.push_back({name, {cost_of_daemon(bench, times).together()}});
    Ours ours(bench.connector, Contest::kConnections);
    sparse.ways.push_back(
        SparsePasses(bench).measure({{name, [&] { ours.tick(); }}}, bench.quick ? 3 : kPasses).front());
    connection.execute(sql("leases", "clear"), pg::Params::of("bench"), patiently());
  }
  empty(connection);

  for (Findings* each : {&idle, &sparse})
    each->numbers = {{"fewer", static_cast<double>(fewer)},
                     {"more", static_cast<double>(more)},
                     {"alive", static_cast<double>(alive)},
                     {"warm_up", seconds(times.warm_up)},
                     {"seconds", seconds(times.measured)},
                     {"passes", static_cast<double>(sparse.ways.front().rounds.size())}};
  return {std::move(idle), std::move(sparse)};
}

}  // namespace ff::bench
