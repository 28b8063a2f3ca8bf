#include "bench/replicas.hpp"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>

#include "bench/backlog.hpp"
#include "bench/compare.hpp"
#include "bench/row_by_row.hpp"
#include "bench/timeout_ways.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnectionsEach = 2;
constexpr auto kConnectTime = 10s;
constexpr auto kPatience = 5min;
// Rates differ by more than that from one run of the same to the next.
constexpr double kWithinNoise = 0.97;

using Replicas = std::vector<std::unique_ptr<OurTimeout>>;

/// Seconds until all rows are moved. A replica that has not taken what another held ticks again.
double work_off(Replicas& replicas, std::int64_t rows) {
  std::atomic<std::int64_t> moved = 0;
  const SteadyTime started = Clock::system().now();
  const auto work = [&](OurTimeout& replica) {
    while (moved < rows) {
      moved += replica.tick().processed;
      if (Clock::system().now() - started > kPatience) throw std::runtime_error("the replicas get nowhere");
    }
  };
  std::vector<std::future<void>> running;
  for (auto& replica : replicas) running.push_back(std::async(std::launch::async, [&] { work(*replica); }));
  for (auto& each : running) each.get();
  const double took = seconds_since(started);
  if (moved != rows) throw std::runtime_error(fmt::format("{} rows were reported moved of {}", moved, rows));
  return took;
}

std::string name_of(std::size_t replicas) {
  return replicas == 1 ? "1 replica" : fmt::format("{} replicas", replicas);
}

class Fleets {
 public:
  explicit Fleets(const Bench& bench)
      : rows_(bench.quick ? 10'000 : 100'000),
        rival_rows_(bench.quick ? 500 : 5'000),
        seeding_(backstage(bench.connector)),
        rival_(bench.connector.connect(Clock::system().now() + kConnectTime)) {}

  int rows() const { return rows_; }
  int rival_rows() const { return rival_rows_; }

  /// Rows per second.
  double ours(Replicas& fleet) {
    empty_tables(seeding_);
    add_lapsed_leases(seeding_, rows_, kPartitions);
    for (auto& replica : fleet) replica->look();
    const double rate = rows_ / work_off(fleet, rows_);
    expect_moved(seeding_, rows_);
    return rate;
  }

  double row_by_row() {
    const int partitions = kPartitions * rival_rows_ / rows_;
    empty_tables(seeding_);
    add_lapsed_leases(seeding_, rival_rows_, partitions);
    const SteadyTime started = Clock::system().now();
    attempt_timeout_row_by_row(rival_, partition_range({0}, {static_cast<std::int16_t>(partitions - 1)}));
    const double rate = rival_rows_ / seconds_since(started);
    expect_moved(seeding_, rival_rows_);
    return rate;
  }

  void clear() { empty_tables(seeding_); }

 private:
  const int rows_;
  const int rival_rows_;
  pg::Connection seeding_;
  pg::Connection rival_;
};

std::vector<Goal> goals(const std::vector<Way>& ways) {
  std::vector<Goal> all;
  for (std::size_t i = 1; i < ways.size(); ++i) {
    const double ratio = median_ratio(ways[i], ways[0]);
    all.push_back({fmt::format("{} together no slower than 1 (within 3%)", ways[i].name),
                   fmt::format("{} times", figure(ratio)), ratio >= kWithinNoise});
  }
  // Otherwise the measurement would have failed.
  all.push_back({"no row done twice", "exactly one lease event for each lease", true});
  return all;
}

}  // namespace

std::vector<Regime> measure_replicas(const Bench& bench) {
  Fleets fleets(bench);
  std::vector<Replicas> all;
  std::vector<Way> ways;
  for (const std::size_t size : {1, 2, 4}) {
    Replicas& fleet = all.emplace_back();
    for (std::size_t i = 0; i < size; ++i)
      fleet.push_back(std::make_unique<OurTimeout>(bench.connector, kConnectionsEach));
    ways.push_back({name_of(size), {}});
  }
  Way row_by_row{"row by row", {}};
  for (int round = 0; round < bench.rounds(); ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) ways[i].rounds.push_back(fleets.ours(all[i]));
    row_by_row.rounds.push_back(fleets.row_by_row());
  }
  fleets.clear();

  Regime regime{
      .name = "replicas",
      .title = fmt::format("attempt_timeout: {} lapsed leases in {} partitions, worked off by replicas with "
                           "{} connections each",
                           figure(fleets.rows()), kPartitions, kConnectionsEach),
      .unit = "rows/s",
      .ways = ways,
      .goals = goals(ways)};
  regime.ways.push_back(std::move(row_by_row));
  regime.remarks = {
      fmt::format("row by row: one connection, {} rows in partitions as full; its rate counts",
                  figure(fleets.rival_rows())),
      "all replicas look at the same rows at the same moment; rows that another holds are passed over"};
  return {std::move(regime)};
}

}  // namespace ff::bench
