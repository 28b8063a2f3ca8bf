// Storm control: how fast work is given back, whose first, and when leases are not taken at all.
#include <catch2/catch.hpp>

#include "reconcile/lease_census.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Breaker;
using reconcile::Storm;
using reconcile::StormSettings;
using reconcile::TickReport;

namespace {

StormSettings rate_only(std::int64_t rows_a_second) {
  StormSettings settings;
  settings.rate = rows_a_second;
  settings.breaker.on = false;
  return settings;
}

StormSettings breaker_only() {
  StormSettings settings;
  settings.rate = StormSettings::kNoLimit;
  return settings;
}

/// One daemon's storm control and an engine that asks it, by the same clock.
struct Stage {
  explicit Stage(const StormSettings& settings, std::string_view reconciler = "lease_expiry",
                 EngineOptions its = {})
      : options(with_clock(std::move(its))), storm(settings, clock), engine(database, reconciler, options) {}

  TickReport tick() { return engine->tick({.in_slices = true, .storm = &storm}); }
  TickReport tick_after(Milliseconds passed) {
    clock.advance(passed);
    return tick();
  }
  /// Each act ends its own session, until the trigger `dies` is gone.
  void break_sessions_that_act() {
    db.execute(R"(CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS
                  'BEGIN PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()); RETURN NEW; END')");
    db.execute("CREATE TRIGGER dies BEFORE UPDATE ON ff_exec_core FOR EACH ROW EXECUTE FUNCTION dies()");
  }
  /// Leases of so many workers that lapsed a minute ago, and as the daemon would have counted them.
  void lapse(int workers, int leases_each) {
    for (int i = 0; i < workers; ++i)
      insert_many_lapsed(db, {.count = leases_each, .worker_id = "w" + std::to_string(lapsed_workers++)});
    count_fleet();
  }
  void count_fleet() {
    storm.learn_fleet(reconcile::count_leases(db, reconcile::Groups(sixteen_partitions()), {}));
  }
  void lease(const std::string& worker, int leases) {
    // So long that none lapses on a slow machine.
    for (int i = 0; i < leases; ++i)
      insert_lapsed(db, {.partition = {3}},
                    {.worker_id = worker, .lease_expires_at_ms = now_ms(db) + 600'000});
  }
  EngineOptions with_clock(EngineOptions its) const {
    its.clock = &clock;
    return its;
  }

  Database database;
  pg::Connection db = database.connect();
  ManualClock clock;
  EngineOptions options;
  Storm storm;
  EngineFixture engine;
  int lapsed_workers = 0;
};

}  // namespace

TEST_CASE("no more is given back than the rate allows, and the rest follows as tokens come") {
  Stage t(rate_only(100));
  t.lapse(1, 500);
  TickReport report = t.tick();
  CHECK(report.processed == 200);
  CHECK(report.more);
  report = t.tick();
  CHECK(report.processed == 0);
  CHECK(report.wait == 250ms);
  CHECK(t.storm.view().queued.at("lease_expiry") == 300);
  report = t.tick_after(1s);
  CHECK(report.processed == 100);
  CHECK(report.given_back == 100);
  t.tick_after(1s);
  report = t.tick_after(1s);
  CHECK(report.processed == 100);
  CHECK(report.wait == 0ms);
  report = t.tick();
  CHECK(report.scanned == 0);
  CHECK_FALSE(report.more);
  CHECK(t.storm.view().queued.at("lease_expiry") == 0);
}

TEST_CASE("what ends executions is not held to the rate") {
  Stage t(rate_only(100), "attempt_timeout");
  t.lapse(1, 500);
  std::int64_t ended = 0;
  for (int ticks = 0; ticks < 10; ++ticks) {
    const TickReport report = t.tick();
    CHECK(report.given_back == 0);
    ended += report.processed;
    if (!report.more) break;
  }
  CHECK(ended == 500);
}

TEST_CASE("without a rate, and when it is off, all is given back at once") {
  const bool on = GENERATE(true, false);
  Stage t(breaker_only());
  if (!on) t.storm.configure({.on = false});
  t.lapse(1, 500);
  CHECK(t.tick().processed == 500);
}

TEST_CASE("a namespace with one row does not wait behind one with hundreds") {
  Stage t(rate_only(40), "lease_expiry", {.batch_size = 20});
  insert_many_lapsed(t.db, {.count = 300, .raw_fields = {{"namespace", "large"}}});
  CHECK(t.tick().processed == 80);
  const Uuid small = insert_lapsed(t.db, {.partition = {7}, .raw_fields = {{"namespace", "small"}}});
  const Uuid nobodys = insert_lapsed(t.db, {.partition = {8}});
  CHECK(t.tick_after(250ms).processed == 10);
  const auto phase = [&](const Uuid& id) {
    return row(t.db, "SELECT lifecycle_phase FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(id))
        .at("lifecycle_phase");
  };
  CHECK(phase(small) == "runnable");
  CHECK(phase(nobodys) == "runnable");
  // One whose lease lapses later is met as well, though those before it are read no more.
  const Uuid later = insert_lapsed(t.db, {.partition = {9}, .raw_fields = {{"namespace", "small"}}});
  CHECK(t.tick_after(250ms).processed == 10);
  CHECK(phase(later) == "runnable");
}

TEST_CASE("what a tick does not come to goes back into the queue") {
  Stage t(rate_only(40));
  t.lapse(1, 300);
  CHECK(t.tick().processed == 80);
  t.clock.advance(1s);
  CHECK(t.engine->tick({.deadline = t.clock.now(), .in_slices = true, .storm = &t.storm}).processed == 0);
  CHECK(t.storm.view().queued.at("lease_expiry") == 220);
  std::int64_t moved = 0;
  for (int i = 0; i < 6; ++i) moved += t.tick_after(1s).processed;
  CHECK(moved == 220);
}

TEST_CASE("what was locked comes back to the queue, though that never empties meanwhile") {
  Stage t(rate_only(40));
  t.lapse(1, 1500);
  const Uuid locked = insert_lapsed(t.db, {.partition = {7}, .raw_fields = {{"namespace", "small"}}});
  // Nor is it among what may have been written late, which is read again and again.
  t.db.execute(
      "UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms - 3600000 WHERE execution_id = $1",
      pg::Params::of(locked));
  const auto phase = [&] {
    return row(t.db, "SELECT lifecycle_phase FROM ff_exec_core WHERE execution_id = $1",
               pg::Params::of(locked))
        .at("lifecycle_phase");
  };
  {
    auto other = t.database.connect();
    other.execute("BEGIN");
    other.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(locked));
    for (int i = 0; i < 4; ++i) t.tick_after(1s);
    other.execute("ROLLBACK");
  }
  int ticks = 0;
  for (; ticks < 33 && phase() == "active"; ++ticks) {
    t.tick_after(1s);
    CHECK(t.storm.view().queued.at("lease_expiry") > 0);
  }
  CHECK(ticks > 20);  // it was read anew only then
  CHECK(phase() == "runnable");
}

TEST_CASE("a connection that breaks takes no tokens with it, and leaves the rate on") {
  Stage t(rate_only(40));
  t.lapse(1, 300);
  CHECK(t.tick().processed == 80);
  t.break_sessions_that_act();
  CHECK(t.tick_after(1s).failure);
  t.db.execute("DROP TRIGGER dies ON ff_exec_core");
  t.engine->set_scope(t.engine->scope());
  CHECK(t.tick().processed <= 80);
  CHECK(t.tick().processed == 0);
  CHECK(t.tick_after(1s).processed == 40);
}

TEST_CASE("leases that lapse of many workers at once are held, and taken when the hold is over") {
  Stage t(breaker_only());
  t.lapse(10, 5);
  TickReport report = t.tick();
  CHECK(report.processed == 0);
  CHECK(report.scanned >= 20);
  CHECK(report.more);
  CHECK(report.wait == 10s);
  CHECK(t.storm.view().state == Breaker::State::open);
  CHECK(t.storm.view().held >= 20);
  CHECK(t.storm.view().trips == 1);
  // attempt_timeout rests, too.
  EngineFixture timeouts(t.database, "attempt_timeout", t.options);
  CHECK(timeouts->tick({.storm = &t.storm}).processed == 0);
  CHECK(t.tick_after(29'999ms).processed == 0);
  report = t.tick_after(1ms);
  CHECK(report.processed == 50);
  CHECK(t.storm.view().releases.at("hold_over") == 1);
  CHECK(timeouts->tick({.storm = &t.storm}).processed == 0);
  t.tick();
  CHECK(t.storm.view().state == Breaker::State::closed);
}

TEST_CASE("a connection that breaks has drained nothing: the breaker goes on draining") {
  Stage t(breaker_only());
  EngineFixture timeouts(t.database, "attempt_timeout", t.options);
  t.lapse(10, 5);
  t.tick();
  CHECK(timeouts->tick({.storm = &t.storm}).processed == 0);
  t.break_sessions_that_act();
  CHECK(t.tick_after(30s).failure);
  CHECK(timeouts->tick({.storm = &t.storm}).failure);
  CHECK(t.storm.view().state == Breaker::State::draining);
  t.db.execute("DROP TRIGGER dies ON ff_exec_core");
  t.engine->set_scope(t.engine->scope());
  CHECK(t.tick().processed == 50);
  CHECK(timeouts->tick({.storm = &t.storm}).processed == 0);
  t.tick();
  CHECK(t.storm.view().state == Breaker::State::closed);
}

TEST_CASE("who lives renews while the breaker is open, and keeps its lease") {
  Stage t(breaker_only());
  t.lapse(10, 5);
  CHECK(t.tick().processed == 0);
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $1 WHERE worker_id <> 'w0'",
               pg::Params::of(now_ms(t.db) + 60'000));
  CHECK(t.tick_after(30s).processed == 5);
}

TEST_CASE("a worker that loses all its leases, and a few of a large fleet, are taken at once") {
  Stage t(breaker_only());
  SECTION("one worker") {
    t.lapse(1, 300);
    CHECK(t.tick().processed == 300);
  }
  SECTION("few leases of many workers") {
    t.lapse(19, 1);
    CHECK(t.tick().processed == 19);
  }
  SECTION("a small share") {
    for (int i = 0; i < 10; ++i) t.lease("alive" + std::to_string(i), 60);
    t.lapse(10, 2);
    CHECK(t.tick().processed == 20);
  }
  CHECK(t.storm.view().trips == 0);
}

TEST_CASE(
    "what was taken before counts, also of attempt_timeout, so that no more than twenty go before it opens") {
  Stage t(breaker_only());
  for (int i = 0; i < 10; ++i) t.lease("alive" + std::to_string(i), 10);
  t.lapse(3, 5);
  CHECK(t.tick().processed == 15);
  t.lapse(4, 1);
  EngineFixture timeouts(t.database, "attempt_timeout", t.options);
  CHECK(timeouts->tick({.storm = &t.storm}).processed == 4);
  t.lapse(2, 3);
  CHECK(t.tick().processed == 0);
  CHECK(t.storm.view().state == Breaker::State::open);
}

TEST_CASE("a breaker that is switched off lets all go") {
  Stage t(breaker_only());
  t.lapse(10, 5);
  CHECK(t.tick().processed == 0);
  StormSettings off = breaker_only();
  off.breaker.on = false;
  t.storm.configure(off);
  CHECK(t.tick().processed == 50);
  CHECK(t.storm.view().releases.at("switched_off") == 1);
}

TEST_CASE("a cancel leaves its leases, and when they lapse the breaker stays closed") {
  Stage t(breaker_only());
  t.lapse(10, 5);
  t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'cancelled'");
  CHECK(t.tick().processed == 50);
}

TEST_CASE("an open breaker says nothing of what takes no leases") {
  Stage t(breaker_only());
  t.lapse(10, 5);
  CHECK(t.tick().processed == 0);
  insert_core(t.db, {.partition = {3}, .state = delayed(), .deadline_at_ms = now_ms(t.db) - 1});
  EngineFixture promoter(t.database, "delayed_promoter", t.options);
  CHECK(promoter->tick({.storm = &t.storm}).processed == 1);
}

TEST_CASE("leases are counted with those who hold them, and how long they are") {
  Stage t(breaker_only());
  for (int i = 0; i < 4; ++i) t.lease("alive" + std::to_string(i), 5);
  const reconcile::Groups groups(sixteen_partitions());
  const reconcile::Fleet fleet = reconcile::count_leases(t.db, groups, {});
  CHECK(fleet.leases == 20);
  CHECK(fleet.holders == 4);
  CHECK(fleet.lease_length > 5min);
  CHECK(fleet.lease_length <= 10min);
  CHECK(reconcile::count_leases(t.db, groups, for_namespace("nobody's")).leases == 0);
}

TEST_CASE("claims are counted behind an event") {
  Stage t(breaker_only());
  insert(t.db, "ff_lease_event",
         {{"execution_id", "e"}, {"event_type", "acquired"}, {"occurred_at_ms", 1}, {"partition_key", 3}});
  const auto before = reconcile::count_claims(t.db, std::nullopt);
  CHECK(before.newest > 0);
  CHECK(before.count == 0);
  for (const char* type : {"acquired", "renewed", "reclaimed", "expired"})
    insert(t.db, "ff_lease_event",
           {{"execution_id", "e"}, {"event_type", type}, {"occurred_at_ms", 1}, {"partition_key", 3}});
  CHECK(reconcile::count_claims(t.db, before.newest).count == 2);
}
