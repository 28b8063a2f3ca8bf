// A lapsed lease whose execution is promised to a worker: attempt_timeout and lease_expiry leave it until the grant
// lapses.
#include <catch2/catch.hpp>

#include "demo/simulation/granted_worker.hpp"
#include "demo/simulation/worker.hpp"
#include "supervisor/runner.hpp"
#include "support/engine.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

struct LastReport final : supervisor::Observer {
  void tick_finished(const supervisor::TickEvent& event) override { processed = event.report.processed; }
  std::int64_t processed = 0;
};

void insert_grant(pg::Connection& db, const Uuid& execution, const std::string& kind,
                  std::int64_t expires_at_ms, int partition = 3) {
  insert(db, "ff_claim_grant",
         {{"partition_key", partition},
          {"grant_id", "\\x" + to_string(new_uuid()).substr(0, 8)},
          {"execution_id", to_string(execution)},
          {"kind", kind},
          {"worker_id", "w2"},
          {"worker_instance_id", "w2-1"},
          {"grant_ttl_ms", 1000},
          {"issued_at_ms", expires_at_ms - 1000},
          {"expires_at_ms", expires_at_ms}});
}

}  // namespace

TEST_CASE(
    "attempt_timeout and lease_expiry leave a lease that is promised to another worker until the grant "
    "lapses") {
  const std::string name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)});
  const auto now = now_ms(db);
  // The second of two, of which the first has lapsed.
  insert_grant(db, id, "reclaim", now - 5);
  insert_grant(db, id, "reclaim", now + 60'000);
  const auto before = snapshot(db);
  EngineFixture engine(database, name);
  const TickReport held = engine->tick();
  CHECK(held.processed == 0);
  CHECK(held.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(diff(before, snapshot(db)).empty());

  db.execute("UPDATE ff_claim_grant SET expires_at_ms = $1", pg::Params::of(now - 1));
  CHECK(engine->tick().processed == 1);
  CHECK(core(db, id)["lifecycle_phase"] == "runnable");
}

TEST_CASE("attempt_timeout and lease_expiry do not take another grant for a promise") {
  const std::string name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)});
  const auto later = now_ms(db) + 60'000;
  insert_grant(db, id, "claim", later);
  insert_grant(db, new_uuid(), "reclaim", later);
  insert_grant(db, id, "reclaim", later, 4);  // its namesake's
  EngineFixture engine(database, name);
  CHECK(engine->tick().processed == 1);
}

TEST_CASE("a lease that was promised is taken at the next look after the grant's end, however quiet it is") {
  const std::string name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)});
  const auto now = now_ms(db);
  insert_grant(db, id, "reclaim", now + 60'000);
  EngineFixture engine(database, name);
  LastReport last;
  ManualClock clock;
  const Milliseconds interval{1000};
  supervisor::Runner runner(
      name, true, {true, interval},
      [&](const reconcile::TickOptions& options) { return engine->tick(options); },
      {.first = [](SteadyTime) { return true; }, .companions = {}, .shortcuts = {}}, last, clock);
  const auto next = runner.step(clock.now(), {}).next;
  CHECK(last.processed == 0);

  // Nobody announces that.
  db.execute("UPDATE ff_claim_grant SET expires_at_ms = $1", pg::Params::of(now - 1));
  const auto away = std::chrono::duration_cast<Milliseconds>(next - clock.now());
  CHECK(away <= 1.1 * interval);
  clock.advance(away);
  runner.step(clock.now(), {});
  CHECK(last.processed == 1);
}

TEST_CASE("what is granted behind the back of an act is not given to a second worker") {
  const std::string name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  const ExecutionId promised{{3}, insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)})};
  const Uuid other = insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)});
  EngineFixture engine(database, name);
  TickReport report;
  StalledAct act(database, [&] { report = engine->tick(); });
  auto session = database.connect();
  simulation::GrantedWorker second(session, "w2", Milliseconds{60'000});
  REQUIRE(second.issue_reclaim_grant(promised, Milliseconds{60'000}));
  act.finish();

  CHECK_FALSE(report.failure);
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(core(db, other)["lifecycle_phase"] == "runnable");
  simulation::Worker third(db, "w3", Milliseconds{60'000});
  CHECK_FALSE(third.claim_one(promised));
  CHECK(second.reclaim(promised));
}
