// What a runner says of its ticks.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/log_fields.hpp"
#include "base/log_scope.hpp"
#include "runner_bench.hpp"

using namespace ff;
using namespace ff::supervisor;

TEST_CASE("what small ticks have moved between two scans is said in one line") {
  RunnerBench bench;
  bench.tick = [&](const TickOptions&) {
    TickReport report;
    report.scanned = report.processed = 1;
    report.outcomes["promoted"] = 1;
    report.known_until = unix_millis(60'000);
    return report;
  };
  for (int i = 0; i < 5; ++i) bench.step();
  CHECK(bench.log.lines() ==
        std::vector<std::string>{"info promoter: scanned=1 processed=1 errors=0 promoted=1"});
  bench.clock.advance(2s);
  bench.step();
  REQUIRE(bench.log.lines().size() == 2);
  CHECK(bench.log.lines().back() == "info promoter: scanned=5 processed=5 errors=0 promoted=5");
}

TEST_CASE("what is logged in a tick is of its reconciler, and the line of what was moved has its counts") {
  RunnerBench bench;
  bench.tick = [&](const TickOptions&) {
    REQUIRE(LogFields::current());
    CHECK(LogFields::current()->reconciler() == "promoter");
    CHECK(LogFields::current()->numbers().empty());
    return TickReport{};
  };
  bench.step();
  CHECK_FALSE(LogFields::current());
  const LogFields outer("outer");
  {
    const LogFields inner("inner", {{"scanned", 3}});
    CHECK(LogFields::current()->numbers().at(0).second == 3);
  }
  CHECK(LogFields::current()->reconciler() == "outer");
}

TEST_CASE("an error that repeats is logged once and then counted once a minute") {
  RunnerBench bench;
  bench.tick = [](const TickOptions&) { return failure(pg::Error::Kind::timeout, "too slow"); };
  const auto errors = [&] {
    std::vector<std::string> all = bench.log.lines();
    std::erase_if(all, [](const std::string& line) { return !line.starts_with("error"); });
    return all;
  };
  bench.step();
  for (int i = 0; i < 9; ++i) {
    bench.clock.advance(6s);
    bench.step();
  }
  CHECK(errors() == std::vector<std::string>{"error promoter: tick failed: too slow"});
  bench.clock.advance(6s);
  bench.step();
  REQUIRE(errors().size() == 2);
  CHECK(errors().back() == "error promoter: tick failed 10 more times: too slow");
  bench.step();
  CHECK(errors().size() == 2);
}

TEST_CASE("another error is logged at once, and so is its end") {
  RunnerBench bench;
  bench.tick = [](const TickOptions&) { return failure(pg::Error::Kind::timeout, "too slow"); };
  bench.step();
  bench.tick = [](const TickOptions&) { return failure(pg::Error::Kind::connection, "away"); };
  bench.step();
  bench.tick = [](const TickOptions&) { return TickReport{}; };
  bench.step();
  bench.step();
  const auto lines = bench.log.lines();
  const auto count = [&](const char* line) { return std::count(lines.begin(), lines.end(), line); };
  CHECK(count("error promoter: tick failed: too slow") == 1);
  CHECK(count("error promoter: tick failed: away") == 1);
  CHECK(count("info promoter: works again") == 1);
  CHECK(lines.back() == "info promoter: works again");
}

TEST_CASE("a tick that did nothing says nothing, one that moved rows says what") {
  RunnerBench bench;
  bench.step();
  CHECK(bench.log.lines().empty());
  bench.tick = [](const TickOptions&) {
    TickReport report;
    report.scanned = 5;
    report.processed = 3;
    report.outcomes = {{"expired", 1}, {"retried", 2}};
    report.skipped[reconcile::Skip::locked] = 2;
    return report;
  };
  bench.clock.advance(2s);
  bench.step();
  CHECK(
      bench.log.lines() ==
      std::vector<std::string>{"info promoter: scanned=5 processed=3 errors=0 expired=1 retried=2 locked=2"});
}

TEST_CASE("all that one tick logs carries the same id, another tick another") {
  RunnerBench bench;
  std::vector<std::uint64_t> ids;
  bench.tick = [&](const TickOptions&) {
    ids.push_back(LogScope::current());
    return TickReport{};
  };
  bench.step();
  bench.step();
  CHECK(ids[0] != 0);
  CHECK(ids[1] != ids[0]);
  CHECK(LogScope::current() == 0);
}
