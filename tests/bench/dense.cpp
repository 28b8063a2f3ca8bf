#include <fmt/format.h>

#include <algorithm>

#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "bench/ways.hpp"
#include "support/proxy.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr double kFloor = 0.8;

// How many rows each way moves. Row by row moves fewer, in as many partitions as they fill as densely: what it
// costs to find a partition without any is then not counted against it.
struct Rows {
  int ours;
  int row_by_row;
  int rival_partitions() const { return std::max(1, kPartitions * row_by_row / ours); }
};

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

Regime measure(const Bench& bench, const pg::Connector& connector, std::string name, std::string_view over,
               Rows rows, double wanted) {
  TimeoutTurns turns(bench.connector, connector);
  Way ours{"ours", {}}, row_by_row{"row by row", {}}, floor{"floor", {}};
  for (int round = 0; round < bench.rounds(); ++round) {
    ours.rounds.push_back(rows.ours / turns.ours(rows.ours));
    row_by_row.rounds.push_back(rows.row_by_row / turns.row_by_row(rows.row_by_row, rows.rival_partitions()));
    floor.rounds.push_back(rows.ours / turns.floor(rows.ours));
  }
  turns.clear();
  return {
      .name = std::move(name),
      .title = fmt::format("attempt_timeout: {} lapsed leases in {} partitions, ours and the floor over {} "
                           "connections, {}",
                           figure(rows.ours), kPartitions, TimeoutTurns::kConnections, over),
      .unit = "rows/s",
      .ways = {ours, row_by_row, floor},
      .goals = {at_least_times(wanted, median_ratio(ours, row_by_row), "row by row"),
                at_least_times(kFloor, median_ratio(ours, floor), "the floor")},
      .remarks = {
          fmt::format("row by row: one connection, prepared statements, {} rows in partitions as full as "
                      "ours; its rate counts",
                      figure(rows.row_by_row)),
          "floor: the same changes as four bulk statements in one transaction for each connection, which "
          "takes half of the partitions; it neither scans nor locks nor leaves anybody else room"}};
}

}  // namespace

std::vector<Regime> measure_dense(const Bench& bench) {
  const Rows rows = bench.quick ? Rows{10'000, 500} : Rows{100'000, 10'000};
  Regime dense = measure(bench, bench.connector, "dense", "over a Unix socket", rows, 25);

  const Rows far_rows = bench.quick ? Rows{10'000, 200} : Rows{100'000, 500};
  const test::Proxy proxy(bench.server.socket_directory(), 1ms);
  const pg::Connector far({.conninfo = bench.conninfo() + proxy.detour()});
  auto far_trips = connect(far), trips = backstage(bench.connector);
  const double added = round_trip_ms(far_trips) - round_trip_ms(trips);
  Regime dense_far = measure(bench, far, "dense_1ms", "a millisecond of round trip away", far_rows, 90);
  dense_far.remarks.push_back(fmt::format("the delaying proxy adds {} ms to a round trip", figure(added)));
  return {std::move(dense), std::move(dense_far)};
}

}  // namespace ff::bench
