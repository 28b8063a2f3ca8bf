// What a tick makes of a child table that somebody else holds: DDL, VACUUM FULL, a tool for partitions.
#include <catch2/catch.hpp>

#include "migrate/migrate.hpp"
#include "pg/transaction.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr int kChildren = 16;
const Partitions kPartitions = partition_range({0}, {31});

/// The rows of every group of eight partitions of which none lies in this child.
std::int64_t out_of_reach_of_lock(pg::Connection& db, const std::string& child) {
  return number(db,
                "SELECT count(*) FROM ff_attempt WHERE partition_key / 8 NOT IN"
                " (SELECT partition_key / 8 FROM " +
                    child + ")");
}

}  // namespace

TEST_CASE("while a child of a table is locked, the partitions in others go on") {
  const Database database{empty_database()};
  auto db = database.connect();
  migrate::up(db, kChildren);
  // Few in each partition, and in the first so many that they are paged through.
  insert_many_lapsed(db, {.count = 64, .partitions = kPartitions});
  insert_many_lapsed(db, {.count = 40, .partitions = {{0}}});
  const auto child =
      db.execute("SELECT tableoid::regclass::text FROM ff_attempt WHERE partition_key = 31 LIMIT 1")
          .one()
          .get<std::string>(0);
  const std::int64_t free = out_of_reach_of_lock(db, child);
  REQUIRE(free > 0);
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
      CHECK_FALSE(report.looked);
      CHECK(report.quarantined == 0);
      processed += report.processed;
    }
    CHECK(processed == free);
    ddl.rollback();
  }
  CHECK(engine->tick().processed == 104 - free);
}
