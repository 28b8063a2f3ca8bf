#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
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

constexpr Milliseconds kPatience = 5min;
constexpr const char* kNameSpace = "lapsed";
constexpr const char* kWarmUp = "warm-up";
constexpr int kWarmUpRows = 2'048;  // eight in each partition: more than a scan shows of one
constexpr Milliseconds kPoll = 50ms;
// A lease lapses when its millisecond is over, and that may have begun a millisecond after ours.
constexpr Milliseconds kLapsed = 3ms;

/// One way, and its latencies round by round.
struct Gentleness {
  Gentleness(const std::string& way, std::function<WorkerLatency()> measured)
      : name(way), measure(std::move(measured)), claim(way + ", claim"), renew(way + ", renew") {}
  std::string name;
  std::function<WorkerLatency()> measure;
  Rounds claim;
  Rounds renew;
};

// Each round begins with another.
void take_turns(std::vector<Gentleness>& ways, int rounds) {
  for (int round = 0; round < rounds; ++round)
    for (std::size_t turn = 0; turn < ways.size(); ++turn) {
      Gentleness& way = ways[(static_cast<std::size_t>(round) + turn) % ways.size()];
      const WorkerLatency latency = way.measure();
      way.claim.add(latency.claim);
      way.renew.add(latency.renew);
    }
}

// A hundred thousand leases that lapse at one moment, with the workers already at work, and what this moment
// finds: nobody, the daemon, or one bulk transaction.
class MassExpiry {
 public:
  MassExpiry(const Bench& bench, int rows)
      : bench_(bench), connection_(connect(bench.connector)), rows_(rows) {
    const SteadyTime started = Clock::system().now();
    latency_during(bench.connector, [&] { workers_start_up_ = since(started); });
    const SteadyTime preparing = Clock::system().now();
    prepare(1h);
    preparing_takes_ = since(preparing);
    clear_leases(connection_);
  }

  WorkerLatency nobody() {
    add_backlog();
    WorkerLatency latency = from_the_moment([&] { std::this_thread::sleep_for(bench_.quick ? 1s : 5s); });
    if (leases_left(connection_, kNameSpace) != rows_) throw std::runtime_error("somebody took the leases");
    clear_leases(connection_);
    return latency;
  }

  WorkerLatency daemon(const std::string& config) {
    Daemon daemon(bench_.conninfo(), config);
    add_leases(connection_, {.count = kWarmUpRows, .name_space = kWarmUp});
    wait_until_moved(daemon, kWarmUpRows);
    add_backlog();
    WorkerLatency latency = from_the_moment([&] { wait_until_moved(daemon, kWarmUpRows + rows_); });
    daemon.stop();
    clear_backlog();
    return latency;
  }

  WorkerLatency bulk() {
    add_backlog();
    const std::string bulk = sql_script("bulk");
    WorkerLatency latency = from_the_moment([&] { connection_.execute_script(bulk, patiently()); });
    clear_backlog();
    return latency;
  }

  /// By how much the workers were measured too early or too late, at most.
  Milliseconds most_off() const { return most_off_; }

 private:
  static Milliseconds since(SteadyTime started) {
    return std::chrono::duration_cast<Milliseconds>(Clock::system().now() - started);
  }

  // Leases that hold until all is prepared: how long that takes this time is known afterwards only.
  void add_backlog() {
    const Milliseconds hold = 3 * preparing_takes_ + workers_start_up_;
    moment_ = Clock::system().now() + hold;
    prepare(hold);
  }

  void prepare(Milliseconds hold) {
    add_leases(connection_, {.count = rows_,
                             .name_space = kNameSpace,
                             .from_ms = count(Clock::system().wall()) + hold.count(),
                             .length_ms = 1});
    settle(connection_);
  }

  void clear_backlog() {
    require_all_expired_once(connection_, kNameSpace, rows_);
    clear_leases(connection_);
  }

  // Workers are hired so early that they are at work by then.
  WorkerLatency from_the_moment(const std::function<void()>& work) {
    const SteadyTime hiring = moment_ - workers_start_up_;
    if (Clock::system().now() > hiring) throw std::runtime_error("the leases lapse before all is prepared");
    std::this_thread::sleep_until(hiring);
    return latency_during(bench_.connector, [&] {
      workers_start_up_ = since(hiring);
      most_off_ = std::max(most_off_, std::chrono::abs(since(moment_)));
      std::this_thread::sleep_until(moment_ + kLapsed);
      work();
    });
  }

  static void wait_until_moved(Daemon& daemon, std::int64_t rows) {
    const SteadyTime started = Clock::system().now();
    while (daemon.processed("attempt_timeout") < rows) {
      if (since(started) > kPatience) throw std::runtime_error("the daemon does not get through the backlog");
      std::this_thread::sleep_for(kPoll);
    }
  }

  const Bench& bench_;
  pg::Connection connection_;
  const int rows_;
  Milliseconds preparing_takes_{0};   // as it did once
  Milliseconds workers_start_up_{0};  // as it was the last time
  Milliseconds most_off_{0};
  SteadyTime moment_;  // when the leases lapse
};

Regime regime_of(const std::vector<Gentleness>& ways, int rows, Milliseconds most_off) {
  Regime regime{
      .name = "gentle",
      .title = fmt::format("{} workers claim and renew while {} leases lapse at one moment", kWorkers, rows),
      .unit = "ms",
      .ways = {},
      .plot = {.x = "until the step is committed, ms", .y = "share of steps, %", .logarithmic_x = true}};
  for (const Gentleness& way : ways) {
    for (const Rounds* steps : {&way.claim, &way.renew}) {
      regime.ways.push_back(steps->way(" p50", 0.5));
      regime.ways.push_back(steps->way(" p99", 0.99));
      regime.plot.curves.push_back(steps->curve());
    }
    regime.remarks.push_back(
        fmt::format("{}: {} claims, {} renewals.", way.name, way.claim.all().size(), way.renew.all().size()));
  }
  regime.remarks.push_back(
      fmt::format("{} workers, each over its own connection, claim {} executions a second each; every step "
                  "at its moment, from "
                  "which its time is counted.",
                  kWorkers, kClaimsPerSecond));
  regime.remarks.push_back(
      fmt::format("Measured from the moment when the leases lapse (off by {} ms at most) until all are "
                  "processed; the daemon had been running, with a backlog of {} rows worked off.",
                  most_off.count(), kWarmUpRows));
  return regime;
}

}  // namespace

std::vector<Regime> measure_gentle(const Bench& bench) {
  const int rows = bench.quick ? 20'000 : 100'000;
  MassExpiry expiry(bench, rows);
  std::vector<Gentleness> ways{{"ours", [&] { return expiry.daemon(""); }},
                               {"nobody", [&] { return expiry.nobody(); }},
                               {"floor (one bulk)", [&] { return expiry.bulk(); }}};
  if (!bench.quick) ways.emplace_back("ours, a helper", [&] { return expiry.daemon("helpers: 1\n"); });
  take_turns(ways, bench.quick ? 1 : 2);
  return {regime_of(ways, rows, expiry.most_off())};
}

std::vector<Regime> measure_storm(const Bench& bench) {
  const int rows = bench.quick ? 20'000 : 100'000;
  const int rounds = bench.quick ? 1 : 5;
  MassExpiry expiry(bench, rows);
  std::vector<Gentleness> ways{{"ours, storm control", [&] { return expiry.daemon("storm: on\n"); }},
                               {"nobody", [&] { return expiry.nobody(); }}};
  take_turns(ways, rounds);
  Regime regime = regime_of(ways, rows, expiry.most_off());
  regime.name = "storm";
  const double ratio = median_ratio(ways[0].claim.way("", 0.99), ways[1].claim.way("", 0.99));
  regime.goals.push_back({.wanted = "a claim's p99 at most twice as long as with nobody",
                          .reached = fmt::format("{:.2f} times, the median of {} pairs", ratio, rounds),
                          .met = ratio <= 2.0});
  return {regime};
}

}  // namespace ff::bench
