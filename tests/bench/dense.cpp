#include "bench/dense.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "bench/backlog.hpp"
#include "bench/compare.hpp"
#include "bench/row_by_row.hpp"
#include "bench/timeout_ways.hpp"
#include "support/proxy.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnections = 2;
constexpr auto kConnectTime = 10s;
constexpr double kFloor = 0.8;

// How many rows each way moves. Row by row moves fewer, in as many partitions as they fill as densely: what it
// costs to find a partition without any is then not counted against it.
struct Rows {
  int ours;
  int row_by_row;
  int rival_partitions() const { return std::max(1, kPartitions * row_by_row / ours); }
};

double rate(int rows, const std::function<void()>& work) {
  const SteadyTime started = Clock::system().now();
  work();
  return rows / seconds_since(started);
}

/// The median time of a statement that does nothing and its answer. Milliseconds.
double round_trip_ms(pg::Connection& connection) {
  constexpr int kTrips = 101;
  std::vector<double> milliseconds;
  for (int i = 0; i < kTrips; ++i) {
    const SteadyTime started = Clock::system().now();
    connection.execute_script("SELECT 1");
    milliseconds.push_back(1000 * seconds_since(started));
  }
  return median(std::move(milliseconds));
}

// `seeding` always takes the short way.
void measure(pg::Connection& seeding, const pg::Connector& connector, Rows rows, int rounds, Regime& regime) {
  OurTimeout ours(connector, kConnections);
  TimeoutFloor floor(connector, kConnections);
  auto rival = connector.connect(Clock::system().now() + kConnectTime);
  const Partitions rivals = partition_range({0}, {static_cast<std::int16_t>(rows.rival_partitions() - 1)});
  floor.run();
  rehearse(seeding, {&ours});
  const auto turn = [&](Way& way, int count, int partitions, const std::function<void()>& before,
                        const std::function<void()>& work) {
    empty_tables(seeding);
    add_lapsed_leases(seeding, count, partitions);
    before();
    way.rounds.push_back(rate(count, work));
    expect_moved(seeding, count);
  };
  const auto before_ours = [&] {
    ours.start_over();
    ours.warm_up();
  };
  regime.ways = {{"ours", {}}, {"row by row", {}}, {"floor", {}}};
  for (int round = 0; round < rounds; ++round) {
    turn(regime.ways[0], rows.ours, kPartitions, before_ours, [&] { ours.tick(); });
    turn(
        regime.ways[1], rows.row_by_row, rows.rival_partitions(), [] {},
        [&] { attempt_timeout_row_by_row(rival, rivals); });
    turn(
        regime.ways[2], rows.ours, kPartitions, [&] { floor.plan(); }, [&] { floor.run(); });
  }
  empty_tables(seeding);
}

Regime regime_of(std::string name, Rows rows, std::string_view over) {
  Regime regime{
      .name = std::move(name),
      .title = fmt::format("attempt_timeout: {} lapsed leases in {} partitions, ours and the floor over {} "
                           "connections, {}",
                           figure(rows.ours), kPartitions, kConnections, over),
      .unit = "rows/s",
      .ways = {}};
  regime.remarks = {
      fmt::format("row by row: one connection, prepared statements, {} rows in partitions as full as ours; "
                  "its rate counts",
                  figure(rows.row_by_row)),
      "floor: the same changes as four bulk statements in one transaction for each connection, which takes "
      "half of the partitions; it neither looks nor locks nor leaves anybody else room"};
  return regime;
}

void judge(Regime& regime, double wanted) {
  const auto& [ours, row_by_row, floor] = std::tie(regime.ways[0], regime.ways[1], regime.ways[2]);
  regime.goals = {at_least_times(wanted, median_ratio(ours, row_by_row), "row by row"),
                  at_least_times(kFloor, median_ratio(ours, floor), "the floor")};
}

}  // namespace

std::vector<Regime> measure_dense(const Bench& bench) {
  auto seeding = backstage(bench.connector);
  const Rows rows = bench.quick ? Rows{10'000, 500} : Rows{100'000, 10'000};
  Regime dense = regime_of("dense", rows, "over a Unix socket");
  measure(seeding, bench.connector, rows, bench.rounds(), dense);
  judge(dense, 25);

  const Rows far_rows = bench.quick ? Rows{10'000, 200} : Rows{100'000, 500};
  const test::Proxy proxy(bench.server.socket_directory(), 1ms);
  const pg::Connector far({.conninfo = bench.conninfo() + proxy.detour()});
  auto trips = far.connect(Clock::system().now() + kConnectTime);
  const double added = round_trip_ms(trips) - round_trip_ms(seeding);
  Regime dense_far = regime_of("dense_1ms", far_rows, "a millisecond of round trip away");
  dense_far.remarks.push_back(fmt::format("the delaying proxy adds {} ms to a round trip", figure(added)));
  measure(seeding, far, far_rows, bench.rounds(), dense_far);
  judge(dense_far, 90);
  return {std::move(dense), std::move(dense_far)};
}

}  // namespace ff::bench
