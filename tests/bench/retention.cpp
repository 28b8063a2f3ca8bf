#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/bench.hpp"
#include "bench/daemon.hpp"
#include "bench/sql_file.hpp"
#include "bench/worker_load.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kEndsPerSecond = 500;
constexpr Milliseconds kBetweenEnds = 100ms;
constexpr Milliseconds kWarmUp = 10s;  // until each session of the daemon has planned what it deletes
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
    add_ended(connection_, {.count = rows_kept(),
                            .from_ms = database_now_ms(connection_) - kept_for_.count(),
                            .length = kept_for_,
                            .kept_for = kept_for_});
    settle(connection_, {"ff_exec_core", "ff_attempt", "ff_completion_event"});
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
      add_ended(connection, {.count = kEndsPerSecond * kBetweenEnds / 1s,
                             .from_ms = database_now_ms(connection),
                             .kept_for = kept_for_});
    }
  }

  const Bench& bench_;
  pg::Connection connection_;
  const Milliseconds kept_for_;
  const Milliseconds measured_for_;
  std::vector<double> excess_;
};

}  // namespace

std::vector<Findings> measure_retention(const Bench& bench) {
  SteadyEnds ends(bench);
  std::vector<Beside> ways{{"ours", [&] { return ends.daemon(kDeletes); }},
                           {"ours without it", [&] { return ends.daemon(kKeeps); }},
                           {"nobody", [&] { return ends.nobody(); }}};
  const int rounds = bench.quick ? 1 : 5;
  take_turns(rounds, ways);
  Findings found{
      .regime = "retention",
      .numbers = {{"ends_per_second", kEndsPerSecond},
                  {"kept", static_cast<double>(ends.rows_kept())},
                  {"excess", 100 * std::ranges::max(ends.excess())},
                  {"rounds", rounds},
                  {"workers", kWorkers},
                  {"claims_per_second", kClaimsPerSecond},
                  {"beside_its_own", median_ratio(ways[0].claim.way(0.99), ways[1].claim.way(0.99))}}};
  for (const Beside& way : ways) found.add(way.claim);
  return {std::move(found)};
}

}  // namespace ff::bench
