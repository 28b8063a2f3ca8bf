#include "bench/gentle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

#include "bench/daemon_process.hpp"
#include "bench/lease_rows.hpp"
#include "bench/worker_load.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kConnectTime = 5s;
constexpr Milliseconds kPatience = 5min;
constexpr const char* kNameSpace = "lapsed";
constexpr const char* kWarmUp = "warm-up";
constexpr int kWarmUpRows = 2'048;  // eight in each partition: more than a look shows of one
constexpr Milliseconds kPoll = 50ms;
// A lease lapses when its millisecond is over, and that may have begun a millisecond after ours.
constexpr Milliseconds kLapsed = 3ms;

// All that attempt_timeout does to executions that have a retry left, in plain statements of one transaction.
constexpr const char* kBulk = R"sql(
UPDATE ff_exec_core c
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting', attempt_index = c.attempt_index + 1,
       raw_fields = c.raw_fields || jsonb_build_object('last_failure_message', 'attempt_timeout',
                                                       'total_attempt_count', (c.attempt_index + 1)::text)
  FROM ff_attempt a
 WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id
   AND a.lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint;
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT c.execution_id::text, 'expired', floor(extract(epoch FROM now()) * 1000)::bigint, c.partition_key,
       c.raw_fields->>'namespace', c.raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint;
UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1,
       terminal_at_ms = floor(extract(epoch FROM now()) * 1000)::bigint
 WHERE lease_expires_at_ms < floor(extract(epoch FROM now()) * 1000)::bigint)sql";

/// The latencies of one way, all rounds together and each round's quantiles.
struct Gentleness {
  std::string name;
  WorkerLatency all{};
  std::vector<double> claim_p50{};
  std::vector<double> claim_p99{};
  std::vector<double> renew_p50{};
  std::vector<double> renew_p99{};

  void add(const WorkerLatency& round) {
    all.add(round);
    claim_p50.push_back(round.claim.quantile(0.5));
    claim_p99.push_back(round.claim.quantile(0.99));
    renew_p50.push_back(round.renew.quantile(0.5));
    renew_p99.push_back(round.renew.quantile(0.99));
  }
};

// A hundred thousand leases that lapse at one moment, with the workers already at work, and what this moment
// finds: nobody, the daemon, or one bulk transaction.
class MassExpiry {
 public:
  MassExpiry(const Bench& bench, int rows)
      : bench_(bench),
        connection_(bench.connector.connect(Clock::system().now() + kConnectTime)),
        rows_(rows) {
    const SteadyTime started = Clock::system().now();
    latency_during(bench.connector, [&] { workers_start_up_ = since(started); });
    const SteadyTime preparing = Clock::system().now();
    prepare(1h);
    preparing_takes_ = since(preparing);
    clear_out(connection_, lease_tables());
  }

  WorkerLatency nobody() {
    add_backlog();
    WorkerLatency latency = from_the_moment([&] { std::this_thread::sleep_for(bench_.quick ? 1s : 5s); });
    if (leases_left(connection_, kNameSpace) != rows_) throw std::runtime_error("somebody took the leases");
    clear_out(connection_, lease_tables());
    return latency;
  }

  WorkerLatency daemon(const std::string& config) {
    DaemonProcess daemon(bench_.conninfo(), config);
    daemon.wait_until_ready();
    add_leases(connection_, {.count = kWarmUpRows, .name_space = kWarmUp});
    wait_until_moved(daemon, kWarmUpRows);
    add_backlog();
    WorkerLatency latency = from_the_moment([&] { wait_until_moved(daemon, kWarmUpRows + rows_); });
    require_no_errors(daemon.metrics());
    daemon.stop();
    clear_backlog();
    return latency;
  }

  WorkerLatency bulk() {
    add_backlog();
    WorkerLatency latency =
        from_the_moment([&] { connection_.execute_script(kBulk, Clock::system().now() + kPatience); });
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
    settle(connection_, lease_tables());
  }

  void clear_backlog() {
    require_all_expired_once(connection_, kNameSpace, rows_);
    clear_out(connection_, lease_tables());
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

  static void wait_until_moved(DaemonProcess& daemon, std::int64_t rows) {
    const SteadyTime started = Clock::system().now();
    while (processed_rows(daemon.metrics(), "attempt_timeout") < rows) {
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
    regime.ways.push_back({way.name + ", claim p50", way.claim_p50});
    regime.ways.push_back({way.name + ", claim p99", way.claim_p99});
    regime.ways.push_back({way.name + ", renew p50", way.renew_p50});
    regime.ways.push_back({way.name + ", renew p99", way.renew_p99});
    regime.remarks.push_back(
        fmt::format("{}: {} claims, {} renewals.", way.name, way.all.claim.size(), way.all.renew.size()));
    regime.plot.curves.push_back(way.all.claim.cumulative(way.name + ", claim"));
    regime.plot.curves.push_back(way.all.renew.cumulative(way.name + ", renew"));
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
  const int rounds = bench.quick ? 1 : 2;
  MassExpiry expiry(bench, rows);
  std::vector<Gentleness> ways{{"ours"}, {"nobody"}, {"floor (one bulk)"}};
  std::vector<std::function<WorkerLatency()>> measures{
      [&] { return expiry.daemon(""); }, [&] { return expiry.nobody(); }, [&] { return expiry.bulk(); }};
  if (!bench.quick) {
    ways.push_back({"ours, a helper"});
    measures.emplace_back([&] { return expiry.daemon("helpers: 1\n"); });
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t turn = 0; turn < ways.size(); ++turn) {
      const std::size_t way = (static_cast<std::size_t>(round) + turn) % ways.size();
      ways[way].add(measures[way]());
    }
  return {regime_of(ways, rows, expiry.most_off())};
}

std::vector<Regime> measure_storm(const Bench& bench) {
  const int rows = bench.quick ? 20'000 : 100'000;
  const int rounds = bench.quick ? 1 : 5;
  MassExpiry expiry(bench, rows);
  std::vector<Gentleness> ways{{"ours, storm control"}, {"nobody"}};
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const auto ours = [&] { ways[0].add(expiry.daemon("storm: on\n")); };
    const auto nobody = [&] { ways[1].add(expiry.nobody()); };
    round % 2 == 0 ? ours() : nobody();
    round % 2 == 0 ? nobody() : ours();
    ratios.push_back(ways[0].claim_p99.back() / ways[1].claim_p99.back());
  }
  Regime regime = regime_of(ways, rows, expiry.most_off());
  regime.name = "storm";
  const double ratio = Way{"", ratios}.median();
  regime.goals.push_back({.wanted = "a claim's p99 at most twice as long as with nobody",
                          .reached = fmt::format("{:.2f} times, the median of {} pairs", ratio, rounds),
                          .met = ratio <= 2.0});
  return {regime};
}

}  // namespace ff::bench
