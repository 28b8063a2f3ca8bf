#include "supervisor/monitor.hpp"

#include <catch2/catch.hpp>
#include <deque>

#include "support/log_capture.hpp"
#include "support/process.hpp"

using namespace ff;
using test::LogCapture;
using namespace ff::supervisor;
using namespace std::chrono_literals;
using Found = Observation::Found;

namespace {

Observation seen(Found found, const std::string& reason = {}) {
  Observation observation;
  observation.found = found;
  observation.reason = reason;
  observation.server_uptime = 24h;
  observation.server_started_at = unix_millis(1'700'000'000'000);
  observation.schema_version = found == Found::writable ? 6 : 0;
  return observation;
}

/// Goes with the time, ahead of it.
struct MovedClock final : Clock {
  SteadyTime now() const override { return Clock::system().now() + Milliseconds{later}; }
  UnixMillis wall() const override { return Clock::system().wall(); }
  std::atomic<Milliseconds::rep> later{0};
};

/// A database that is as the test says, and everything that its monitor told.
struct Bench final : Observer {
  explicit Bench(Milliseconds grace = 0ms, const Clock& clock = Clock::system())
      : monitor(
            grace, [this] { return check(); }, *this, clock) {}
  ~Bench() override { monitor.stop(); }

  void state_changed(State state, const std::string& reason) override {
    const std::lock_guard lock(mutex);
    told.emplace_back(state, reason);
  }
  void schema_version(int version) override { schema = version; }

  Observation check() {
    ++checks;
    if (on_check) on_check();
    const std::lock_guard lock(mutex);
    return now;
  }
  void becomes(Found found, const std::string& reason = {}) {
    const std::lock_guard lock(mutex);
    now = seen(found, reason);
  }
  void start() {
    monitor.start([this] { ++changes; }, [this] { ++confirmed; });
  }
  /// Until at least one further check has ended.
  void check_again() {
    // The check that is counted next may be under way already; the one after it began after the wish.
    const int until = checks + 2;
    REQUIRE(test::wait_until([&] {
      monitor.check_now();
      return checks >= until;
    }));
  }
  std::vector<std::pair<State, std::string>> all_told() {
    const std::lock_guard lock(mutex);
    return told;
  }

  /// As it was told last.
  bool is(State state) {
    const auto all = all_told();
    return !all.empty() && all.back().first == state;
  }

  std::mutex mutex;
  Observation now = seen(Found::writable);
  std::function<void()> on_check;
  std::vector<std::pair<State, std::string>> told;
  std::atomic<int> checks{0};
  std::atomic<int> changes{0};
  std::atomic<int> confirmed{0};
  std::atomic<int> schema{0};
  Monitor monitor;
};

}  // namespace

TEST_CASE("a monitor that has not checked lets nothing run") {
  Bench bench;
  CHECK_FALSE(bench.monitor.may_run());
  CHECK_FALSE(bench.monitor.may_take_leases());
  bench.start();
  CHECK(test::wait_until([&] { return bench.monitor.may_run() && bench.monitor.may_take_leases(); }));
  CHECK(test::wait_until([&] { return bench.is(State::ready) && bench.schema == 6; }));
}

TEST_CASE("once the database's clock was set forward no lease is taken until a check has ended") {
  Bench bench;
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  const SteadyTime now = Clock::system().now();
  const UnixMillis said = unix_millis(1'700'000'000'000);
  bench.monitor.told_time({now, now, said});
  bench.monitor.told_time({now, now + 1s, said + 1s});
  CHECK(bench.monitor.may_take_leases());
  std::unique_lock check_waits(bench.mutex);
  bench.monitor.told_time({now, now + 2s, said + 1h});
  CHECK_FALSE(bench.monitor.may_take_leases());
  check_waits.unlock();
  CHECK(test::wait_until([&] { return bench.confirmed > 0 && bench.monitor.may_take_leases(); }));
}

TEST_CASE("a database's clock that was set forward gives workers the recovery grace, whatever a check says") {
  Bench bench(300ms);
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  const SteadyTime now = Clock::system().now();
  const UnixMillis said = unix_millis(1'700'000'000'000);
  bench.monitor.told_time({now, now, said});
  bench.monitor.told_time({now, now, said + 1h});
  REQUIRE(test::wait_until([&] { return bench.changes == 3; }));
  CHECK(bench.all_told() == std::vector<std::pair<State, std::string>>{
                                {State::ready, ""},
                                {State::recovering,
                                 "the server had its clock set: leases are not taken until workers had time "
                                 "to renew them"},
                                {State::ready, ""}});
  CHECK(bench.monitor.may_take_leases());
}

TEST_CASE("once a locked table was met no lease is taken, and the check that says why comes soon") {
  Bench bench(300ms);
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases() && bench.changes == 1; }));
  {
    const std::lock_guard lock(bench.mutex);
    bench.now.locked = "ff_attempt";
  }
  const SteadyTime met = Clock::system().now();
  bench.monitor.met_lock();
  CHECK_FALSE(bench.monitor.may_take_leases());
  CHECK(bench.monitor.may_run());
  REQUIRE(test::wait_until([&] { return bench.is(State::recovering); }));
  bench.becomes(Found::writable);
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  CHECK(Clock::system().now() - met >= 300ms);
  REQUIRE(test::wait_until([&] { return bench.changes == 3; }));
  CHECK(bench.all_told()[1].second ==
        "ff_attempt was locked: leases are not taken until workers had time to renew them");
}

TEST_CASE("once a disk was full no lease is taken until a grace after there was room again") {
  Bench bench(300ms);
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases() && bench.changes == 1; }));
  CHECK(bench.monitor.found_room());
  bench.monitor.met_full_disk();
  CHECK_FALSE(bench.monitor.may_take_leases());
  CHECK(bench.monitor.may_run());
  REQUIRE(test::wait_until([&] { return bench.is(State::recovering); }));
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  CHECK(bench.is(State::recovering));
  const SteadyTime found = Clock::system().now();
  CHECK_FALSE(bench.monitor.found_room());
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  CHECK(Clock::system().now() - found >= 300ms);
  REQUIRE(test::wait_until([&] { return bench.is(State::ready); }));
  CHECK(bench.all_told()[1].second ==
        "the server has no room on its disk: leases are not taken until workers had time to renew them");
}

TEST_CASE(
    "a check itself notices a database's clock that was set forward, however long the rest of it takes") {
  Bench bench(300ms);
  const SteadyTime now = Clock::system().now();
  const UnixMillis said = unix_millis(1'700'000'000'000);
  bench.now.reading = reconcile::TimeReading{now, now, said};
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  const auto becomes = [&](SteadyTime answered, UnixMillis time) {
    const std::lock_guard lock(bench.mutex);
    bench.now.reading = reconcile::TimeReading{answered, answered, time};
  };
  becomes(now + 1h, said + 1h);
  bench.check_again();
  CHECK(bench.all_told().size() == 1);
  becomes(now + 1h, said + 2h);
  bench.check_again();
  REQUIRE(test::wait_until([&] { return bench.all_told().size() == 3; }));
  CHECK(bench.all_told().at(1).first == State::recovering);
}

TEST_CASE("a monitor tells each change of state once") {
  Bench bench;
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.changes == 1; }));
  bench.check_again();
  bench.becomes(Found::unreachable, "connection refused");
  bench.check_again();
  REQUIRE(test::wait_until([&] { return bench.is(State::unreachable); }));
  CHECK_FALSE(bench.monitor.may_run());
  bench.check_again();
  bench.becomes(Found::read_only, "a standby");
  bench.check_again();
  REQUIRE(test::wait_until([&] { return bench.is(State::read_only); }));
  bench.becomes(Found::writable);
  bench.check_again();
  REQUIRE(test::wait_until([&] { return bench.is(State::ready); }));
  bench.monitor.stop();
  CHECK(bench.all_told() ==
        std::vector<std::pair<State, std::string>>{{State::ready, ""},
                                                   {State::unreachable, "connection refused"},
                                                   {State::read_only, "a standby"},
                                                   {State::ready, ""}});
}

TEST_CASE("a monitor tells when the reason changes though the state does not") {
  Bench bench;
  bench.becomes(Found::unreachable, "connection refused");
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.all_told().size() == 1; }));
  bench.becomes(Found::unreachable, "password authentication failed");
  bench.check_again();
  REQUIRE(test::wait_until([&] { return bench.all_told().size() == 2; }));
  CHECK(bench.all_told().back() ==
        std::pair(State::unreachable, std::string("password authentication failed")));
}

TEST_CASE("who recovers says on which server and why, and says it anew where that is another") {
  Bench bench(1h);
  const auto meets = [&](std::int64_t started_at, const std::string& server) {
    {
      const std::lock_guard lock(bench.mutex);
      bench.now.server_started_at = unix_millis(started_at);
      bench.now.server = server;
    }
    bench.check_again();
  };
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.is(State::ready); }));
  meets(1'700'000'001'000, "db2:5432");
  meets(1'700'000'001'000, "db2:5432");
  meets(1'700'000'002'000, "db3:5432");
  bench.monitor.stop();
  const std::string why =
      " is another than before, or was started anew: leases are not taken until workers had time to renew "
      "them";
  CHECK(bench.all_told() ==
        std::vector<std::pair<State, std::string>>{{State::ready, ""},
                                                   {State::recovering, "db2:5432" + why},
                                                   {State::recovering, "db3:5432" + why}});
}

TEST_CASE("a reason that changes while the state lasts is logged, once a minute at most") {
  const LogCapture log;
  MovedClock clock;
  Bench bench(0ms, clock);
  bench.becomes(Found::unreachable, "connection refused");
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.is(State::unreachable); }));
  const auto changes_to = [&](const std::string& reason, Milliseconds then) {
    bench.becomes(Found::unreachable, reason);
    bench.check_again();  // no check that saw another is under way once the clock goes on
    clock.later += then.count();
    bench.check_again();
  };
  changes_to("no route to host", 30s);
  changes_to("too many connections", 30s);
  changes_to("no route to host", 1s);
  changes_to("too many connections", 2min);
  changes_to("no route to host", 0s);
  bench.monitor.stop();
  CHECK(log.lines() == std::vector<std::string>{"warning database is unreachable: connection refused",
                                                "warning database is unreachable: too many connections",
                                                "warning database is unreachable: no route to host"});
}

TEST_CASE("after an outage a monitor lets others run, but leases be taken only when the grace is over") {
  Bench bench(300ms);
  bench.becomes(Found::unreachable, "away");
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.is(State::unreachable); }));
  bench.becomes(Found::writable);
  const SteadyTime back = Clock::system().now();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  CHECK(Clock::system().now() - back >= 300ms);
  REQUIRE(test::wait_until([&] { return bench.changes == 3; }));
  bench.monitor.stop();
  const auto told = bench.all_told();
  REQUIRE(told.size() == 3);
  CHECK(told[1].first == State::recovering);
  CHECK(told[2].first == State::ready);
}

TEST_CASE(
    "a check that somebody asks for comes at once, not in ten seconds, and is told when nothing has "
    "changed") {
  Bench bench;
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_run(); }));
  REQUIRE(test::wait_until([&] { return bench.changes == 1; }));
  const SteadyTime before = Clock::system().now();
  bench.monitor.check_now();
  REQUIRE(test::wait_until([&] { return bench.checks == 2 && bench.confirmed == 1; }));
  CHECK(Clock::system().now() - before < 5s);
  CHECK(bench.changes == 1);
  CHECK(bench.all_told().size() == 1);
}

TEST_CASE("something is read soon, not when the next check is due, and what runs goes on meanwhile") {
  Bench bench;
  std::atomic<bool> may_end{true};
  std::atomic<bool> was_let{true};  // in the monitor's thread, where nothing is asserted
  bench.on_check = [&] { was_let = test::wait_until([&] { return may_end.load(); }) && was_let; };
  SECTION("at once") {
    bench.becomes(Found::schema_outdated, "the next check is due in half a minute");
    bench.start();
    REQUIRE(test::wait_until([&] { return bench.changes == 1; }));
    const SteadyTime before = Clock::system().now();
    bench.monitor.check_soon();
    REQUIRE(test::wait_until([&] { return bench.checks == 2; }));
    CHECK(Clock::system().now() - before < 20s);
  }
  SECTION("without a doubt about the server") {
    bench.start();
    REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases() && bench.changes == 1; }));
    may_end = false;
    bench.monitor.check_soon();
    CHECK(bench.monitor.may_run());
    REQUIRE(test::wait_until([&] { return bench.checks == 2; }));
    CHECK(bench.monitor.may_run());
    CHECK(bench.monitor.may_take_leases());
    may_end = true;
  }
  // Whoever was parked since what is read along with a check was too old has nobody else to tell it.
  CHECK(test::wait_until([&] { return bench.confirmed > 0; }));
  bench.monitor.stop();
  CHECK(was_let);
}

TEST_CASE("while a check is asked for nothing may start, until the next check has ended") {
  Bench bench;
  std::atomic<bool> may_end{true};
  std::atomic<bool> was_let{true};  // in the monitor's thread, where nothing is asserted
  bench.on_check = [&] { was_let = test::wait_until([&] { return may_end.load(); }) && was_let; };
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.monitor.may_take_leases(); }));
  may_end = false;
  bench.monitor.check_now();
  CHECK_FALSE(bench.monitor.may_run());
  CHECK_FALSE(bench.monitor.may_take_leases());
  REQUIRE(test::wait_until([&] { return bench.checks == 2; }));
  CHECK_FALSE(bench.monitor.may_run());
  may_end = true;
  CHECK(test::wait_until([&] { return bench.monitor.may_run() && bench.monitor.may_take_leases(); }));
  bench.monitor.stop();
  CHECK(was_let);
}

TEST_CASE("what a check finds after the monitor was asked to stop is told to nobody") {
  Bench bench;
  std::atomic<bool> may_end{false};
  bench.on_check = [&] { test::wait_until([&] { return may_end.load(); }); };
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.checks == 1; }));
  bench.monitor.request_stop();
  may_end = true;
  bench.monitor.stop();
  CHECK(bench.all_told().empty());
  CHECK(bench.changes == 0);
}

TEST_CASE("a monitor that is stopped checks no more") {
  Bench bench;
  bench.start();
  REQUIRE(test::wait_until([&] { return bench.checks == 1; }));
  bench.monitor.stop();
  bench.monitor.check_now();
  bench.monitor.stop();
  CHECK(bench.checks == 1);
}
