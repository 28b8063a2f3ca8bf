#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <stdexcept>
#include <string_view>

#include "bench/backlog.hpp"
#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "bench/ways.hpp"
#include "support/flowfabric.hpp"

namespace ff::bench {
namespace {

using test::FlowFabric;
using test::Json;

constexpr const char* kDatabase = "flowfabric";
constexpr Milliseconds kAtMost{600'000};
constexpr int kDensePartitions = 8;

struct Rival {
  std::string reconciler;
  std::string_view scanner;  ///< FlowFabric's
  int dense_rows;            ///< of which FlowFabric takes some seconds
};

const Rival kRivals[] = {
    {"attempt_timeout", "attempt_timeout", 12'000},
    {"lease_expiry", "lease_expiry", 12'000},
    {"suspension_timeout", "suspension_timeout", 12'000},
    {"budget_reset", "budget_reset", 12'000},
    {"worker_registry_ttl", "worker_registry", 12'000},
    {"dependency", "dependency", 6'000},
    {"edge_cancel_dispatcher", "edge_cancel_dispatcher", 4'000},
};

/// One reconciler and its scanner over the same database, each with a connection of its own that has met every table
/// before.
class Match {
 public:
  Match(const pg::Connector& connector, const std::string& url, const Rival& rival)
      : rival_(rival),
        stock_(rival.reconciler),
        ours_(std::make_shared<Lanes>(connector, 1), rival.reconciler),
        keeper_(backstage(connector)),
        theirs_(url) {}

  const Rival& rival() const { return rival_; }

  /// Seconds; the rows are due, moved and gone afterwards. No rows: a pass over nothing.
  double time(bool ours, int rows, int partitions) {
    if (rows > 0) stock_.add(keeper_, rows, partitions);
    if (rows > 0 && !analyzed_) stock_.analyze(keeper_);
    analyzed_ = analyzed_ || rows > 0;
    const SteadyTime started = Clock::system().now();
    const std::int64_t moved = ours ? ours_.tick() : scan(rows, partitions);
    const double took = seconds_since(started);
    if (moved != rows)
      throw std::runtime_error(fmt::format("{}: {} of {} rows were moved by {}", rival_.reconciler, moved,
                                           rows, ours ? "us" : "FlowFabric"));
    if (rows > 0) stock_.clear(keeper_);
    return took;
  }

 private:
  // A scan takes so many rows of a partition, or of all, at a time: so again until it has had all.
  std::int64_t scan(int rows, int partitions) {
    Json arguments = {{"name", rival_.scanner}, {"stale_ms", kStale.count()}};
    for (int key = 0; key < (rows > 0 ? partitions : kPartitions); ++key)
      arguments["partitions"].push_back(key);
    std::int64_t processed = 0;
    for (;;) {
      const auto now = theirs_.call("scan", arguments, kAtMost).at("processed").get<std::int64_t>();
      processed += now;
      if (now == 0 || processed >= rows) return processed;
    }
  }

  const Rival& rival_;
  const Stock stock_;
  Ours ours_;
  pg::Connection keeper_;
  FlowFabric theirs_;
  bool analyzed_ = false;
};

/// How one regime makes a figure of a time.
struct Course {
  Regime regime;
  std::function<int(const Rival&)> rows;
  int partitions;
  bool rate;  ///< rows a second rather than milliseconds a pass
};

// In turns, after a turn that does not count: it plans the statements and makes the statistics.
void run(Course& course, Match& match, int rounds) {
  const int rows = course.rows(match.rival());
  std::vector<Way> ways = {{fmt::format("ours, {}", match.rival().reconciler), {}},
                           {fmt::format("FlowFabric, {}", match.rival().reconciler), {}}};
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      const double took = match.time(way == 0, rows, course.partitions);
      if (round > 0) ways[way].rounds.push_back(course.rate ? rows / took : 1000 * took);
    }
  }
  for (Way& way : ways) course.regime.ways.push_back(std::move(way));
}

Regime regime_of(std::string name, std::string title, std::string unit) {
  return {.name = std::move(name), .title = std::move(title), .unit = std::move(unit), .ways = {}};
}

std::vector<Course> courses(bool quick) {
  const auto dense = [quick](const Rival& rival) { return quick ? rival.dense_rows / 20 : rival.dense_rows; };
  return {
      {regime_of("flowfabric_dense",
                 fmt::format("beside FlowFabric's own scanners: a backlog of 4,000 to 12,000 rows in {} "
                             "partitions, one connection each",
                             kDensePartitions),
                 "rows/s"),
       dense, kDensePartitions, true},
      {regime_of("flowfabric_sparse",
                 fmt::format("the same with one due row in each of {} partitions", kPartitions), "rows/s"),
       [](const Rival&) { return kPartitions; }, kPartitions, true},
      {regime_of("flowfabric_nothing",
                 fmt::format("the same with nothing due in {} partitions: a pass", kPartitions), "ms"),
       [](const Rival&) { return 0; }, kPartitions, false}};
}

}  // namespace

std::vector<Regime> measure_flowfabric(const Bench& bench) {
  if (!FlowFabric::is_built()) {
    std::cout << "flowfabric: left out, because `./dev conformance` has not built FlowFabric's part\n";
    return {};
  }
  bench.server.drop_database(kDatabase);
  bench.server.create_database(kDatabase);
  const std::string url = test::url_of(bench.server, kDatabase);
  const pg::Connector connector({.conninfo = bench.server.conninfo(kDatabase)});
  FlowFabric(url).call("migrate", Json::object(), kAtMost);

  std::vector<Course> all = courses(bench.quick);
  for (const Rival& rival : kRivals) {
    Match match(connector, url, rival);
    for (Course& course : all) run(course, match, bench.rounds());
  }
  std::vector<Regime> regimes;
  for (Course& course : all) {
    course.regime.remarks = {
        "ours: a tick over all partitions, with what its companions look for; FlowFabric's: its scanner over "
        "the partitions that have rows (all where none has), again until no row is left"};
    if (course.rate)
      course.regime.remarks.emplace_back(
          "both come right after a VACUUM, which adding the rows ends with, and so plan their statements "
          "anew");
    course.regime.plot = {.x = "", .y = course.regime.unit};
    regimes.push_back(std::move(course.regime));
  }
  return regimes;
}

}  // namespace ff::bench
