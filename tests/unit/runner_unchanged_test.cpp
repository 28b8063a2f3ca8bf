// Which scans are left out while nothing can be new.
#include <catch2/catch.hpp>

#include "runner_bench.hpp"

using namespace ff;
using namespace ff::supervisor;

TEST_CASE("companions, too, are not scanned while nothing can be new") {
  RunnerBench bench;
  bench.unchanged_for_companions = [](SteadyTime) { return true; };
  SECTION("and all of theirs was moved") {
    CHECK(scans_in_half_a_minute(bench).companions.size() == 1);
  }
  SECTION("but are while a row was locked") {
    CHECK(scans_in_half_a_minute(bench, [](TickReport& report) { report.scanned = 1; }).companions.size() >=
          5);
  }
  SECTION("but are while a row has to stand still") {
    CHECK(scans_in_half_a_minute(bench, [](TickReport& report) { report.watched = 1; }).companions.size() >=
          5);
  }
  SECTION("but are where nobody knows what falls due") {
    CHECK(scans_in_half_a_minute(bench, [](TickReport& report) {
            report.companions_known_until.reset();
          }).companions.size() >= 5);
  }
}

TEST_CASE("what was written before a turn at which the companions rested is no less new at the next one") {
  RunnerBench bench;
  const SteadyTime written = bench.clock.now() + 2s;
  bench.unchanged_for_companions = [&](SteadyTime since) {
    return bench.clock.now() < written || written < since;
  };
  int turns = 0;
  const Scans seen = scans_in_half_a_minute(bench, [&](TickReport& report) {
    report.companions_rested = ++turns > 1 && bench.clock.now() < written + 10s;
  });
  // Those at which they rested are followed by one that scans, and only then by none.
  CHECK(seen.companions.size() >= 4);
  CHECK(seen.companions.size() <= 5);
}

TEST_CASE("a scan that finds nothing new sees ahead until the next one that is not skipped") {
  RunnerBench bench;
  bench.unchanged = bench.unchanged_for_companions = [](SteadyTime) { return true; };
  Milliseconds first{0};
  Milliseconds companions{0};
  const auto sees_twelve_seconds = [](TickReport& report) {
    report.known_until = report.companions_known_until = report.database_time + 12s;
  };
  const Scans seen = scans_in_half_a_minute(bench, sees_twelve_seconds);
  bench.tick = [&](const TickOptions& options) {
    if (options.scan) first = options.scan_ahead;
    if (options.companions_scan) companions = options.companions_scan_ahead;
    TickReport report;
    sees_twelve_seconds(report);
    return report;
  };
  for (int i = 0; i < 3; ++i, bench.clock.advance(30s)) bench.step();
  CHECK(seen.first.size() <= 4);
  CHECK(first == 2 * 1s + 10s);
  CHECK(companions == 2 * 5s + 30s);
}

TEST_CASE("whether anything is new is asked where a scan is due, and not before each tick") {
  RunnerBench bench;
  int asked = 0;
  bench.unchanged = [&](SteadyTime) {
    ++asked;
    return false;
  };
  bench.tick = [&](const TickOptions&) {
    TickReport report;
    report.database_time = unix_millis(5'000'000);
    report.known_until = report.database_time + 10min;
    return report;
  };
  bench.step();
  for (int i = 0; i < 9; ++i) {
    bench.clock.advance(100ms);
    bench.step();
  }
  CHECK(asked == 0);
  bench.clock.advance(300ms);
  bench.step();
  CHECK(asked == 1);
}
