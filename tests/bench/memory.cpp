#include <fmt/format.h>

#include <stdexcept>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/daemon.hpp"
#include "bench/figures.hpp"
#include "bench/process_cost.hpp"
#include "bench/regimes.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr double kWantedMib = 30;
constexpr double kWantedP99Ms = 10;
constexpr Milliseconds kPatience = 10min;
constexpr Milliseconds kBetweenScrapes = 250ms;  // each is rendered: none is younger than what is kept

constexpr const char* kNameSpace = "backlog";

struct Figures {
  int rows = 0;
  double seconds = 0;
  double at_start_mib = 0;
  double most_mib = 0;
  Distribution busy{};  ///< of /metrics
  Distribution idle{};
};

/// Scrapes after the pause that a scraper makes, and returns what was said.
std::string scrape(Daemon& daemon, Distribution& took) {
  std::this_thread::sleep_for(kBetweenScrapes);
  const SteadyTime asked = Clock::system().now();
  std::string metrics = daemon.metrics();
  took.add(1000 * seconds_since(asked));
  return metrics;
}

Figures work_off(const Bench& bench, int rows) {
  Figures figures{.rows = rows};
  Daemon daemon(bench.conninfo());
  figures.at_start_mib = mib_of(daemon.pid(), "VmHWM");
  const SteadyTime started = Clock::system().now();
  while (processed_rows(scrape(daemon, figures.busy), "attempt_timeout") < rows)
    if (Clock::system().now() > started + kPatience)
      throw std::runtime_error("the daemon does not get through the backlog");
  figures.seconds = seconds_since(started);
  figures.most_mib = mib_of(daemon.pid(), "VmHWM");
  for (int i = 0; i < (bench.quick ? 20 : 100); ++i) scrape(daemon, figures.idle);
  daemon.stop();
  return figures;
}

Regime memory_of(const Figures& figures) {
  return {.name = "memory",
          .title = fmt::format("the daemon's largest resident size over a backlog of {} lapsed leases",
                               figures.rows),
          .unit = "MiB",
          .ways = {{"ours", {figures.most_mib}}, {"ours, just ready", {figures.at_start_mib}}},
          .goals = {at_most(kWantedMib, figures.most_mib, " MiB")},
          .remarks = {fmt::format(
              "VmHWM of the process, from its start to the end of the backlog {:.0f} s later; "
              "all reconcilers at their defaults.",
              figures.seconds)},
          .plot = {.x = "", .y = "MiB"}};
}

Regime metrics_of(const Figures& figures) {
  const double p99 = figures.busy.quantile(0.99);
  return {.name = "metrics_latency",
          .title = fmt::format("how soon /metrics answers while the daemon works off {} lapsed leases",
                               figures.rows),
          .unit = "ms",
          .ways = {{"ours at work, p50", {figures.busy.quantile(0.5)}},
                   {"ours at work, p99", {p99}},
                   {"ours idle, p50", {figures.idle.quantile(0.5)}},
                   {"ours idle, p99", {figures.idle.quantile(0.99)}}},
          .goals = {at_most(kWantedP99Ms, p99, " ms", "p99")},
          .remarks = {fmt::format(
              "{} scrapes at work and {} after it, one every {} ms, each over a connection of "
              "its own.",
              figures.busy.size(), figures.idle.size(), kBetweenScrapes.count())},
          .plot = {.x = "until /metrics has answered, ms",
                   .y = "share of scrapes, %",
                   .logarithmic_x = true,
                   .curves = {figures.busy.cumulative("at work"), figures.idle.cumulative("idle")}}};
}

}  // namespace

std::vector<Regime> measure_memory(const Bench& bench) {
  const int rows = bench.quick ? 20'000 : 1'000'000;
  auto connection = connect(bench.connector);
  add_leases(connection, {.count = rows, .name_space = kNameSpace});
  settle(connection);
  const Figures figures = work_off(bench, rows);
  require_all_expired_once(connection, kNameSpace, rows);
  clear_leases(connection);
  return {memory_of(figures), metrics_of(figures)};
}

}  // namespace ff::bench
