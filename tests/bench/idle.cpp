#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/daemon.hpp"
#include "bench/figures.hpp"
#include "bench/polling.hpp"
#include "bench/process_cost.hpp"
#include "bench/regimes.hpp"
#include "bench/sql_file.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

/// In percent of one core.
struct Cost {
  double server = 0;
  double asker = 0;
  double together() const { return server + asker; }
};

/// Rows of which nothing falls due for a day.
struct IdleRows {
  Tables tables;
  std::int64_t added = 0;
};

/// Makes them by the statements of a file: each says how many of a thousand of `count` it makes.
IdleRows add_idle_rows(pg::Connection& connection, const std::string& file, int count) {
  IdleRows rows{.tables = sql_file(file).at(0).words("tables")};
  const std::int64_t now = database_now_ms(connection);
  const std::int64_t tomorrow = now + Milliseconds{24h}.count();
  for (const SqlStatement& each : sql_file(file))
    rows.added +=
        connection
            .execute(each.text, pg::Params::of(count / 1000 * each.number("per mille"), now, tomorrow),
                     patiently())
            .affected();
  settle(connection, rows.tables);
  return rows;
}

struct Times {
  Milliseconds warm_up;
  Milliseconds measured;
};

/// `asker`: what whoever asks the server has cost so far, in seconds.
Cost cost_of(const Bench& bench, const Times& times, const std::function<double()>& asker) {
  std::this_thread::sleep_for(times.warm_up);
  const SteadyTime started = Clock::system().now();
  const Cost before{cpu_seconds_of_server(bench.server), asker()};
  std::this_thread::sleep_for(times.measured);
  const Cost after{cpu_seconds_of_server(bench.server), asker()};
  const double percent = 100 / seconds_since(started);
  return {(after.server - before.server) * percent, (after.asker - before.asker) * percent};
}

void require_idle(const std::string& metrics) {
  if (const auto moved = processed_rows(metrics); moved != 0)
    throw std::runtime_error(fmt::format("{} rows were moved while nothing was due", moved));
  for (const reconcile::Reconciler& each : reconcile::registry())
    if (test::metric_sum(metrics, "ff_reconciler_last_success_timestamp_seconds",
                         fmt::format("reconciler=\"{}\"", each.name)) == 0)
      throw std::runtime_error(fmt::format("{} has not looked", each.name));
}

std::string everything_on() {
  std::string config = "reconcilers:\n";
  for (const reconcile::Reconciler& each : reconcile::registry())
    if (!each.on_by_default) config += fmt::format("  {}: {{enabled: true}}\n", each.name);
  return config;
}

Cost of_daemon(const Bench& bench, const Times& times) {
  Daemon daemon(bench.conninfo(), everything_on());
  const Cost cost = cost_of(bench, times, [&] { return cpu_seconds_of(daemon.pid()); });
  require_idle(daemon.metrics());
  daemon.stop();
  return cost;
}

struct Polled {
  Cost cost;
  double passes_per_second = 0;
};

Polled of_polling(const Bench& bench, const Times& times) {
  Polling polling(bench.connector, polls_for_nothing());
  const Cost cost = cost_of(bench, times, [&] { return polling.cpu_seconds(); });
  const double passes = polling.polls();
  polling.stop();
  return {cost, passes / seconds(times.warm_up + times.measured)};
}

/// Some of ours look only every half minute, and some of those only when nothing was announced for a minute; of
/// the rival's looks almost all come every 5 s or sooner.
struct Plan {
  Times ours{75s, 70s};
  Times rival{2s, 15s};
  Times server{0s, 10s};
};
constexpr Plan kQuick{.ours = {3s, 2s}, .rival = {1s, 2s}, .server = {0s, 1s}};
// Each session plans each statement once, the last of them after minutes: what is measured is what it costs for ever.
constexpr Times kSettled{10min, 2min};

std::vector<std::string> remarks(const Plan& plan, const Cost& ours, const Polled& rival) {
  const auto parts = [](const char* who, const Cost& cost) {
    return fmt::format("{}: {:.2f}% in the server and {:.2f}% outside.", who, cost.server, cost.asker);
  };
  std::vector<std::string> all{parts("Ours", ours), parts("Polling", rival.cost)};
  all.push_back(
      fmt::format("User and system time, once: of ours over {} s after {} s of warming up, of polling over "
                  "{} s, of the server alone over {} s.",
                  seconds(plan.ours.measured), seconds(plan.ours.warm_up), seconds(plan.rival.measured),
                  seconds(plan.server.measured)));
  all.push_back(
      fmt::format("Polling looked at all partitions {:.1f} times a second, for 11 reconcilers over one "
                  "connection.",
                  rival.passes_per_second));
  all.push_back("What the server does for itself, such as looking for something to vacuum, is in all three.");
  return all;
}

}  // namespace

std::vector<Regime> measure_idle(const Bench& bench) {
  const Plan plan = bench.quick ? kQuick : Plan{};
  auto connection = connect(bench.connector);
  const IdleRows rows = add_idle_rows(connection, "idle_rows", bench.quick ? 20'000 : 1'000'000);
  const Cost ours = of_daemon(bench, plan.ours);
  const Polled rival = of_polling(bench, plan.rival);
  const Cost alone = cost_of(bench, plan.server, [] { return 0.0; });
  clear_leases(connection, rows.tables);
  return {{.name = "idle",
           .title = fmt::format("{} rows of which none is due, all reconcilers on, over 256 partitions",
                                rows.added),
           .unit = "% of a core",
           .ways = {{"ours", {ours.together()}},
                    {"seeds' polling", {rival.cost.together()}},
                    {"server alone", {alone.together()}}},
           .goals = {at_most(2, ours.together(), "% of one core")},
           .remarks = remarks(plan, ours, rival),
           .plot = {.x = "", .y = "% of one core"}}};
}

std::vector<Regime> measure_size(const Bench& bench) {
  const Times times = bench.quick ? kQuick.ours : kSettled;
  auto connection = connect(bench.connector);
  const int each = bench.quick ? 20'000 : 1'000'000;
  const IdleRows rows = add_idle_rows(connection, "waiting_rows", each);
  const Cost ours = of_daemon(bench, times);
  const Cost alone = cost_of(bench, Plan{}.server, [] { return 0.0; });
  clear_leases(connection, rows.tables);
  return {{.name = "size",
           .title = fmt::format(
               "{0} executions that wait, {0} that are suspended and their waitpoints, {1} rows of which "
               "none is due, all reconcilers on",
               each, rows.added),
           .unit = "% of a core",
           .ways = {{"ours", {ours.together()}}, {"server alone", {alone.together()}}},
           .goals = {at_most(10, ours.together(), "% of one core")},
           .remarks = {fmt::format("{:.2f}% in the server and {:.2f}% in the daemon, over {} s after {} s.",
                                   ours.server, ours.asker, seconds(times.measured), seconds(times.warm_up))},
           .plot = {.x = "", .y = "% of one core"}}};
}

}  // namespace ff::bench
