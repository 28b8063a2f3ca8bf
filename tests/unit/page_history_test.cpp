// What the status page remembers: fifteen minutes of each reconciler, and the last events.
#include <catch2/catch.hpp>

#include "page/chronicle.hpp"
#include "support/manual_clock.hpp"

using namespace ff;
using namespace ff::daemon::page;
using namespace std::chrono_literals;
using supervisor::State;

namespace {

constexpr SteadyTime kStart{std::chrono::hours{1000}};

std::int64_t sum(const History::Steps& steps) {
  std::int64_t all = 0;
  for (const auto& step : steps) all += step.moved;
  return all;
}

struct Bench {
  void tick(const reconcile::TickReport& report, int failures = 0) {
    chronicle.tick_finished({.reconciler = "lease_expiry",
                             .report = report,
                             .start_delay = {},
                             .duration = {},
                             .consecutive_failures = failures});
  }
  test::ManualClock clock;
  Chronicle chronicle{clock};
};

reconcile::TickReport failed(const std::string& message) {
  reconcile::TickReport report;
  report.failure.emplace(pg::Error::Kind::server, message, "42501");
  return report;
}

}  // namespace

TEST_CASE("a history that nothing was added to is flat") {
  CHECK(sum(History{}.until(kStart)) == 0);
}

TEST_CASE("what falls into the same 15 s is one step, with the rows of all and the latest of them") {
  History history;
  history.add(kStart, 3, 20ms);
  history.add(kStart + 14s, 4, 10ms);
  history.add(kStart + 15s, 5, 30ms);
  const auto steps = history.until(kStart + 20s);
  CHECK(steps[58].moved == 7);
  CHECK(steps[58].late == 20ms);
  CHECK(steps[59].moved == 5);
  CHECK(sum(steps) == 12);
}

TEST_CASE("a step leaves the history after fifteen minutes, and its place is empty again") {
  History history;
  history.add(kStart, 3, 20ms);
  CHECK(history.until(kStart + 59 * 15s)[0].moved == 3);
  CHECK(sum(history.until(kStart + 60 * 15s)) == 0);
  history.add(kStart + 60 * 15s, 1, 0ms);
  CHECK(sum(history.until(kStart + 60 * 15s)) == 1);
}

TEST_CASE("a long silence leaves nothing of what was before it") {
  History history;
  for (int step = 0; step < 60; ++step) history.add(kStart + step * 15s, 1, 1s);
  history.add(kStart + 24h, 2, 0ms);
  const auto steps = history.until(kStart + 24h);
  CHECK(sum(steps) == 2);
  CHECK(steps[59].moved == 2);
}

TEST_CASE("a history has a fixed size") {
  CHECK(sizeof(History) <= 1024);
}

TEST_CASE("a row that is left over counts as late as well as one that was moved") {
  Bench bench;
  reconcile::TickReport report;
  report.complete = true;
  report.scanned = 3;
  report.processed = 2;
  report.lateness = {20ms, 30ms};
  report.database_time = bench.clock.wall();
  report.oldest_due = bench.clock.wall() - 90s;
  bench.tick(report);
  CHECK(bench.chronicle.history("lease_expiry").back().moved == 2);
  CHECK(bench.chronicle.history("lease_expiry").back().late == 90s);
  report.processed = 3;
  bench.clock.advance(15s);
  bench.tick(report);
  CHECK(bench.chronicle.history("lease_expiry").back().late == 30ms);
  CHECK(sum(bench.chronicle.history("budget_reset")) == 0);
}

TEST_CASE("an event that repeats itself is one line with a count") {
  Bench bench;
  bench.tick(failed("permission denied"), 1);
  bench.clock.advance(10s);
  bench.chronicle.note(Severity::fine, "configuration", "reloaded");
  bench.tick(failed("permission denied"), 2);
  const auto events = bench.chronicle.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].subject == "configuration");
  CHECK(events[1].times == 2);
  CHECK(events[1].last - events[1].at == 10s);
  CHECK(events[1].severity == Severity::problem);
  bench.clock.advance(10s);
  bench.tick(failed("permission denied"), 3);
  CHECK(bench.chronicle.events()[0].times == 3);
}

TEST_CASE("a reconciler that works again says after how many failures") {
  Bench bench;
  for (int failures = 1; failures <= 3; ++failures) bench.tick(failed("permission denied"), failures);
  bench.tick({});
  bench.tick({});
  const auto events = bench.chronicle.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].text == "works again after 3 failed ticks");
}

TEST_CASE("rows in quarantine are an event when there are more of them, and when none is left") {
  Bench bench;
  reconcile::TickReport report;
  for (const std::size_t rows : {1U, 1U, 1200U, 1100U, 0U, 0U}) {
    report.quarantined = rows;
    bench.tick(report);
  }
  const auto events = bench.chronicle.events();
  REQUIRE(events.size() == 3);
  CHECK(events[2].text == "1 row in quarantine because it fails");
  CHECK(events[1].text == "1,200 rows in quarantine because they fail");
  CHECK(events[0].text == "no row is in quarantine any more");
}

TEST_CASE("the moment of a state is that of its beginning, whatever the reason becomes") {
  Bench bench;
  const UnixMillis start = bench.clock.wall();
  CHECK(bench.chronicle.state_since() == start);
  bench.clock.advance(5s);
  bench.chronicle.state_changed(State::unreachable, "no route");
  bench.clock.advance(5s);
  bench.chronicle.state_changed(State::unreachable, "connection refused");
  CHECK(bench.chronicle.state_since() == start + 5s);
  CHECK(bench.chronicle.events().front().text == "unreachable: connection refused");
}

TEST_CASE("of events the last fifty are kept, each cut and on one line") {
  Bench bench;
  for (int i = 0; i < 120; ++i)
    bench.chronicle.note(Severity::warning, "daemon", std::to_string(i) + "\n" + std::string(5000, 'x'));
  const auto events = bench.chronicle.events();
  REQUIRE(events.size() == Chronicle::kMostEvents);
  CHECK(events.front().text.starts_with("119 xxx"));
  CHECK(events.front().text.size() < Chronicle::kLongestText + 10);
}
