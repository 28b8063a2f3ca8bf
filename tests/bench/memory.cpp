#include <stdexcept>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/bench.hpp"
#include "bench/daemon.hpp"
#include "bench/process_cost.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kPatience = 10min;
constexpr Milliseconds kBetweenScrapes = 250ms;  // each is rendered: none is younger than what is kept

constexpr const char* kNameSpace = "backlog";

/// Scrapes after the pause that a scraper makes, and returns what was said.
std::string scrape(Daemon& daemon, Distribution& took) {
  std::this_thread::sleep_for(kBetweenScrapes);
  std::string metrics;
  took.add(1000 * seconds_taken([&] { metrics = daemon.metrics(); }));
  return metrics;
}

std::vector<Findings> work_off(const Bench& bench, int rows) {
  Rounds busy("ours at work"), idle("ours idle");
  Distribution at_work, at_rest;
  Daemon daemon(bench.conninfo());
  const double at_start_mib = mib_of(daemon.pid(), "VmHWM");
  const SteadyTime started = Clock::system().now();
  while (processed_rows(scrape(daemon, at_work), "attempt_timeout") < rows)
    if (Clock::system().now() > started + kPatience)
      throw std::runtime_error("the daemon does not get through the backlog");
  const double took = seconds_since(started), most_mib = mib_of(daemon.pid(), "VmHWM");
  for (int i = 0; i < (bench.quick ? 20 : 100); ++i) scrape(daemon, at_rest);
  daemon.stop();
  busy.add(at_work);
  idle.add(at_rest);
  Findings memory{.regime = "memory",
                  .ways = {{"ours", {most_mib}}, {"ours, just ready", {at_start_mib}}},
                  .numbers = {{"rows", rows}, {"seconds", took}}};
  Findings latency{.regime = "metrics_latency",
                   .numbers = {{"rows", rows},
                               {"at_work", static_cast<double>(at_work.size())},
                               {"at_rest", static_cast<double>(at_rest.size())},
                               {"pause_ms", static_cast<double>(kBetweenScrapes.count())}}};
  latency.add(busy);
  latency.add(idle);
  return {std::move(memory), std::move(latency)};
}

}  // namespace

std::vector<Findings> measure_memory(const Bench& bench) {
  const int rows = bench.quick ? 20'000 : 1'000'000;
  auto connection = connect(bench.connector);
  add_leases(connection, {.count = rows, .name_space = kNameSpace});
  settle(connection);
  std::vector<Findings> found = work_off(bench, rows);
  require_all_expired_once(connection, kNameSpace, rows);
  empty(connection);
  return found;
}

}  // namespace ff::bench
