#include "bench/replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
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

constexpr int kConnectionsEach = 1;  // as the daemon, unless it is given helpers
constexpr auto kConnectTime = 10s;
constexpr auto kPatience = 5min;
// Rates differ by more than that from one run of the same to the next.
constexpr double kWithinNoise = 0.97;

// However often an execution's lease has been taken, its attempt is one.
constexpr std::string_view kLeaseEvents = R"sql(
SELECT coalesce(sum(events), 0)::bigint, count(*) FILTER (WHERE events > 1)
  FROM (SELECT count(*) AS events FROM ff_lease_event WHERE event_type = 'expired' GROUP BY partition_key, execution_id)
       AS lease)sql";

using Replicas = std::vector<OurTimeout*>;

/// What all runs together have come to.
struct Tally {
  std::int64_t rows = 0;
  std::int64_t reported = 0;  ///< as moved, by the replicas
  std::int64_t events = 0;    ///< of leases that were taken away
  std::int64_t twice = 0;     ///< leases with more than one such event

  bool each_once() const { return reported == rows && events == rows && twice == 0; }
  void add(const Tally& run) {
    rows += run.rows;
    reported += run.reported;
    events += run.events;
    twice += run.twice;
  }
};

struct WorkedOff {
  double seconds = 0;
  std::int64_t reported = 0;
};

/// Until as many rows as there are have been reported moved. A replica that has not taken what another held
/// ticks again.
WorkedOff work_off(const Replicas& replicas, std::int64_t rows) {
  std::atomic<std::int64_t> moved = 0;
  const SteadyTime started = Clock::system().now();
  const auto work = [&](OurTimeout& replica) {
    while (moved < rows) {
      moved += replica.tick().processed;
      if (Clock::system().now() - started > kPatience) throw std::runtime_error("the replicas get nowhere");
    }
  };
  std::vector<std::future<void>> running;
  for (OurTimeout* replica : replicas)
    running.push_back(std::async(std::launch::async, [&work, replica] { work(*replica); }));
  for (auto& each : running) each.get();
  return {seconds_since(started), moved};
}

class Runs {
 public:
  explicit Runs(const Bench& bench)
      : rows_(bench.quick ? 10'000 : 100'000),
        rival_rows_(bench.quick ? 500 : 5'000),
        seeding_(backstage(bench.connector)),
        rival_(bench.connector.connect(Clock::system().now() + kConnectTime)) {}

  int rows() const { return rows_; }
  int rival_rows() const { return rival_rows_; }
  const Tally& tally() const { return tally_; }

  void rehearse(const Replicas& all) { bench::rehearse(seeding_, all); }

  /// Rows per second.
  double ours(const Replicas& replicas) {
    empty_tables(seeding_);
    add_lapsed_leases(seeding_, rows_, kPartitions);
    for (OurTimeout* replica : replicas) {
      replica->start_over();
      replica->warm_up();
    }
    const WorkedOff done = work_off(replicas, rows_);
    const pg::Result events = seeding_.execute(kLeaseEvents, {}, Clock::system().now() + kPatience);
    const Tally run{rows_, done.reported, events.one().get<std::int64_t>(0),
                    events.one().get<std::int64_t>(1)};
    tally_.add(run);
    if (run.each_once()) expect_moved(seeding_, rows_);  // otherwise the goal tells
    return rows_ / done.seconds;
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
  Tally tally_;
};

struct Fleet {
  Replicas replicas;
  Way way;
};

// One, two and four replicas of the same; beside two and four, one alone with as many connections as they have
// together.
class Fleets {
 public:
  explicit Fleets(const pg::Connector& connector) {
    for (int i = 0; i < 4; ++i) add(connector, kConnectionsEach);
    for (const int replicas : {2, 4}) add(connector, replicas * kConnectionsEach);
    const auto first = [&](std::size_t count) {
      return Replicas(replicas_.begin(), replicas_.begin() + static_cast<std::ptrdiff_t>(count));
    };
    all_.push_back({first(1), {"1 replica", {}}});
    for (const std::size_t count : {2, 4})
      all_.push_back({first(count), {fmt::format("{} replicas", count), {}}});
    for (const std::size_t alone : {4, 5})
      all_.push_back(
          {{replicas_[alone]},
           {fmt::format("1 replica, {} connections", (alone == 4 ? 2 : 4) * kConnectionsEach), {}}});
  }

  std::vector<Fleet>& all() { return all_; }
  const Replicas& replicas() const { return replicas_; }

  std::vector<Way> ways() const {
    std::vector<Way> ways;
    for (const Fleet& fleet : all_) ways.push_back(fleet.way);
    return ways;
  }

 private:
  void add(const pg::Connector& connector, int connections) {
    owned_.push_back(std::make_unique<OurTimeout>(connector, connections));
    replicas_.push_back(owned_.back().get());
  }

  std::vector<std::unique_ptr<OurTimeout>> owned_;
  Replicas replicas_;
  std::vector<Fleet> all_;
};

// The first three ways are those of one, two and four replicas.
std::vector<Goal> goals(const std::vector<Way>& ways, const Tally& tally) {
  std::vector<Goal> all;
  for (const std::size_t i : {1, 2}) {
    const double ratio = median_ratio(ways[i], ways[0]);
    all.push_back({fmt::format("{} together no slower than 1 (within 3%)", ways[i].name),
                   fmt::format("{} times", figure(ratio)), ratio >= kWithinNoise});
  }
  all.push_back({"no row done twice",
                 fmt::format("of {} leases {} have more than one event; {} events, {} reported moved",
                             tally.rows, tally.twice, tally.events, tally.reported),
                 tally.each_once()});
  return all;
}

// Two replicas' rival with as many connections is two ways further on, like four replicas'.
std::string beside_one_alone(const std::vector<Way>& ways, std::size_t replicas) {
  return fmt::format("{} reach {} times the rate of {}, which has as many and nobody to meet",
                     ways[replicas].name, figure(median_ratio(ways[replicas], ways[replicas + 2])),
                     ways[replicas + 2].name);
}

}  // namespace

std::vector<Regime> measure_replicas(const Bench& bench) {
  Runs runs(bench);
  Fleets fleets(bench.connector);
  runs.rehearse(fleets.replicas());
  Way row_by_row{"row by row", {}};
  for (int round = 0; round < bench.rounds(); ++round) {
    auto& all = fleets.all();
    for (std::size_t i = 0; i < all.size(); ++i) {
      Fleet& fleet = all[(i + static_cast<std::size_t>(round)) % all.size()];
      fleet.way.rounds.push_back(runs.ours(fleet.replicas));
    }
    row_by_row.rounds.push_back(runs.row_by_row());
  }
  runs.clear();

  Regime regime{
      .name = "replicas",
      .title = fmt::format("attempt_timeout: {} lapsed leases in {} partitions, worked off by replicas with "
                           "{} connection each",
                           figure(runs.rows()), kPartitions, kConnectionsEach),
      .unit = "rows/s",
      .ways = fleets.ways(),
      .goals = goals(fleets.ways(), runs.tally())};
  regime.remarks = {
      fmt::format("row by row: one connection, {} rows in partitions as full; its rate counts",
                  figure(runs.rival_rows())),
      "all replicas look at the same rows at the same moment; rows that another holds are passed over",
      "before each figure the engines are new, but all their connections have planned a look and have acted "
      "in "
      "all partitions",
      beside_one_alone(regime.ways, 1), beside_one_alone(regime.ways, 2)};
  regime.ways.push_back(std::move(row_by_row));
  return {std::move(regime)};
}

}  // namespace ff::bench
