#include <fmt/format.h>

#include <iostream>
#include <stdexcept>
#include <string_view>

#include "bench/bench.hpp"
#include "bench/ways.hpp"
#include "support/flowfabric.hpp"

namespace ff::bench {
namespace {

using test::FlowFabric;

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
        ours_(std::make_shared<Lanes>(connector, 1), rival.reconciler),
        keeper_(backstage(connector)),
        stock_(keeper_, rival.reconciler),
        theirs_(url) {}

  /// Seconds; the rows are due, moved and gone afterwards. No rows: a pass over nothing.
  double time(bool ours, int rows, int partitions) {
    if (rows > 0) stock_.fill(rows, partitions);
    std::int64_t moved = 0;
    const double took = seconds_taken([&] { moved = ours ? ours_.tick() : scan(rows, partitions); });
    if (moved != rows)
      throw std::runtime_error(fmt::format("{}: {} of {} rows were moved by {}", rival_.reconciler, moved,
                                           rows, ours ? "us" : "FlowFabric"));
    if (rows > 0) stock_.clear();
    return took;
  }

 private:
  // A scan takes so many rows of a partition, or of all, at a time: so again until it has had all.
  std::int64_t scan(int rows, int partitions) {
    test::Json arguments = {{"name", rival_.scanner}, {"stale_ms", kStale.count()}};
    for (int key = 0; key < partitions; ++key) arguments["partitions"].push_back(key);
    std::int64_t processed = 0;
    for (;;) {
      const auto now = theirs_.call("scan", arguments, kAtMost).at("processed").get<std::int64_t>();
      processed += now;
      if (now == 0 || processed >= rows) return processed;
    }
  }

  const Rival& rival_;
  Ours ours_;
  pg::Connection keeper_;
  Stock stock_;
  FlowFabric theirs_;
};

// In turns, after a turn that does not count: it plans the statements and makes the statistics. Rows a second, or
// milliseconds a pass over nothing.
void run(Findings& found, Match& match, const std::string& reconciler, int rows, int partitions, int rounds) {
  Way ours{"ours, " + reconciler}, theirs{"FlowFabric, " + reconciler};
  const auto turn = [&](Way& way, bool is_ours) {
    const double took = match.time(is_ours, rows, partitions);
    way.rounds.push_back(rows > 0 ? rows / took : 1000 * took);
  };
  take_turns(1 + rounds, {[&] { turn(ours, true); }, [&] { turn(theirs, false); }});
  for (Way* way : {&ours, &theirs}) {
    way->rounds.erase(way->rounds.begin());
    found.ways.push_back(std::move(*way));
  }
}

}  // namespace

std::vector<Findings> measure_flowfabric(const Bench& bench) {
  if (!FlowFabric::is_built()) {
    std::cout << "flowfabric: left out, because `./dev conformance` has not built FlowFabric's part\n";
    return {};
  }
  const pg::Connector connector = new_database(bench.server, kDatabase);
  const std::string url = test::url_of(bench.server, kDatabase);
  FlowFabric(url).call("migrate", test::Json::object(), kAtMost);

  Findings dense{.regime = "flowfabric_dense", .numbers = {{"dense_partitions", kDensePartitions}}};
  Findings sparse{.regime = "flowfabric_sparse"}, nothing{.regime = "flowfabric_nothing"};
  for (const Rival& rival : kRivals) {
    Match match(connector, url, rival);
    const int dense_rows = bench.quick ? rival.dense_rows / 20 : rival.dense_rows;
    run(dense, match, rival.reconciler, dense_rows, kDensePartitions, bench.rounds());
    run(sparse, match, rival.reconciler, kPartitions, kPartitions, bench.rounds());
    run(nothing, match, rival.reconciler, 0, kPartitions, bench.rounds());
  }
  return {std::move(dense), std::move(sparse), std::move(nothing)};
}

}  // namespace ff::bench
