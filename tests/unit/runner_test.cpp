#include "supervisor/runner.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/log_scope.hpp"
#include "support/log_capture.hpp"
#include "support/manual_clock.hpp"

using namespace ff;
using namespace ff::supervisor;
using namespace std::chrono_literals;
using reconcile::TickOptions;
using reconcile::TickReport;

namespace {

/// An event with a report that outlives it.
struct Heard {
  std::string reconciler;
  TickReport report;
  double start_delay;
  double duration;
  std::int64_t missed;
  int consecutive_failures;
};

struct Listener final : Observer {
  void tick_finished(const TickEvent& e) override {
    heard.push_back({std::string(e.reconciler), e.report, e.start_delay.count(), e.duration.count(), e.missed,
                     e.consecutive_failures});
  }
  std::vector<Heard> heard;
};

TickReport failure(pg::Error::Kind kind, const std::string& message, const std::string& sqlstate = {}) {
  TickReport report;
  report.failure.emplace(kind, message, sqlstate);
  ++report.errors[std::string(report.failure->error_class())];
  return report;
}

/// A runner whose tick does what the test says, on a clock that the test moves.
struct Bench {
  Runner::Step step() { return runner.step(clock.now(), stop.get_token()); }

  test::LogCapture log{spdlog::level::debug};
  test::ManualClock clock;
  Listener listener;
  std::stop_source stop;
  std::function<TickReport(const TickOptions&)> tick = [](const TickOptions&) { return TickReport{}; };
  std::function<bool(SteadyTime)> quiet = [](SteadyTime) { return false; };
  Runner runner{"promoter",
                false,
                {true, 1000ms},
                [this](const TickOptions& o) { return tick(o); },
                [this](SteadyTime since) { return quiet(since); },
                listener,
                clock};
};

}  // namespace

TEST_CASE("a tick is reported with its duration and runs again after its interval") {
  Bench bench;
  bench.tick = [&](const TickOptions&) {
    bench.clock.advance(40ms);
    TickReport report;
    report.scanned = report.processed = 3;
    report.outcomes["promoted"] = 3;
    return report;
  };
  const SteadyTime started = bench.clock.now();
  const auto step = bench.step();
  REQUIRE(bench.listener.heard.size() == 1);
  const Heard& heard = bench.listener.heard.front();
  CHECK(heard.reconciler == "promoter");
  CHECK(heard.report.processed == 3);
  CHECK(heard.duration == Approx(0.040));
  CHECK(heard.start_delay == 0.0);
  CHECK(heard.missed == 0);
  CHECK(heard.consecutive_failures == 0);
  CHECK(step.next >= started + 1000ms);
  CHECK(step.next <= started + 1100ms);
  CHECK_FALSE(step.doubtful);
}

TEST_CASE("a tick is given its budget and the stop token") {
  Bench bench;
  const SteadyTime started = bench.clock.now();
  bench.tick = [&](const TickOptions& options) {
    CHECK(options.deadline == started + kTickBudget);
    CHECK_FALSE(options.dry_run);
    CHECK_FALSE(options.stop.stop_requested());
    bench.stop.request_stop();
    CHECK(options.stop.stop_requested());
    return TickReport{};
  };
  bench.step();
  CHECK(bench.listener.heard.size() == 1);
}

TEST_CASE("a late start is measured, and counts whole intervals as missed") {
  Bench bench;
  const SteadyTime planned = bench.clock.now();
  bench.clock.advance(2500ms);
  bench.runner.step(planned, {});
  CHECK(bench.listener.heard.back().start_delay == Approx(2.5));
  CHECK(bench.listener.heard.back().missed == 2);
  bench.runner.step(bench.clock.now() + 1s, {});
  CHECK(bench.listener.heard.back().start_delay == 0.0);
  CHECK(bench.listener.heard.back().missed == 0);
}

TEST_CASE("the next due row is waited for by the database's clock, not by ours") {
  Bench bench;
  bench.tick = [&](const TickOptions&) {
    TickReport report;
    report.database_time = unix_millis(5'000'000);
    report.next_due = unix_millis(5'000'250);
    return report;
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next == started + 250ms);
}

TEST_CASE("between two looks only what was seen coming is taken, and a change or a failure asks for a look") {
  Bench bench;
  std::vector<bool> looks;
  bool fails = false;
  bench.tick = [&](const TickOptions& options) {
    looks.push_back(options.look);
    CHECK(options.look_ahead >= 1000ms);
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
  CHECK(looks == std::vector<bool>{true, false, false, true, true, true});
}

TEST_CASE("a look that saw a short way only is followed by another before the interval is over") {
  Bench bench;
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

/// Steps every 1100 ms, that is whenever a look is wanted, with a tick that sees ten minutes ahead, and tells
/// which steps looked.
std::string looks(Bench& bench, int steps, const std::function<void(TickReport&)>& found = {}) {
  std::string seen;
  bench.tick = [&](const TickOptions& options) {
    seen += options.look ? 'L' : '.';
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

TEST_CASE("while it is quiet, looks are spared up to the safety interval") {
  Bench bench;
  bench.quiet = [](SteadyTime) { return true; };
  CHECK(looks(bench, 21) == "L.........L.........L");
}

TEST_CASE("what is announced since the last look is looked for when its interval is over") {
  Bench bench;
  SteadyTime announced{};
  bench.quiet = [&](SteadyTime since) { return announced < since; };
  CHECK(looks(bench, 3) == "L..");
  announced = bench.clock.now() - 1s;
  CHECK(looks(bench, 1) == "L");
  announced = bench.clock.now() - 1s;
  CHECK(looks(bench, 4) == "L...");
}

TEST_CASE("no look is spared while anything is left, failed, or lies behind what the last look saw") {
  Bench bench;
  bench.quiet = [](SteadyTime) { return true; };
  SECTION("a row that was locked") {
    CHECK(looks(bench, 3, [](TickReport& report) { report.scanned = 1; }) == "LLL");
  }
  SECTION("a row that was moved is settled") {
    CHECK(looks(bench, 3, [](TickReport& report) { report.scanned = report.processed = 1; }) == "L..");
  }
  SECTION("a partition with so much due that what comes next in it was not seen") {
    CHECK(looks(bench, 3, [](TickReport& report) {
            report.scanned = report.processed = 5;
            report.paged = true;
          }) == "LLL");
  }
  SECTION("a tick that failed") {
    CHECK(looks(bench, 3, [](TickReport& report) {
            report.failure.emplace(pg::Error::Kind::timeout, "too slow");
          }) == "LLL");
  }
  SECTION("a look that saw two seconds ahead") {
    CHECK(looks(bench, 5, [](TickReport& report) { report.known_until = report.database_time + 2s; }) ==
          "L.L.L");
  }
  SECTION("a look that does not say how far it saw") {
    CHECK(looks(bench, 3, [](TickReport& report) { report.known_until.reset(); }) == "LLL");
  }
  SECTION("a change of the configuration") {
    CHECK(looks(bench, 2) == "L.");
    bench.runner.change({true, 1000ms}, [] {});
    CHECK(looks(bench, 2) == "L.");
  }
}

TEST_CASE("a look that took long and moved nothing is not repeated soon, but what it saw coming is taken") {
  Bench bench;
  std::vector<bool> looks;
  std::int64_t moved = 0;
  bench.tick = [&](const TickOptions& options) {
    looks.push_back(options.look);
    bench.clock.advance(options.look ? 1000ms : 1ms);
    TickReport report;
    report.processed = moved;
    report.database_time = unix_millis(5'000'000);
    report.known_until = report.database_time + 1min;
    if (options.look) report.next_due = report.database_time + 1500ms;
    return report;
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next == started + 1500ms);
  bench.clock.advance(500ms);
  CHECK(bench.step().next == started + 5000ms);
  bench.clock.advance(3499ms);
  moved = 1;
  CHECK(bench.step().next < started + 7500ms);
  CHECK(looks == std::vector<bool>{true, false, true});
}

TEST_CASE("a look that may be followed by silence looks far ahead") {
  Bench bench;
  bool quiet = false;
  bench.quiet = [&](SteadyTime) { return quiet; };
  std::vector<Milliseconds> ahead;
  bench.tick = [&](const TickOptions& options) {
    ahead.push_back(options.look_ahead);
    return TickReport{};
  };
  bench.step();
  bench.clock.advance(1100ms);
  quiet = true;
  bench.step();
  CHECK(ahead == std::vector<Milliseconds>{2s, 12s});
}

TEST_CASE("what small ticks have moved between two looks is said in one line") {
  Bench bench;
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

TEST_CASE("work that is left is gone on with at once") {
  Bench bench;
  bench.tick = [&](const TickOptions&) {
    bench.clock.advance(5s);
    TickReport report;
    report.more = true;
    return report;
  };
  const auto step = bench.step();
  CHECK(step.next == bench.clock.now());
}

TEST_CASE("failures in a row are counted, pause ever longer, and a success ends them") {
  Bench bench;
  bench.tick = [](const TickOptions&) { return failure(pg::Error::Kind::timeout, "too slow"); };
  std::vector<SteadyTime::duration> pauses;
  for (int i = 1; i <= 3; ++i) {
    const auto step = bench.step();
    CHECK(bench.listener.heard.back().consecutive_failures == i);
    pauses.push_back(step.next - bench.clock.now());
  }
  CHECK((pauses[0] >= 1s && pauses[0] <= 1250ms));
  CHECK((pauses[1] >= 2s && pauses[1] <= 2500ms));
  CHECK((pauses[2] >= 4s && pauses[2] <= 5s));
  bench.tick = [](const TickOptions&) { return TickReport{}; };
  const auto step = bench.step();
  CHECK(bench.listener.heard.back().consecutive_failures == 0);
  CHECK(step.next - bench.clock.now() <= 1100ms);
}

TEST_CASE("rows that failed by themselves do not make the tick a failure") {
  Bench bench;
  bench.tick = [](const TickOptions&) {
    TickReport report;
    report.scanned = 2;
    report.processed = 1;
    report.errors["P0"] = 1;
    return report;
  };
  const auto step = bench.step();
  CHECK(bench.listener.heard.back().consecutive_failures == 0);
  CHECK_FALSE(step.doubtful);
}

TEST_CASE("only a broken connection or a server without writes casts doubt on the database") {
  Bench bench;
  const auto doubtful_after = [&](pg::Error::Kind kind, const char* sqlstate) {
    bench.tick = [=](const TickOptions&) { return failure(kind, "x", sqlstate); };
    return bench.step().doubtful;
  };
  using Kind = pg::Error::Kind;
  CHECK(doubtful_after(Kind::connection, ""));
  CHECK(doubtful_after(Kind::unknown_commit, ""));
  CHECK(doubtful_after(Kind::server, "57P01"));
  CHECK(doubtful_after(Kind::server, "25006"));
  CHECK(doubtful_after(Kind::not_writable, ""));
  CHECK_FALSE(doubtful_after(Kind::timeout, ""));
  CHECK_FALSE(doubtful_after(Kind::server, "42P01"));
  CHECK_FALSE(doubtful_after(Kind::interrupted, ""));
}

TEST_CASE("an exception in a tick is an internal error, and the next tick runs all the same") {
  Bench bench;
  bench.tick = [](const TickOptions&) -> TickReport { throw std::runtime_error("column is missing"); };
  const auto step = bench.step();
  REQUIRE(bench.listener.heard.size() == 1);
  const Heard& heard = bench.listener.heard.front();
  CHECK(heard.report.errors.at("internal") == 1);
  CHECK(heard.report.errors.size() == 1);
  CHECK(heard.report.failure->what() == std::string("internal error: column is missing"));
  CHECK(heard.consecutive_failures == 1);
  CHECK_FALSE(step.doubtful);
  CHECK(step.next > bench.clock.now());
  bench.tick = [](const TickOptions&) { return TickReport{}; };
  bench.step();
  CHECK(bench.listener.heard.back().consecutive_failures == 0);
}

TEST_CASE("an error that repeats is logged once and then counted once a minute") {
  Bench bench;
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
  Bench bench;
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
  Bench bench;
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
  Bench bench;
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

TEST_CASE("a change is applied once, before the next tick and not during one") {
  Bench bench;
  std::vector<std::string> order;
  bench.tick = [&](const TickOptions&) {
    order.push_back("tick");
    if (order.size() == 1) bench.runner.change({true, 5000ms}, [&] { order.push_back("apply"); });
    order.push_back("end");
    return TickReport{};
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next <= started + 1100ms);
  CHECK(bench.runner.pace().interval == 5000ms);
  CHECK(bench.step().next >= started + 5000ms);
  bench.step();
  CHECK(order == std::vector<std::string>{"tick", "end", "apply", "tick", "end", "tick", "end"});
}

TEST_CASE("of two changes before a tick the last one counts") {
  Bench bench;
  int applied = 0;
  bench.runner.change({true, 2000ms}, [&] { applied = 1; });
  bench.runner.change({false, 3000ms}, [&] { applied = 2; });
  CHECK_FALSE(bench.runner.pace().enabled);
  CHECK(bench.runner.pace().interval == 3000ms);
  CHECK(applied == 0);
  bench.step();
  CHECK(applied == 2);
}
