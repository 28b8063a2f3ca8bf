#include <algorithm>

#include "bench/bench.hpp"
#include "bench/contest.hpp"
#include "support/proxy.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

/// The median time of a statement that does nothing and its answer. Milliseconds.
double round_trip_ms(pg::Connection& connection) {
  constexpr int kTrips = 101;
  std::vector<double> milliseconds;
  for (int i = 0; i < kTrips; ++i)
    milliseconds.push_back(1000 * seconds_taken([&] { connection.execute_script("SELECT 1"); }));
  return median(std::move(milliseconds));
}

Findings measure(const Bench& bench, const pg::Connector& connector, const std::string& regime,
                 int rival_rows) {
  Contest::Backlog backlog{.rows = bench.quick ? 10'000 : 100'000};
  backlog.rival_partitions = 1 + std::max(1, kPartitions * rival_rows / backlog.rows);
  Contest contest(bench.connector, connector, "attempt_timeout");
  return {.regime = regime,
          .ways = contest.rates(backlog, bench.rounds()),
          .numbers = {{"rows", backlog.rows},
                      {"connections", Contest::kConnections},
                      {"rival_rows", backlog.rival_rows()}}};
}

}  // namespace

std::vector<Findings> measure_dense(const Bench& bench) {
  Findings near = measure(bench, bench.connector, "dense", bench.quick ? 500 : 10'000);

  const test::Proxy proxy(bench.server.socket_directory(), 1ms);
  const pg::Connector far({.conninfo = bench.conninfo() + proxy.detour()});
  auto far_trips = connect(far), trips = backstage(bench.connector);
  const double added = round_trip_ms(far_trips) - round_trip_ms(trips);
  Findings far_away = measure(bench, far, "dense_1ms", bench.quick ? 200 : 500);
  far_away.numbers["added_ms"] = added;
  return {std::move(near), std::move(far_away)};
}

}  // namespace ff::bench
