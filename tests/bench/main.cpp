// Measures against how FlowFabric does the same, on a PostgreSQL of its own with durable settings: each
// figure beside its rival's, taken in turns in the same run, because machines differ and drift.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/backlog.hpp"
#include "bench/bench.hpp"
#include "bench/report.hpp"

namespace ff::bench {
namespace {

constexpr const char* kDatabase = "bench";
constexpr int kUsageError = 64;
constexpr int kNothingMeasured = 70;

// The least that the dense backlog's ratio to row by row may be, whatever is wanted beyond that.
constexpr double kLeastRatio = 15;

struct Measurement {
  std::string_view name;
  std::string_view what;
  std::vector<Findings> (*measure)(const Bench&);
  bool is_long = false;  ///< only where it is named, or all are
};

constexpr Measurement kMeasurements[] = {
    {"dense", "a backlog in all partitions, near and a millisecond away", measure_dense},
    {"sparse", "one row in each partition", measure_sparse},
    {"skewed", "all in one partition; half locked by others; poison rows", measure_skewed},
    {"growth", "time per row from ten thousand to a million", measure_growth},
    {"replicas", "one, two and four on the same backlog", measure_replicas},
    {"family", "every other reconciler over a backlog of its own", measure_family},
    {"flowfabric", "FlowFabric's own scanners; needs what ./dev conformance builds", measure_flowfabric},
    {"lateness", "the daemon, while rows fall due one by one", measure_lateness},
    {"idle", "the daemon, while nothing is due", measure_idle},
    {"size", "the same over five million rows, once all is planned", measure_size},
    {"partitions", "the same over 1,024 partitions", measure_partitions},
    {"ten_million", "idle and sparse beside ten million executions (long)", measure_ten_million, true},
    {"memory", "the daemon and its /metrics over a million due rows", measure_memory},
    {"ready", "the daemon's start", measure_ready},
    {"gentle", "workers beside a mass expiry", measure_gentle},
    {"storm", "workers beside a mass expiry, with storm control", measure_storm},
    {"retention", "workers while old executions are deleted as fast as they end", measure_retention},
    {"lease_history", "reading the lease history", measure_lease_history},
};

struct Arguments {
  bool quick = false;
  bool with_long = false;
  std::vector<std::string> only;  ///< empty: all
  std::filesystem::path output = "bench-results";
};

std::string usage() {
  std::string text = R"(usage: ff-bench [--quick] [--long] [--only NAME[,NAME...]] [--output DIR]

Starts a PostgreSQL of its own and prints figures beside those of FlowFabric's way, measured in the same run. All
of them go into DIR (bench-results) as bench.json, from which tests/bench/plot draws each regime.

  --quick        fewer rows and a single round: to see that it works, not to quote
  --long         also what takes an hour and 20 GB in $TMPDIR
  --only NAMES   only these of:
)";
  for (const Measurement& each : kMeasurements)
    text += fmt::format("                   {:<15}{}\n", each.name, each.what);
  return text + fmt::format(R"(  --output DIR   made if it is not there

Ends with 1 when a measurement fails, or when attempt_timeout over a dense backlog is not {} times as fast as
row by row (not judged with --quick).
)",
                            kLeastRatio);
}

bool is_measurement(std::string_view name) {
  return std::ranges::find(kMeasurements, name, &Measurement::name) != std::end(kMeasurements);
}

/// Nothing: they cannot be understood.
std::optional<Arguments> read(const std::vector<std::string>& words) {
  Arguments arguments;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool has_value = word + 1 != words.end();
    if (*word == "--quick") {
      arguments.quick = true;
    } else if (*word == "--long") {
      arguments.with_long = true;
    } else if (*word == "--output" && has_value) {
      arguments.output = *++word;
    } else if (*word == "--only" && has_value) {
      std::string names = *++word + ',';
      for (std::size_t end; (end = names.find(',')) != std::string::npos; names.erase(0, end + 1)) {
        arguments.only.push_back(names.substr(0, end));
        if (!is_measurement(arguments.only.back())) return std::nullopt;
      }
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

// Durable, and otherwise as a server for this would be set: memory for what is worked on, and checkpoints and
// vacuum when the benchmark says so, because otherwise they come in the middle of somebody's turn.
testserver::ServerOptions server_options() {
  return {.durable = true,
          .settings = {{"shared_buffers", "1GB"},
                       {"max_wal_size", "8GB"},
                       {"checkpoint_timeout", "1h"},
                       {"autovacuum", "off"},
                       {"track_commit_timestamp", "on"}}};
}

void measure_each(const Bench& bench, const Arguments& arguments, Report& report) {
  for (const Measurement& each : kMeasurements) {
    const bool is_named = std::ranges::find(arguments.only, each.name) != arguments.only.end();
    if (!is_named && (!arguments.only.empty() || (each.is_long && !arguments.with_long))) continue;
    const SteadyTime started = Clock::system().now();
    try {
      for (Findings& found : each.measure(bench)) report.add(described(std::move(found)));
    } catch (const std::exception& error) {
      report.add_failure(each.name, error.what());
      auto connection = backstage(bench.connector);
      empty(connection);
    }
    std::cout << fmt::format("({} took {:.0f} s)\n\n", each.name, seconds_since(started)) << std::flush;
  }
}

bool fast_enough(const std::vector<Regime>& regimes) {
  const auto dense = std::ranges::find(regimes, "dense", &Regime::name);
  return dense == regimes.end() || median_ratio(dense->ways.at(0), dense->ways.at(1)) >= kLeastRatio;
}

int measure(const Arguments& arguments) {
  read_descriptions();
  testserver::PrivateServer server(server_options());
  const pg::Connector connector = new_database(server, kDatabase, kPartitions);
  Report report(std::cout, arguments.output, connector, arguments.quick);
  const Bench bench{
      .server = server, .database = kDatabase, .connector = connector, .quick = arguments.quick};
  measure_each(bench, arguments, report);
  report.print_summary();
  const bool slow = !arguments.quick && !fast_enough(report.regimes());
  if (slow) std::cerr << fmt::format("ff-bench: not {} times as fast as row by row\n", kLeastRatio);
  return report.complete() && !slow ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace ff::bench

int main(int argc, char** argv) {
  const auto arguments = ff::bench::read({argv + 1, argv + argc});
  if (!arguments) {
    std::cerr << ff::bench::usage();
    return ff::bench::kUsageError;
  }
  try {
    return ff::bench::measure(*arguments);
  } catch (const std::exception& error) {
    std::cerr << "ff-bench: " << error.what() << '\n';
    return ff::bench::kNothingMeasured;
  }
}
