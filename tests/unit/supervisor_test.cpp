#include "supervisor/supervisor.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "support/process.hpp"

using namespace ff;
using namespace ff::supervisor;
using namespace std::chrono_literals;
using Found = Observation::Found;
using reconcile::TickOptions;
using reconcile::TickReport;
using test::wait_until;

namespace {

/// The machine's clock, which the test may set forward.
struct LeapingClock final : Clock {
  SteadyTime now() const override { return Clock::system().now() + Milliseconds{ahead}; }
  UnixMillis wall() const override { return Clock::system().wall(); }
  std::atomic<Milliseconds::rep> ahead{0};
};

/// A runner that counts its ticks; what else a tick does, the test says.
struct Counted {
  Counted(const std::string& name, bool takes_leases, const Clock& clock, Timing timing = {true, 10ms})
      : runner(
            name, takes_leases, timing, [this](const TickOptions& options) { return tick(options); }, {},
            nobody, clock) {}

  TickReport tick(const TickOptions& options) {
    if (++inside > 1) twice_at_once = true;
    ++ticks;
    if (work) work(options);
    --inside;
    TickReport report;
    if (fails) report.failure.emplace(pg::Error::Kind::connection, "away");
    return report;
  }

  Observer nobody;
  std::function<void(const TickOptions&)> work;
  std::atomic<bool> fails{false};
  std::atomic<int> ticks{0};
  std::atomic<int> inside{0};
  std::atomic<bool> twice_at_once{false};
  Runner runner;
};

/// Knows what a monitor told last.
struct Told final : Observer {
  void state_changed(State now, const std::string&) override { state = now; }
  std::atomic<State> state{State::starting};
};

struct Bench {
  explicit Bench(Milliseconds grace = 0ms)
      : monitor(
            grace, [this] { return check(); }, told, clock) {}

  Observation check() {
    ++checks;
    if (on_check) on_check();
    Observation observation;
    observation.found = found;
    observation.server_uptime = uptime;
    observation.server_started_at = unix_millis(1'700'000'000'000);
    return observation;
  }
  void check_again(int times = 2) {
    const int until = checks + times;
    REQUIRE(wait_until([&] {
      monitor.check_now();
      return checks >= until;
    }));
  }
  void start(std::vector<Runner*> runners, int threads = 2, Milliseconds longest = 10s) {
    supervisor.emplace(std::move(runners), threads, monitor, longest, clock);
    supervisor->start();
  }
  std::vector<std::string> drain(Milliseconds at_most = 20s) {
    return supervisor->drain(clock.now() + at_most);
  }

  LeapingClock clock;
  Told told;
  std::atomic<Found> found{Found::writable};
  std::atomic<int> checks{0};
  std::function<void()> on_check;
  std::atomic<Milliseconds> uptime{Milliseconds{24h}};
  Monitor monitor;
  std::optional<Supervisor> supervisor;
};

}  // namespace

TEST_CASE("runners tick again and again, each by itself") {
  Bench bench;
  Counted first("first", false, bench.clock);
  Counted second("second", true, bench.clock);
  bench.start({&first.runner, &second.runner});
  CHECK(wait_until([&] { return first.ticks >= 5 && second.ticks >= 5; }));
  CHECK(bench.drain().empty());
  bench.supervisor->join();
}

TEST_CASE("nothing ticks while there is no database, everything when it comes, and nothing when it goes") {
  Bench bench;
  bench.found = Found::unreachable;
  Counted counted("any", false, bench.clock);
  bench.start({&counted.runner});
  bench.check_again(4);
  CHECK(counted.ticks == 0);

  bench.found = Found::writable;
  bench.check_again();
  CHECK(wait_until([&] { return counted.ticks >= 3; }));

  bench.found = Found::unreachable;
  bench.check_again();
  REQUIRE(wait_until([&] { return bench.told.state == State::unreachable && counted.inside == 0; }));
  bench.check_again();
  const int ticks = counted.ticks;
  bench.check_again(4);
  CHECK(counted.ticks == ticks);

  bench.found = Found::writable;
  bench.check_again();
  CHECK(wait_until([&] { return counted.ticks >= ticks + 3; }));
  bench.drain();
}

TEST_CASE("what is paused does not tick, and goes on when the pause is lifted") {
  Bench bench;
  Pauses pauses(bench.clock);
  const SteadyTime far_ahead = bench.clock.now() + 1h;  // however long the test takes
  Counted paused("paused", false, bench.clock);
  Counted other("other", false, bench.clock);
  pauses.learn({{.reconciler = "paused", .by = {}, .reason = {}, .until = {}}}, {}, far_ahead);
  bench.supervisor.emplace(std::vector{&paused.runner, &other.runner}, 2, bench.monitor, 10s, bench.clock,
                           &pauses);
  bench.supervisor->start();
  REQUIRE(wait_until([&] { return other.ticks >= 5; }));
  CHECK(paused.ticks == 0);
  pauses.learn({}, {}, far_ahead);
  bench.supervisor->reconsider_parked();
  CHECK(wait_until([&] { return paused.ticks >= 3; }));
  pauses.learn({{.reconciler = "*", .by = {}, .reason = {}, .until = {}}}, {}, far_ahead);
  REQUIRE(wait_until([&] { return paused.inside == 0 && other.inside == 0; }));
  const int ticks = paused.ticks + other.ticks;
  bench.check_again(4);
  CHECK(paused.ticks + other.ticks <= ticks + 2);  // those that were about to begin
  bench.drain();
}

TEST_CASE("while the database recovers only those run that take no leases") {
  Bench bench(2h);
  bench.uptime = 1h;
  Counted takes("takes", true, bench.clock);
  Counted others("others", false, bench.clock);
  bench.start({&takes.runner, &others.runner});
  REQUIRE(wait_until([&] { return others.ticks >= 10; }));
  CHECK(takes.ticks == 0);
  bench.drain();
}

TEST_CASE("those that take leases run as soon as the database has recovered, and not before") {
  Bench bench(300ms);
  bench.uptime = 0ms;
  Counted takes("takes", true, bench.clock);
  std::atomic<bool> too_early{false};
  takes.work = [&](const TickOptions&) {
    if (!bench.monitor.may_take_leases()) too_early = true;
  };
  bench.start({&takes.runner});
  REQUIRE(wait_until([&] { return bench.told.state == State::recovering; }));
  bench.uptime = 24h;
  CHECK(wait_until([&] { return takes.ticks >= 3; }));
  CHECK_FALSE(too_early);
  bench.drain();
}

TEST_CASE("a disabled runner never ticks until it is enabled, and not after it is disabled again") {
  Bench bench;
  Counted off("off", false, bench.clock, {false, 10ms});
  Counted on("on", false, bench.clock);
  bench.start({&off.runner, &on.runner});
  REQUIRE(wait_until([&] { return on.ticks >= 10; }));
  CHECK(off.ticks == 0);

  off.runner.change({true, 10ms}, [] {});
  bench.supervisor->reconsider();
  REQUIRE(wait_until([&] { return off.ticks >= 3; }));

  off.runner.change({false, 10ms}, [] {});
  bench.supervisor->reconsider();
  // A tick that was let in before the change may still be under way.
  REQUIRE(wait_until([&] { return off.inside == 0; }));
  const int ticks = off.ticks;
  const int others = on.ticks;
  REQUIRE(wait_until([&] { return on.ticks >= others + 20; }));
  CHECK(off.ticks <= ticks + 1);
  bench.drain();
}

TEST_CASE("a runner never ticks twice at once, however often it is reconsidered") {
  Bench bench;
  Counted counted("any", false, bench.clock, {true, 1ms});
  counted.work = [&](const TickOptions&) { bench.supervisor->reconsider(); };
  bench.start({&counted.runner}, 4);
  for (int i = 0; i < 200; ++i) bench.supervisor->reconsider();
  REQUIRE(wait_until([&] {
    bench.supervisor->reconsider();
    return counted.ticks >= 10;
  }));
  CHECK_FALSE(counted.twice_at_once);
  bench.drain();
}

TEST_CASE("a failure that leaves the database in question makes the monitor check at once") {
  Bench bench;
  Counted counted("any", false, bench.clock);
  counted.fails = true;
  bench.start({&counted.runner});
  // The monitor alone would check every ten seconds.
  CHECK(wait_until([&] { return bench.checks >= 3 && counted.ticks >= 2; }, 9s));
  bench.drain();
}

TEST_CASE("a check that finds all well does not cut short the pause after a failure") {
  Bench bench;
  Counted counted("any", false, bench.clock, {true, 20s});
  counted.fails = true;
  bench.start({&counted.runner});
  REQUIRE(wait_until([&] { return counted.ticks == 1 && bench.checks >= 2; }));
  REQUIRE(wait_until([&] { return bench.monitor.may_run(); }));
  bench.check_again(6);
  CHECK(counted.ticks == 1);
  bench.drain();
}

TEST_CASE("drain asks running ticks to stop, waits for them and starts none any more") {
  Bench bench;
  Counted counted("any", false, bench.clock);
  std::atomic<bool> stopped{false};
  counted.work = [&](const TickOptions& options) {
    stopped = wait_until([&] { return options.stop.stop_requested(); });
  };
  bench.start({&counted.runner});
  REQUIRE(wait_until([&] { return counted.inside == 1; }));
  CHECK(bench.drain().empty());
  CHECK(stopped);
  CHECK(counted.inside == 0);
  bench.supervisor->join();
  CHECK(counted.ticks == 1);
}

TEST_CASE("drain names those that did not stop in time, and join waits for them") {
  Bench bench;
  Counted quick("quick", false, bench.clock);
  Counted slow("slow", false, bench.clock);
  std::atomic<bool> interrupted{false};
  slow.work = [&](const TickOptions&) { wait_until([&] { return interrupted.load(); }); };
  bench.start({&quick.runner, &slow.runner});
  REQUIRE(wait_until([&] { return slow.inside == 1 && quick.ticks >= 1; }));
  CHECK(bench.drain(100ms) == std::vector<std::string>{"slow"});
  CHECK(slow.inside == 1);
  interrupted = true;
  bench.supervisor->join();
  CHECK(slow.inside == 0);
  CHECK(slow.ticks == 1);
}

TEST_CASE("join waits for a check that is under way, which may call the supervisor until then") {
  Bench bench;
  Counted counted("any", false, bench.clock);
  std::atomic<bool> interrupted{false};
  std::atomic<bool> ended{false};
  bench.on_check = [&] {
    wait_until([&] { return interrupted.load(); });
    ended = true;
  };
  bench.start({&counted.runner});
  REQUIRE(wait_until([&] { return bench.checks == 1; }));
  CHECK(bench.drain().empty());
  CHECK_FALSE(ended);
  interrupted = true;
  bench.supervisor->join();
  CHECK(ended);
  CHECK(counted.ticks == 0);
}

TEST_CASE("a supervisor whose timers do not fire is not alive") {
  Bench bench;
  Counted counted("any", false, bench.clock);
  std::atomic<bool> go_on{false};
  counted.work = [&](const TickOptions&) { wait_until([&] { return go_on.load(); }); };
  // Its only thread is in the tick, so that the heartbeat waits as well.
  bench.start({&counted.runner}, 1, 10s);
  REQUIRE(wait_until([&] { return counted.inside == 1; }));
  CHECK(bench.supervisor->alive());
  bench.clock.ahead = 9'000;
  CHECK(bench.supervisor->alive());
  bench.clock.ahead = 30'000;
  CHECK_FALSE(bench.supervisor->alive());
  go_on = true;
  CHECK(wait_until([&] { return bench.supervisor->alive(); }));
  bench.drain();
}

TEST_CASE(
    "a supervisor whose only thread is in a tick that the database answers is alive, however long that "
    "takes") {
  Bench bench;
  Counted counted("any", false, bench.clock);
  std::atomic<bool> go_on{false};
  std::atomic<bool> answers{true};
  counted.work = [&](const TickOptions& options) {
    wait_until([&] {
      if (answers) options.progress->answered = bench.clock.now();
      return go_on.load();
    });
  };
  bench.start({&counted.runner}, 1, 10s);
  REQUIRE(wait_until([&] { return counted.inside == 1; }));
  for (const int minutes : {1, 2, 3}) {
    bench.clock.ahead = minutes * 60'000;
    CHECK(wait_until([&] { return bench.supervisor->alive(); }));
  }
  answers = false;
  bench.clock.ahead = 240'000;
  CHECK(wait_until([&] { return !bench.supervisor->alive(); }));
  go_on = true;
  bench.drain();
}

TEST_CASE("an idle supervisor stays alive by its heartbeat") {
  Bench bench;
  bench.found = Found::unreachable;
  bench.start({}, 1, 0ms);
  REQUIRE(wait_until([&] { return bench.told.state == State::unreachable; }));
  bench.clock.ahead = 60'000;
  CHECK(wait_until([&] { return bench.supervisor->alive(); }));
  bench.drain();
}
