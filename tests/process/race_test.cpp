// Two daemons over the same rows as workers that are alive: nobody's lease is taken while it is healthy,
// nothing happens twice, and nobody waits for anybody in a circle.
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "support/deadlocks.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr Milliseconds kLease = 1500ms;
constexpr Milliseconds kHealthy = 700ms;  // of a lease that is left: whoever renews with that much is in time
constexpr int kWorkers = 4;

struct Counts {
  std::atomic<int> completed{0};
  std::atomic<int> abandoned{0};
  std::atomic<int> stolen{0};  // refused though the lease was healthy
  std::atomic<int> failures{0};
};

/// Claims, renews and completes; a quarter of the claims is abandoned, as by a crash.
class LiveWorker {
 public:
  LiveWorker(pg::Connection connection, int number, Counts& counts)
      : connection_(std::move(connection)),
        worker_(connection_, "worker-" + std::to_string(number), kLease),
        counts_(counts),
        generator_(static_cast<unsigned>(number)) {}

  void work(const std::stop_token& stop) {
    const auto partitions = partition_range({0}, {3});
    while (!stop.stop_requested()) {
      try {
        const SteadyTime claimed = Clock::system().now();
        if (const auto claim = worker_.claim(partitions))
          hold(*claim, claimed);
        else
          std::this_thread::sleep_for(5ms);
      } catch (const pg::Error&) {
        ++counts_.failures;
      }
    }
  }

 private:
  void hold(const simulation::Claim& claim, SteadyTime renewed) {
    if (generator_() % 4 == 0) {
      ++counts_.abandoned;
      return;
    }
    for (unsigned renewals = generator_() % 4; renewals > 0; --renewals) {
      std::this_thread::sleep_for(Milliseconds{generator_() % 300});
      const SteadyTime now = Clock::system().now();
      const bool kept = worker_.renew(claim);
      if (!kept && Clock::system().now() - renewed < kLease - kHealthy) ++counts_.stolen;
      if (!kept) return;
      renewed = now;
    }
    const bool kept = worker_.complete(claim);
    if (kept)
      ++counts_.completed;
    else if (Clock::system().now() - renewed < kLease - kHealthy)
      ++counts_.stolen;
  }

  pg::Connection connection_;
  simulation::Worker worker_;
  Counts& counts_;
  std::mt19937 generator_;
};

void race(Milliseconds length) {
  Database database;
  auto db = database.connect();
  const std::string config =
      "partitions: 0-3\nrecovery_grace: 0s\nreconcilers:\n  lease_expiry: {interval: 20ms, max_reclaims: 1}\n"
      "  attempt_timeout: {interval: 20ms, batch_size: 20}\n";
  const auto ready = [](RunningDaemon& daemon) { return wait_until([&] { return daemon.ready(); }); };
  RunningDaemon first({.conninfo = database.conninfo(), .config = config});
  RunningDaemon second({.conninfo = database.conninfo(), .config = config});
  REQUIRE(ready(first));
  REQUIRE(ready(second));

  Counts counts;
  {
    std::vector<std::unique_ptr<LiveWorker>> workers;
    for (int i = 0; i < kWorkers; ++i)
      workers.push_back(std::make_unique<LiveWorker>(database.connect(), i, counts));
    std::vector<std::jthread> threads;
    for (auto& worker : workers)
      threads.emplace_back([&worker = *worker](const std::stop_token& stop) { worker.work(stop); });
    const SteadyTime end = Clock::system().now() + length;
    simulation::NewExecution like;
    like.max_retries = 2;
    like.name_space = "race";
    while (Clock::system().now() < end) {
      if (number(db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'runnable'") < 50)
        simulation::create(db, like, partition_range({0}, {3}), 50);
      std::this_thread::sleep_for(20ms);
    }
  }
  // What the workers abandoned last is taken as soon as it lapses.
  REQUIRE(wait_until([&] {
    return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL") == 0;
  }));
  CHECK(first.stop() == 0);
  CHECK(second.stop() == 0);

  CAPTURE(counts.completed, counts.abandoned);
  CHECK(counts.completed > 10);
  CHECK(counts.abandoned > 5);
  CHECK(counts.stolen == 0);
  CHECK(counts.failures == 0);
  const auto violations = simulation::audit(db);
  CAPTURE(violations);
  CHECK(violations.empty());
  CHECK(number(db, "SELECT count(*) FROM ff_completion_event WHERE outcome = 'success'") == counts.completed);
  CHECK(number(db,
               "SELECT count(*) FROM (SELECT 1 FROM ff_completion_event GROUP BY partition_key, execution_id "
               "HAVING count(*) > 1) twice") == 0);
  CHECK(deadlocks(db) == 0);
  CHECK_FALSE(first.process().err_has(" error "));
  CHECK_FALSE(second.process().err_has(" error "));
}

}  // namespace

TEST_CASE("two daemons and live workers for fifteen seconds harm nobody") {
  race(15s);
}

TEST_CASE("two daemons and live workers for half a minute harm nobody", "[long]") {
  race(30s);
}
