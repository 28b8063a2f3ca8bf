// Several engines and live workers over the same rows: row locks are all that coordinates them.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "support/deadlocks.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

/// Runs `work` in two threads that start together.
void twice_at_once(const std::function<void(int)>& work) {
  std::atomic<int> ready = 0;
  std::array<std::thread, 2> threads;
  for (int i = 0; i < 2; ++i)
    threads[static_cast<std::size_t>(i)] = std::thread([&, i] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      work(i);
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("two engines at once over the same rows move each of them exactly once") {
  const auto name = GENERATE("attempt_timeout", "lease_expiry");
  const int batch_size = GENERATE(1000, 37);
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 1000, .raw_fields = origin("a", "1")});
  insert_many_lapsed(db, {.count = 1000, .partitions = {{3}, {4}}, .policy = max_retries(1)});
  std::array<TickReport, 2> reports;
  {
    EngineFixture first(database, name, {.batch_size = batch_size});
    EngineFixture second(database, name, {.batch_size = batch_size});
    twice_at_once(
        [&](int i) { reports.at(static_cast<std::size_t>(i)) = (i == 0 ? first : second)->tick(); });
    for (const TickReport& report : reports) {
      CHECK_FALSE(report.failure);
      CHECK(report.error_count() == 0);
    }
    // What both skipped because the other held a neighbour of it is left for the tick after.
    const auto rest = first->tick().processed;
    CHECK(reports[0].processed + reports[1].processed + rest == 2000);
  }
  CHECK(number(db, "SELECT count(*) FROM ff_attempt WHERE lease_epoch = 2 AND lease_expires_at_ms IS NULL") ==
        2000);
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event") == 2000);
  CHECK(number(db, "SELECT count(DISTINCT execution_id) FROM ff_lease_event") == 2000);
  const bool ends = std::string_view(name) == "attempt_timeout";
  CHECK(number(db, "SELECT count(DISTINCT execution_id) FROM ff_completion_event") == (ends ? 1000 : 0));
  CHECK(number(db, "SELECT count(*) FROM ff_completion_event") == (ends ? 1000 : 0));
  CHECK(number(db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'active'") == 0);
  CHECK(deadlocks(db) == 0);
}

TEST_CASE("both reconcilers beside live workers that crash and wake up late leave every row sound") {
  const Database database;
  auto db = database.connect();
  simulation::create(db, {.max_retries = 3, .name_space = "a", .instance_tag = "1"}, sixteen_partitions(),
                     300);
  const std::map<std::string, Settings> both{{"lease_expiry", {{"max_reclaims", 1}}},
                                             {"attempt_timeout", {}}};

  const auto work = [&](int seed) {
    auto connection = database.connect();
    // So short a lease lapses under the worker's hands as often as not.
    simulation::Worker worker(connection, "w" + std::to_string(seed), Milliseconds{seed == 0 ? 2 : 20});
    std::vector<simulation::Claim> abandoned;
    for (int i = seed; i < 400; ++i) {
      const auto claim = worker.claim(sixteen_partitions());
      if (!claim) continue;
      if (i % 3 == 0) abandoned.push_back(*claim);
      if (i % 3 == 1 && worker.renew(*claim)) worker.complete(*claim);
      if (i % 3 == 2) worker.fail(*claim, i % 2 == 0);
    }
    // The zombies: refused where the lease was taken, and welcome where nobody has come by yet.
    for (const auto& claim : abandoned) worker.complete(claim);
  };
  std::atomic<int> working = 2;
  const auto reconcile = [&](const char* name) {
    EngineFixture engine(
        database, name,
        {.settings = name == std::string_view("lease_expiry") ? both.at("lease_expiry") : Settings{},
         .together_with = both});
    std::int64_t errors = 0;
    do errors += engine->tick().error_count();
    while (working > 0);
    return errors;
  };
  {
    std::int64_t errors[2] = {-1, -1};
    std::array<std::thread, 4> threads{std::thread([&] { work(0), --working; }),
                                       std::thread([&] { work(1), --working; }),
                                       std::thread([&] { errors[0] = reconcile("lease_expiry"); }),
                                       std::thread([&] { errors[1] = reconcile("attempt_timeout"); })};
    for (auto& thread : threads) thread.join();
    CHECK(errors[0] == 0);
    CHECK(errors[1] == 0);
  }
  CHECK(simulation::audit(db) == std::vector<std::string>{});
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event WHERE event_type = 'expired'") > 0);
  CHECK(deadlocks(db) == 0);
}
