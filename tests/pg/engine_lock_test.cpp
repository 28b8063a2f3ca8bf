// What a tick makes of a child table that somebody else holds: DDL, VACUUM FULL, a tool for partitions.
#include <catch2/catch.hpp>

#include "migrate/migrate.hpp"
#include "pg/transaction.hpp"
#include "reconcile/groups.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const Partitions kPartitions = partition_range({0}, {63});

/// The rows of every group of partitions of which none lies in this child.
std::int64_t out_of_reach_of_lock(pg::Connection& db, const std::string& child) {
  std::int64_t rows = 0;
  const reconcile::Groups groups(kPartitions);
  for (const Partitions& group : groups.all()) {
    const auto is_in_child = "SELECT count(*) FROM " + child + " WHERE partition_key = ANY($1)";
    if (db.execute(is_in_child, pg::Params::of(group)).one().get<std::int64_t>(0) > 0) continue;
    rows += db.execute("SELECT count(*) FROM ff_attempt WHERE partition_key = ANY($1)", pg::Params::of(group))
                .one()
                .get<std::int64_t>(0);
  }
  return rows;
}

}  // namespace

TEST_CASE("while a child of a table is locked, the partitions in others go on") {
  const Database database{empty_database()};
  auto db = database.connect();
  migrate::up(db, migrate::kDefaultFanOut);
  // Few in each partition, and in the first so many that they are paged through.
  insert_many_lapsed(db, {.count = 128, .partitions = kPartitions});
  insert_many_lapsed(db, {.count = 40, .partitions = {{0}}});
  const auto child =
      db.execute("SELECT tableoid::regclass::text FROM ff_attempt WHERE partition_key = 63 LIMIT 1")
          .one()
          .get<std::string>(0);
  const std::int64_t free = out_of_reach_of_lock(db, child);
  REQUIRE(free >= 64);
  EngineFixture engine(
      database, "lease_expiry",
      {.partitions = kPartitions, .statement_timeout = Milliseconds{400}, .clock = &Clock::system()});
  {
    auto other = database.connect();
    pg::Transaction ddl(other);
    ddl.execute("LOCK TABLE " + child + " IN ACCESS EXCLUSIVE MODE");
    // To wait for the lock takes longer than a tick has: that is no part of its time.
    std::int64_t processed = 0;
    for (int tick = 0; tick < 100 && processed < free; ++tick) {
      const auto report = engine->tick({.deadline = Clock::system().now() + Milliseconds{150}});
      REQUIRE(report.failure);
      CHECK(report.failure->table_locked());
      CHECK_FALSE(report.complete);
      CHECK(report.quarantined == 0);
      processed += report.processed;
    }
    CHECK(processed == free);
    ddl.rollback();
  }
  CHECK(engine->tick().processed == 168 - free);
}

TEST_CASE(
    "a lock on a table that a row's trigger waits for is no row's fault, and one that it does not wait for "
    "is") {
  const bool waits = GENERATE(true, false);
  const Database database;
  auto db = database.connect();
  db.execute_script("CREATE TABLE ledger (id integer)");
  db.execute_script(std::string("CREATE FUNCTION book() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                                " LOCK TABLE public.ledger IN ACCESS SHARE MODE ") +
                    (waits ? "" : "NOWAIT") + "; RETURN NEW; END $$");
  db.execute_script(
      "CREATE TRIGGER book BEFORE UPDATE ON ff_attempt FOR EACH ROW WHEN (OLD.worker_id = 'booked')"
      " EXECUTE FUNCTION book()");
  insert_many_lapsed(db, {.count = 20, .partitions = {{3}}});
  insert_lapsed(db, {.partition = {3}}, {.worker_id = "booked", .lease_expires_at_ms = now_ms(db) - 90'000});
  EngineFixture engine(database, "attempt_timeout", {.clock = &Clock::system()});
  auto other = database.connect();
  pg::Transaction ddl(other);
  ddl.execute("LOCK TABLE public.ledger IN ACCESS EXCLUSIVE MODE");
  const auto report = engine->tick();
  CHECK(report.failure.has_value() == waits);
  CHECK(report.quarantined == (waits ? 0 : 1));
  CHECK(report.processed == (waits ? 0 : 20));
  ddl.rollback();
}
