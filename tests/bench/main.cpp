// Measures against how FlowFabric does the same, on a PostgreSQL of its own with durable settings: each figure
// beside its rival's, taken in turns in the same run, because machines differ and drift.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/attempt_timeout.hpp"
#include "bench/lease_history.hpp"
#include "migrate/migrate.hpp"
#include "pg/server.hpp"
#include "sandbox/private_server.hpp"

namespace {

using namespace ff;

constexpr int kFanOut = 256;
constexpr double kWantedRatio = 15;

constexpr std::string_view kUsage = R"(usage: ff-bench [--quick]

Starts a PostgreSQL of its own and prints figures beside those of FlowFabric's way, measured in the same run:
the rate of attempt_timeout over a backlog (ours over two connections, with its plan made; theirs one row after
the other over one connection, prepared), and reading the lease history.

  --quick  fewer rows and a single round: to see that it works, not to quote

Ends with 1 when attempt_timeout is not 15 times as fast as row by row (not judged with --quick).
)";

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// A migrated database, whose name is that of what is measured in it.
void make_database(sandbox::PrivateServer& server, std::string_view name) {
  server.create_database(name);
  const pg::Connector connector({.conninfo = server.conninfo(name)});
  auto connection = connector.connect(Clock::system().now() + Milliseconds{5000});
  migrate::up(connection, kFanOut);
}

bool bench_attempt_timeout(const pg::Connector& connector, bool quick) {
  const bench::BacklogOptions options{.rows = quick ? 5'000 : 20'000, .rounds = quick ? 1 : 3};
  std::cout << fmt::format(
                   "attempt_timeout: {} lapsed leases in {} partitions, {} hash children per table, ours "
                   "over {} connections\n\n",
                   options.rows, options.partitions, kFanOut, options.connections)
            << fmt::format("{:<8}{:>18}{:>18}{:>10}\n", "round", "ours rows/s", "row by row", "ratio")
            << std::flush;
  std::vector<double> ratios;
  for (const bench::BacklogRound& round : bench::measure_attempt_timeout(connector, options)) {
    ratios.push_back(round.ratio());
    std::cout << fmt::format("{:<8}{:>18.0f}{:>18.0f}{:>9.1f}x\n", ratios.size(), round.ours,
                             round.row_by_row, round.ratio());
  }
  std::cout << fmt::format("\nmedian ratio {:.1f}x, wanted at least {:.0f}x\n\n", median(ratios),
                           kWantedRatio);
  return median(ratios) >= kWantedRatio;
}

void bench_lease_history(const pg::Connector& connector, bool quick) {
  bench::LeaseHistoryOptions options;
  if (quick) options = {.replay_events = 50'000, .latency_time = Milliseconds{1000}, .rounds = 1};
  std::cout << fmt::format("lease history: {} events replayed, {} events/s for {} s\n\n",
                           options.replay_events, options.events_per_second,
                           options.latency_time.count() / 1000)
            << std::flush;
  const auto [ours, seed] = bench::measure_lease_history(connector, options);
  const auto line = [](std::string_view what, double our, double seeds, int digits) {
    std::cout << fmt::format("{:<44}{:>12.{}f}{:>12.{}f}\n", what, our, digits, seeds, digits);
  };
  std::cout << fmt::format("{:<44}{:>12}{:>12}\n", "", "ours", "seed");
  line("replay of one partition, events/s", ours.replay_events_per_second, seed.replay_events_per_second, 0);
  line("replay of 32 partitions, events/s", ours.spread_events_per_second, seed.spread_events_per_second, 0);
  line("memory grown by during the replay, MiB", ours.resident_mib, seed.resident_mib, 1);
  line("commit to delivery, p50 ms", ours.latency_p50_ms, seed.latency_p50_ms, 2);
  line("commit to delivery, p99 ms", ours.latency_p99_ms, seed.latency_p99_ms, 2);
  line("committed meanwhile, events/s", ours.committed_events_per_second, seed.committed_events_per_second,
       0);
  line("never delivered, events", static_cast<double>(ours.missed), static_cast<double>(seed.missed), 0);
}

int measure(bool quick) {
  sandbox::PrivateServer server({.durable = true, .settings = {}});
  make_database(server, "attempt_timeout");
  make_database(server, "lease_history");
  const pg::Connector backlog({.conninfo = server.conninfo("attempt_timeout")});
  const pg::Connector history({.conninfo = server.conninfo("lease_history")});
  {
    auto connection = backlog.connect(Clock::system().now() + Milliseconds{5000});
    std::cout << fmt::format(
        "PostgreSQL {} (fsync and synchronous_commit on), {} processors, Unix socket\n\n",
        pg::server_info(connection).version, std::thread::hardware_concurrency());
  }
  const bool fast_enough = bench_attempt_timeout(backlog, quick);
  bench_lease_history(history, quick);
  return fast_enough || quick ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  const bool quick = arguments == std::vector<std::string_view>{"--quick"};
  if (!arguments.empty() && !quick) {
    std::cerr << kUsage;
    return 64;
  }
  try {
    return measure(quick);
  } catch (const std::exception& error) {
    std::cerr << "ff-bench: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
