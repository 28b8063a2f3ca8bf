// Measures the reconcilers against how FlowFabric does the same, on a PostgreSQL of its own with durable
// settings: each figure beside its rival's, taken in turn in the same run, because machines differ and drift.

#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "bench/backlog.hpp"
#include "bench/row_by_row.hpp"
#include "migrate/migrate.hpp"
#include "pg/pool.hpp"
#include "pg/server.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/registry.hpp"
#include "sandbox/private_server.hpp"
#include "supervisor/thread_lanes.hpp"

namespace {

using namespace ff;

constexpr int kRows = 20'000;
constexpr int kPartitions = 256;
constexpr int kFanOut = 256;
constexpr int kRounds = 3;
constexpr int kLanes = 3;  // beside the tick's own, as in the default configuration
constexpr double kWanted = 15;

double seconds_of(const std::function<std::int64_t()>& work, std::int64_t expected) {
  const auto started = Clock::system().now();
  const std::int64_t moved = work();
  const double took = std::chrono::duration<double>(Clock::system().now() - started).count();
  if (moved != expected)
    throw std::runtime_error(fmt::format("{} rows were moved instead of {}", moved, expected));
  return took;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::int64_t set_based(pg::Pool& pool, reconcile::Lanes& lanes) {
  const reconcile::Reconciler& reconciler = *reconcile::find_reconciler("attempt_timeout");
  reconcile::Engine engine(reconciler,
                           {.partitions = partition_range({0}, {kPartitions - 1}),
                            .filter = {},
                            .settings = reconcile::default_settings(reconciler),
                            .family = {}},
                           pool, Clock::system(), lanes);
  const reconcile::TickReport report = engine.tick();
  if (report.failure) throw *report.failure;
  return report.processed;
}

int measure() {
  std::cout << "starting PostgreSQL (fsync and synchronous_commit on) with " << kFanOut
            << " hash children per table …\n";
  sandbox::PrivateServer server({.durable = true, .settings = {}});
  server.create_database("bench");
  const pg::Connector connector({.conninfo = server.conninfo("bench")});
  pg::Pool pool(connector, 1 + kLanes, Milliseconds{5000});
  supervisor::ThreadLanes lanes(kLanes);
  auto connection = connector.connect(Clock::system().now() + Milliseconds{5000});
  migrate::up(connection, kFanOut);
  std::cout << fmt::format(
      "PostgreSQL {}, {} processors, Unix socket; attempt_timeout over {} lapsed leases in {} partitions\n\n",
      pg::server_info(connection).version, std::thread::hardware_concurrency(), kRows, kPartitions);

  std::cout << fmt::format("{:<8}{:>18}{:>18}{:>10}\n", "round", "ours rows/s", "row by row", "ratio");
  std::vector<double> ratios;
  for (int round = 1; round <= kRounds; ++round) {
    bench::add_lapsed_leases(connection, kRows, kPartitions);
    const double ours = seconds_of([&] { return set_based(pool, lanes); }, kRows);
    bench::add_lapsed_leases(connection, kRows, kPartitions);
    const double rival = seconds_of(
        [&] {
          return bench::attempt_timeout_row_by_row(connection, partition_range({0}, {kPartitions - 1}));
        },
        kRows);
    if (bench::lapsed_leases(connection) != 0) throw std::runtime_error("lapsed leases are left");
    ratios.push_back(rival / ours);
    std::cout << fmt::format("{:<8}{:>18.0f}{:>18.0f}{:>9.1f}x\n", round, kRows / ours, kRows / rival,
                             ratios.back());
  }
  std::cout << fmt::format("\nmedian ratio {:.1f}x, wanted at least {:.0f}x\n", median(ratios), kWanted);
  return median(ratios) >= kWanted ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main() {
  try {
    return measure();
  } catch (const std::exception& error) {
    std::cerr << "ff-bench: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
