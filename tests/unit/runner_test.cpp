#include <algorithm>
#include <catch2/catch.hpp>

#include "base/log_scope.hpp"
#include "runner_bench.hpp"

using namespace ff;
using namespace ff::supervisor;

TEST_CASE("a tick is reported with its duration and runs again after its interval") {
  RunnerBench bench;
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
  CHECK_FALSE(step.check_database);
}

TEST_CASE("a tick is given its budget and the stop token") {
  RunnerBench bench;
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
  RunnerBench bench;
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
  RunnerBench bench;
  bench.tick = [&](const TickOptions&) {
    TickReport report;
    report.database_time = unix_millis(5'000'000);
    report.next_due = unix_millis(5'000'250);
    return report;
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next == started + 250ms);
}

TEST_CASE("work that is left is gone on with at once") {
  RunnerBench bench;
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
  RunnerBench bench;
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

TEST_CASE("however often the connection broke, the next tick is not far away") {
  RunnerBench bench;
  bench.tick = [](const TickOptions&) { return failure(pg::Error::Kind::connection, "it broke"); };
  for (int i = 0; i < 20; ++i) bench.step();
  CHECK(bench.step().next - bench.clock.now() <= 4s);
}

TEST_CASE("rows that failed by themselves do not make the tick a failure") {
  RunnerBench bench;
  bench.tick = [](const TickOptions&) {
    TickReport report;
    report.scanned = 2;
    report.processed = 1;
    report.errors["P0"] = 1;
    return report;
  };
  const auto step = bench.step();
  CHECK(bench.listener.heard.back().consecutive_failures == 0);
  CHECK_FALSE(step.check_database);
}

TEST_CASE("only a broken connection or a server without writes makes the database be checked") {
  RunnerBench bench;
  const auto checked_after = [&](pg::Error::Kind kind, const char* sqlstate) {
    bench.tick = [=](const TickOptions&) { return failure(kind, "x", sqlstate); };
    return bench.step().check_database;
  };
  using Kind = pg::Error::Kind;
  CHECK(checked_after(Kind::connection, ""));
  CHECK(checked_after(Kind::unknown_commit, ""));
  CHECK(checked_after(Kind::connection, "57P01"));
  CHECK(checked_after(Kind::server, "25006"));
  CHECK(checked_after(Kind::not_writable, ""));
  CHECK_FALSE(checked_after(Kind::timeout, ""));
  CHECK_FALSE(checked_after(Kind::server, "42P01"));
  CHECK_FALSE(checked_after(Kind::interrupted, ""));
}

TEST_CASE("an exception in a tick is an internal error, and the next tick runs all the same") {
  RunnerBench bench;
  bench.tick = [](const TickOptions&) -> TickReport { throw std::runtime_error("column is missing"); };
  const auto step = bench.step();
  REQUIRE(bench.listener.heard.size() == 1);
  const Heard& heard = bench.listener.heard.front();
  CHECK(heard.report.errors.at("internal") == 1);
  CHECK(heard.report.errors.size() == 1);
  CHECK(heard.report.failure->what() == std::string("internal error: column is missing"));
  CHECK(heard.consecutive_failures == 1);
  CHECK_FALSE(step.check_database);
  CHECK(step.next > bench.clock.now());
  bench.tick = [](const TickOptions&) { return TickReport{}; };
  bench.step();
  CHECK(bench.listener.heard.back().consecutive_failures == 0);
}

TEST_CASE("a change is applied once, before the next tick and not during one") {
  RunnerBench bench;
  std::vector<std::string> order;
  bench.tick = [&](const TickOptions&) {
    order.push_back("tick");
    if (order.size() == 1) bench.runner.change({true, 5000ms}, [&] { order.push_back("apply"); });
    order.push_back("end");
    return TickReport{};
  };
  const SteadyTime started = bench.clock.now();
  CHECK(bench.step().next <= started + 1100ms);
  CHECK(bench.runner.timing().interval == 5000ms);
  CHECK(bench.step().next >= started + 5000ms);
  bench.step();
  CHECK(order == std::vector<std::string>{"tick", "end", "apply", "tick", "end", "tick", "end"});
}

TEST_CASE("of two changes before a tick the last one counts") {
  RunnerBench bench;
  int applied = 0;
  bench.runner.change({true, 2000ms}, [&] { applied = 1; });
  bench.runner.change({false, 3000ms}, [&] { applied = 2; });
  CHECK_FALSE(bench.runner.timing().enabled);
  CHECK(bench.runner.timing().interval == 3000ms);
  CHECK(applied == 0);
  bench.step();
  CHECK(applied == 2);
}

TEST_CASE("who listens is told of a tick when it begins, and can see how far it is") {
  RunnerBench bench;
  int ticks = 0;
  bench.tick = [&](const TickOptions& options) {
    REQUIRE(bench.listener.running);
    CHECK(bench.listener.running->processed == 0);
    options.progress->scanned += 9;
    options.progress->processed += 7;
    CHECK(bench.listener.running->scanned == 9);
    CHECK(bench.listener.running->processed == 7);
    ++ticks;
    return TickReport{};
  };
  bench.step();
  CHECK_FALSE(bench.listener.running);
  bench.clock.advance(1000ms);
  bench.step();
  CHECK(ticks == 2);
}
