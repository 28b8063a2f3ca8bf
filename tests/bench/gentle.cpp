#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/bench.hpp"
#include "bench/daemon.hpp"
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
    empty(connection_);
  }

  WorkerLatency nobody() {
    add_backlog();
    WorkerLatency latency = from_the_moment([&] { std::this_thread::sleep_for(bench_.quick ? 1s : 5s); });
    if (leases_left(connection_, kNameSpace) != rows_) throw std::runtime_error("somebody took the leases");
    empty(connection_);
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

  int rows() const { return rows_; }
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
    empty(connection_);
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

// In turns, and what all ways have in common.
Findings measure(std::string regime, std::vector<Beside>& ways, int rounds, const MassExpiry& expiry) {
  take_turns(rounds, ways);
  Findings found{.regime = std::move(regime),
                 .numbers = {{"workers", kWorkers},
                             {"claims_per_second", kClaimsPerSecond},
                             {"rows", expiry.rows()},
                             {"rounds", rounds},
                             {"most_off", static_cast<double>(expiry.most_off().count())},
                             {"warm_up_rows", kWarmUpRows}}};
  std::string& steps = found.words["steps"];
  for (const Beside& way : ways) {
    found.add(way.claim);
    found.add(way.renew);
    steps += fmt::format("{}{} {} claims, {} renewals", steps.empty() ? "" : "; ", way.whom,
                         way.claim.all().size(), way.renew.all().size());
  }
  return found;
}

int rows_of(const Bench& bench) {
  return bench.quick ? 20'000 : 100'000;
}

}  // namespace

std::vector<Findings> measure_gentle(const Bench& bench) {
  MassExpiry expiry(bench, rows_of(bench));
  std::vector<Beside> ways{{"ours", [&] { return expiry.daemon(""); }},
                           {"nobody", [&] { return expiry.nobody(); }},
                           {"floor (one bulk)", [&] { return expiry.bulk(); }}};
  if (!bench.quick) ways.emplace_back("ours, a helper", [&] { return expiry.daemon("helpers: 1\n"); });
  return {measure("gentle", ways, bench.quick ? 1 : 2, expiry)};
}

std::vector<Findings> measure_storm(const Bench& bench) {
  MassExpiry expiry(bench, rows_of(bench));
  std::vector<Beside> ways{{"ours, storm control", [&] { return expiry.daemon("storm: on\n"); }},
                           {"nobody", [&] { return expiry.nobody(); }}};
  return {measure("storm", ways, bench.quick ? 1 : 5, expiry)};
}

}  // namespace ff::bench
