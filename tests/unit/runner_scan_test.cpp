// When a runner scans at the whole database, and when it takes what was seen coming.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/log_scope.hpp"
#include "runner_bench.hpp"

using namespace ff;
using namespace ff::supervisor;

TEST_CASE("between two scans only what was seen coming is taken, and a change or a failure asks for a scan") {
  RunnerBench bench;
  std::vector<bool> scans;
  bool fails = false;
  bench.tick = [&](const TickOptions& options) {
    scans.push_back(options.scan);
    CHECK(options.scan_ahead >= 1000ms);
    if (fails) return failure(pg::Error::Kind::timeout, "too slow");
    TickReport report;
    report.database_time = unix_millis(5'000'000) + (bench.clock.wall() - unix_millis(1'700'000'000'000));
    report.known_until = unix_millis(5'010'000);
    report.next_due = unix_millis(5'000'300);
    return report;
  };
  const SteadyTime started = bench.clock.now();
  auto step = bench.step();
  CHECK(step.next == started + 300ms);
  bench.clock.advance(300ms);
  step = bench.step();
  CHECK(step.next == started + 302ms);
  bench.clock.advance(2ms);
  fails = true;
  bench.step();
  bench.clock.advance(5ms);
  fails = false;
  bench.step();
  bench.clock.advance(5ms);
  bench.runner.change({true, 1000ms}, [] {});
  bench.step();
  bench.clock.advance(1100ms);
  bench.step();
  CHECK(scans == std::vector<bool>{true, false, false, true, true, true});
}

TEST_CASE("a scan that saw a short way only is followed by another before the interval is over") {
  RunnerBench bench;
  bench.tick = [&](const TickOptions&) {
    TickReport report;
    report.database_time = unix_millis(5'000'000);
    report.known_until = unix_millis(5'000'400);
    return report;
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next == started + 400ms);
}

namespace {

/// Steps every 1100 ms, that is whenever a scan is wanted, with a tick that sees ten minutes ahead, and tells
/// which steps scanned.
std::string scans(RunnerBench& bench, int steps, const std::function<void(TickReport&)>& found = {}) {
  std::string seen;
  bench.tick = [&](const TickOptions& options) {
    seen += options.scan ? 'L' : '.';
    TickReport report;
    report.database_time = unix_millis(5'000'000);
    report.known_until = report.database_time + 10min;
    if (found) found(report);
    return report;
  };
  for (int i = 0; i < steps; ++i, bench.clock.advance(1100ms)) bench.step();
  return seen;
}

}  // namespace

TEST_CASE("while it is quiet, scans are skipped up to the safety interval") {
  RunnerBench bench;
  bench.unchanged = [](SteadyTime) { return true; };
  CHECK(scans(bench, 21) == "L.........L.........L");
}

TEST_CASE("what is announced since the last scan is scanned for when its interval is over") {
  RunnerBench bench;
  SteadyTime announced{};
  bench.unchanged = [&](SteadyTime since) { return announced < since; };
  CHECK(scans(bench, 3) == "L..");
  announced = bench.clock.now() - 1s;
  CHECK(scans(bench, 1) == "L");
  announced = bench.clock.now() - 1s;
  CHECK(scans(bench, 4) == "L...");
}

TEST_CASE("no scan is skipped while anything is left, failed, or lies behind what the last scan saw") {
  RunnerBench bench;
  bench.unchanged = [](SteadyTime) { return true; };
  SECTION("a row that was locked") {
    CHECK(scans(bench, 3, [](TickReport& report) { report.scanned = 1; }) == "LLL");
  }
  SECTION("a row that was moved is settled") {
    CHECK(scans(bench, 3, [](TickReport& report) { report.scanned = report.processed = 1; }) == "L..");
  }
  SECTION("a partition with so much due that what comes next in it was not seen") {
    CHECK(scans(bench, 3, [](TickReport& report) {
            report.scanned = report.processed = 5;
            report.paged = true;
          }) == "LLL");
  }
  SECTION("a tick that failed") {
    CHECK(scans(bench, 3, [](TickReport& report) {
            report.failure.emplace(pg::Error::Kind::timeout, "too slow");
          }) == "LLL");
  }
  SECTION("a scan that saw two seconds ahead") {
    CHECK(scans(bench, 5, [](TickReport& report) { report.known_until = report.database_time + 2s; }) ==
          "L.L.L");
  }
  SECTION("a scan that does not say how far it saw") {
    CHECK(scans(bench, 3, [](TickReport& report) { report.known_until.reset(); }) == "LLL");
  }
  SECTION("a change of the configuration") {
    CHECK(scans(bench, 2) == "L.");
    bench.runner.change({true, 1000ms}, [] {});
    CHECK(scans(bench, 2) == "L.");
  }
}

TEST_CASE("a scan that took long and moved nothing is not repeated soon, but what it saw coming is taken") {
  RunnerBench bench;
  std::vector<bool> scans;
  std::int64_t moved = 0;
  bench.tick = [&](const TickOptions& options) {
    scans.push_back(options.scan);
    bench.clock.advance(options.scan ? 1000ms : 1ms);
    TickReport report;
    report.processed = moved;
    report.database_time = unix_millis(5'000'000);
    report.known_until = report.database_time + 1min;
    if (options.scan) report.next_due = report.database_time + 1500ms;
    return report;
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next == started + 1500ms);
  bench.clock.advance(500ms);
  CHECK(bench.step().next == started + 2000ms);
  bench.clock.advance(499ms);
  moved = 1;
  CHECK(bench.step().next < started + 4000ms);
  CHECK(scans == std::vector<bool>{true, false, true});
}

TEST_CASE("after a scan that took many intervals the next one is no more than two away") {
  const bool in_vain = GENERATE(true, false);
  RunnerBench bench;
  bench.tick = [&](const TickOptions&) {
    bench.clock.advance(5s);
    TickReport report = in_vain ? failure(pg::Error::Kind::server, "locked", "55P03") : TickReport{};
    report.database_time = unix_millis(5'000'000);
    report.known_until = report.database_time + 2s;
    return report;
  };
  for (int i = 0; i < 5; ++i) {
    const SteadyTime next = bench.step().next;
    CHECK(next - bench.clock.now() <= 2s);
  }
}

TEST_CASE("a scan that may be followed by silence scans far ahead") {
  RunnerBench bench;
  bool quiet = false;
  bench.unchanged = [&](SteadyTime) { return quiet; };
  std::vector<Milliseconds> ahead;
  bench.tick = [&](const TickOptions& options) {
    ahead.push_back(options.scan_ahead);
    TickReport report;
    report.known_until = report.database_time + 1s;
    return report;
  };
  bench.step();
  bench.clock.advance(1100ms);
  quiet = true;
  bench.step();
  CHECK(ahead == std::vector<Milliseconds>{2s, 12s});
}

TEST_CASE("companions are scanned in their own interval, also while scans of the first pair are skipped") {
  RunnerBench bench;
  bench.unchanged = [](SteadyTime) { return true; };
  const Scans seen = scans_in_half_a_minute(bench);
  CHECK(seen.first.size() <= 4);
  CHECK(seen.companions.size() >= 5);
  CHECK(seen.companions.size() <= 7);
}

TEST_CASE("companions do not slow down the first pair, nor are they scanned as often") {
  RunnerBench bench;
  const Scans seen = scans_in_half_a_minute(bench);
  CHECK(seen.first.size() >= 26);
  CHECK(seen.companions.size() <= 7);
}

TEST_CASE("a first pair and its companions take turns while there is more to do than a tick can") {
  RunnerBench bench;
  const Scans seen = scans_in_half_a_minute(bench, [&](TickReport& report) {
    bench.clock.advance(3s);
    report.scanned = report.processed = 1000;
    report.more = true;
  });
  CHECK(seen.first.size() >= 4);
  CHECK(seen.companions.size() >= 4);
}

namespace {

/// Steps whenever the runner wants to for ten seconds of a pair that is scanned each minute, companions each half
/// of one and shortcuts each second, and tells at which seconds the shortcuts were scanned.
std::vector<int> shortcut_looks_in_ten_seconds(RunnerBench& bench,
                                               const std::function<void(TickReport&, int)>& found = {}) {
  std::vector<int> seen;
  const SteadyTime started = bench.clock.now();
  bench.runner.change({true, 60s, 30s, 1000ms}, [] {});
  bench.tick = [&](const TickOptions& options) {
    const int second = static_cast<int>((bench.clock.now() - started) / 1s);
    CHECK(options.scan + options.companions_scan + options.shortcuts_scan <= 1);
    if (options.shortcuts_scan) seen.push_back(second);
    TickReport report;
    if (found) found(report, second);
    return report;
  };
  while (bench.clock.now() < started + 10s) {
    const auto step = bench.step();
    bench.clock.advance(std::chrono::ceil<Milliseconds>(step.next - bench.clock.now()));
  }
  return seen;
}

}  // namespace

TEST_CASE("shortcuts are scanned in their own interval, however seldom all others are") {
  RunnerBench bench;
  const auto seen = shortcut_looks_in_ten_seconds(bench);
  CHECK(seen.size() >= 9);
  CHECK(seen.size() <= 11);
}

TEST_CASE("shortcuts lead nowhere while nothing is announced, and are then not scanned") {
  RunnerBench bench;
  SteadyTime announced{};
  bench.unchanged_for_shortcuts = [&](SteadyTime since) { return announced < since; };
  SECTION("nothing") {
    CHECK(shortcut_looks_in_ten_seconds(bench).size() == 1);
  }
  SECTION("something in the sixth second") {
    const SteadyTime started = bench.clock.now();
    announced = started + 5500ms;
    bench.unchanged_for_shortcuts = [&](SteadyTime since) {
      return bench.clock.now() < announced || announced < since;
    };
    const auto seen = shortcut_looks_in_ten_seconds(bench);
    REQUIRE(seen.size() == 2);
    CHECK(seen[1] >= 5);
    CHECK(seen[1] <= 6);
  }
  SECTION("something that was locked") {
    CHECK(shortcut_looks_in_ten_seconds(bench, [](TickReport& report, int second) {
            report.scanned = second < 5 ? 1 : 0;
          }).size() >= 5);
  }
}

TEST_CASE("shortcuts take turns with the others, and wait while these fail") {
  RunnerBench bench;
  int others = 0;
  const auto work = [&](bool fails) {
    return [&bench, &others, fails](TickReport& report, int) {
      bench.clock.advance(1s);
      ++others;
      report.more = true;
      if (fails) report.failure.emplace(pg::Error::Kind::timeout, "too slow");
    };
  };
  SECTION("a backlog") {
    const auto seen = shortcut_looks_in_ten_seconds(bench, work(false));
    CHECK(seen.size() >= 4);
    CHECK(others - static_cast<int>(seen.size()) >= 4);
  }
  SECTION("a failure") {
    CHECK(shortcut_looks_in_ten_seconds(bench, work(true)).empty());
  }
}

TEST_CASE(
    "companions that fail for ever are a fault, though the first pair goes well and is not slowed down") {
  RunnerBench bench;
  bench.runner.change({true, 1000ms, 5s}, [] {});
  bool fails = true;
  int first = 0;
  int companions = 0;
  bench.tick = [&](const TickOptions& options) {
    first += options.scan;
    companions += options.companions_scan;
    return options.companions_scan && fails ? failure(pg::Error::Kind::server, "permission denied", "42501")
                                            : TickReport{};
  };
  const auto run_for = [&](Milliseconds time) {
    for (const SteadyTime end = bench.clock.now() + time; bench.clock.now() < end;)
      bench.clock.advance(std::chrono::ceil<Milliseconds>(bench.step().next - bench.clock.now()));
  };
  const auto said = [&](const std::string& line) {
    const auto lines = bench.log.lines();
    return std::ranges::count(lines, line);
  };
  run_for(3min);
  CHECK(first >= 160);
  // After 5, 10, 20 seconds and then each half minute.
  CHECK(companions >= 7);
  CHECK(companions <= 9);
  CHECK(bench.listener.heard.back().consecutive_failures == companions);
  CHECK(said("error promoter: tick failed: permission denied (SQLSTATE 42501 insufficient_privilege)") +
            said("error promoter: tick failed: permission denied") ==
        1);
  CHECK(said("info promoter: works again") == 0);
  fails = false;
  run_for(1min);
  CHECK(bench.listener.heard.back().consecutive_failures == 0);
  CHECK(said("info promoter: works again") == 1);
}

TEST_CASE("a reconciler without companions is not woken for any") {
  RunnerBench bench;
  bench.tick = [](const TickOptions& options) {
    CHECK_FALSE(options.companions_scan);
    CHECK_FALSE(options.shortcuts_scan);
    return TickReport{};
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next >= started + 1000ms);
}
