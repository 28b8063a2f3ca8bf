#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/daemon.hpp"
#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "bench/sql_file.hpp"
#include "bench/worker_load.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kEndsPerSecond = 500;
constexpr Milliseconds kBetweenEnds = 100ms;
constexpr Milliseconds kWarmUp = 10s;  // until each session of the daemon has planned what it deletes
constexpr double kMostRatio = 1.2;
constexpr double kMostExcess = 0.1;
// In the proportion of its default to the default age it would be far shorter.
constexpr const char* kKeeps = "";
constexpr const char* kDeletes = R"(
reconcilers:
  execution_retention: {enabled: true, interval: 1s}
)";

/// Executions end at a steady rate, and have done so for as long as they are kept; workers are at work beside.
class SteadyEnds {
 public:
  explicit SteadyEnds(const Bench& bench)
      : bench_(bench),
        connection_(backstage(bench.connector)),
        kept_for_(bench.quick ? 20s : 120s),
        measured_for_(bench.quick ? 3s : 20s) {}

  WorkerLatency nobody() {
    prepare();
    WorkerLatency latency = measure();
    empty(connection_);
    return latency;
  }

  WorkerLatency daemon(const char* config) {
    prepare();
    Daemon daemon(bench_.conninfo(), config);
    WorkerLatency latency = measure();
    if (config == kDeletes) {
      const auto kept =
          connection_.execute(sql("retention", "kept"), {}, patiently()).one().get<std::int64_t>(0);
      excess_.push_back(static_cast<double>(kept) / static_cast<double>(rows_kept()) - 1);
    }
    daemon.stop();
    empty(connection_);
    return latency;
  }

  std::int64_t rows_kept() const { return kept_for_.count() * kEndsPerSecond / 1000; }
  /// Of each round of the daemon: by how much what was left exceeded what was young enough.
  const std::vector<double>& excess() const { return excess_; }

 private:
  void prepare() {
    add(connection_, rows_kept(), database_now_ms(connection_) - kept_for_.count(), kept_for_);
    settle(connection_, {"ff_exec_core", "ff_attempt", "ff_completion_event"});
  }

  void add(pg::Connection& connection, std::int64_t rows, std::int64_t from_ms, Milliseconds length) const {
    connection.execute(sql("retention", "add ended"),
                       pg::Params::of(rows, from_ms, length.count(), kept_for_.count()), patiently());
  }

  WorkerLatency measure() {
    std::atomic<bool> over{false};
    std::future<void> ends = std::async(std::launch::async, [&] { end_executions(over); });
    WorkerLatency latency;
    std::this_thread::sleep_for(kWarmUp);
    try {
      latency = latency_during(bench_.connector, [&] { std::this_thread::sleep_for(measured_for_); });
    } catch (...) {
      over = true;
      throw;
    }
    over = true;
    ends.get();
    return latency;
  }

  void end_executions(const std::atomic<bool>& over) const {
    pg::Connection connection = connect(bench_.connector);
    for (SteadyTime moment = Clock::system().now(); !over; moment += kBetweenEnds) {
      std::this_thread::sleep_until(moment);
      add(connection, kEndsPerSecond * kBetweenEnds / 1s, database_now_ms(connection), Milliseconds{0});
    }
  }

  const Bench& bench_;
  pg::Connection connection_;
  const Milliseconds kept_for_;
  const Milliseconds measured_for_;
  std::vector<double> excess_;
};

}  // namespace

std::vector<Regime> measure_retention(const Bench& bench) {
  SteadyEnds ends(bench);
  Rounds ours("ours, claim"), without("ours without it, claim"), nobody("nobody, claim");
  const int rounds = bench.quick ? 1 : 5;
  for (int round = 0; round < rounds; ++round)
    for (int turn = 0; turn < 3; ++turn) switch ((round + turn) % 3) {
        case 0:
          ours.add(ends.daemon(kDeletes).claim);
          break;
        case 1:
          without.add(ends.daemon(kKeeps).claim);
          break;
        default:
          nobody.add(ends.nobody().claim);
      }
  const double ratio = median_ratio(ours.way("", 0.99), nobody.way("", 0.99));
  const double of_its_own = median_ratio(ours.way("", 0.99), without.way("", 0.99));
  const double excess = std::ranges::max(ends.excess());
  Regime regime{
      .name = "retention",
      .title = fmt::format(
          "execution_retention while {} executions a second end, and {} are young enough to be kept",
          kEndsPerSecond, figure(static_cast<double>(ends.rows_kept()))),
      .unit = "ms",
      .ways = {},
      .goals =
          {{.wanted = fmt::format("a claim's p99 at most {} times as long as with nobody", kMostRatio),
            .reached = fmt::format(
                "{:.2f} times, the median of {} pairs; {:.2f} times as long as beside a daemon without it",
                ratio, rounds, of_its_own),
            .met = ratio <= kMostRatio},
           {.wanted = fmt::format("at most {:.0f}% more rows than are young enough", 100 * kMostExcess),
            .reached = fmt::format("{:.1f}%, in the worst round", 100 * excess),
            .met = excess <= kMostExcess}},
      .remarks =
          {fmt::format(
               "{} workers claim {} executions a second each; every step at its moment, from which its "
               "time is counted.",
               kWorkers, kClaimsPerSecond),
           "Each execution has an attempt and a dispatched completion event, and says itself how long it is "
           "kept. With nobody they only grow more."},
      .plot = {.x = "until the step is committed, ms", .y = "share of steps, %", .logarithmic_x = true}};
  for (const Rounds* way : {&ours, &without, &nobody}) {
    regime.ways.push_back(way->way(" p50", 0.5));
    regime.ways.push_back(way->way(" p99", 0.99));
    regime.plot.curves.push_back(way->curve());
  }
  return {std::move(regime)};
}

}  // namespace ff::bench
