#include <algorithm>

#include "bench/contest.hpp"
#include "bench/idle.hpp"
#include "bench/sparse.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kEndedWithin = 72h;  // outbox_retention takes their events after a week
constexpr Milliseconds kKept = 100 * 24h;
constexpr std::int64_t kAtOnce = 250'000;  // between two checkpoints, so that the server's log stays short
constexpr int kPasses = 15;

void add_ended_in_parts(pg::Connection& connection, std::int64_t rows) {
  const std::int64_t from = database_now_ms(connection) - kEndedWithin.count();
  for (; rows > 0; rows -= kAtOnce) {
    add_ended(connection,
              {.count = std::min(rows, kAtOnce), .from_ms = from, .length = kEndedWithin, .kept_for = kKept});
    connection.execute_script("CHECKPOINT", patiently());
  }
}

}  // namespace

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
    Ours ours(bench.connector, Sessions::kOurs);
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
