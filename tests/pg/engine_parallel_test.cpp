// A tick over a large backlog that others lend a hand to.
#include <catch2/catch.hpp>
#include <set>

#include "reconcile/groups.hpp"
#include "support/deadlocks.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr int kPartitions = 60;  // four groups
constexpr int kEach = 20;

const EngineOptions kShared{
    .partitions = partition_range({0}, {kPartitions - 1}), .pool_size = 4, .spare_threads = 3};

/// `kEach` lapsed leases in each of the partitions.
void insert_backlog(pg::Connection& db) {
  insert_many_lapsed(
      db, {.count = kEach * kPartitions, .partitions = kShared.partitions, .policy = max_retries(1)});
}

/// Runs `body` at each update of an attempt in these partitions.
void add_trigger(pg::Connection& db, const std::string& when, const std::string& body) {
  db.execute_script(
      "CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body +
      " RETURN NEW; END $$; CREATE TRIGGER stumble BEFORE UPDATE ON ff_attempt FOR EACH ROW WHEN (" + when +
      ") EXECUTE FUNCTION stumble()");
}

}  // namespace

TEST_CASE("passes side by side share a backlog and each row is moved exactly once, in one report") {
  const Database database;
  auto db = database.connect();
  insert_backlog(db);
  // Slow enough that every pass gets something to do.
  add_trigger(db, "true", "PERFORM pg_sleep(0.001);");
  EngineFixture engine(database, "attempt_timeout", kShared);
  const TickReport report = engine->tick({.list_moves = true});
  CHECK_FALSE(report.failure);
  CHECK_FALSE(report.more);
  CHECK(report.scanned == kEach * kPartitions);
  CHECK(report.processed == kEach * kPartitions);
  CHECK(outcomes(report) == "retried=1200");
  CHECK(report.lateness.rows() == kEach * kPartitions);
  std::set<reconcile::RowKey> moved;
  for (const auto& move : report.moves) moved.insert(move.key);
  CHECK(moved.size() == kEach * kPartitions);
  CHECK(engine.pool().state().idle == 4);  // three came to help
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event") == kEach * kPartitions);
  CHECK(number(db, "SELECT count(DISTINCT execution_id) FROM ff_lease_event") == kEach * kPartitions);
}

TEST_CASE("a tick that has little to do needs no help") {
  const Database database;
  auto db = database.connect();
  const Partitions group = reconcile::Groups(kShared.partitions).all().front();
  insert_many_lapsed(db, {.count = 8 * kEach, .partitions = {group.begin(), group.begin() + 8}});
  EngineFixture engine(database, "attempt_timeout", kShared);
  CHECK(engine->tick().processed == 8 * kEach);
  CHECK(engine.pool().state().idle == 1);
}

TEST_CASE("poison rows are set aside by whichever pass meets them") {
  const Database database;
  auto db = database.connect();
  insert_backlog(db);
  db.execute(
      "UPDATE ff_attempt SET worker_id = 'poison' WHERE (partition_key, execution_id) IN"
      " (SELECT partition_key, min(execution_id::text)::uuid FROM ff_attempt WHERE partition_key % 10 = 0"
      " GROUP BY partition_key)");
  add_trigger(db, "OLD.worker_id = 'poison'", "RAISE EXCEPTION 'spoiled';");
  EngineFixture engine(database, "attempt_timeout", kShared);
  const TickReport first = engine->tick();
  CHECK(first.processed == kEach * kPartitions - 6);
  CHECK(first.error_count() == 6);
  CHECK(first.quarantined == 6);
  const TickReport second = engine->tick();
  CHECK(second.skipped == std::map<Skip, std::int64_t>{{Skip::quarantined, 6}});
  CHECK(second.error_count() == 0);
}

TEST_CASE("a pass whose session is killed fails the tick, not what the others did") {
  const Database database;
  auto db = database.connect();
  insert_backlog(db);
  add_trigger(db, "OLD.partition_key = 59", "PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(30);");
  EngineFixture engine(database, "attempt_timeout", kShared);
  const TickReport report = engine->tick();
  REQUIRE(report.failure);
  CHECK(report.failure->connection_lost());
  CHECK(report.processed > 0);
  CHECK(report.processed < kEach * kPartitions);
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event") == report.processed);
  db.execute_script("DROP TRIGGER stumble ON ff_attempt");
  CHECK(engine->tick().processed == kEach * kPartitions - report.processed);
}

TEST_CASE("a tick that gets no connection to spare does all by itself") {
  const Database database;
  auto db = database.connect();
  insert_backlog(db);
  EngineFixture engine(database, "attempt_timeout", kShared);
  const auto one = engine.pool().acquire();
  const auto two = engine.pool().acquire();
  const auto three = engine.pool().acquire();
  const TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.error_count() == 0);
  CHECK(report.processed == kEach * kPartitions);
}

TEST_CASE("a tick that is stopped stops its further workers, too") {
  const Database database;
  auto db = database.connect();
  insert_backlog(db);
  std::stop_source stop;
  stop.request_stop();
  EngineFixture engine(database, "attempt_timeout", kShared);
  const TickReport report = engine->tick({.stop = stop.get_token()});
  CHECK(report.more);
  CHECK(report.processed == 0);
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event") == 0);
}

TEST_CASE("two ticks with help over the same rows neither wait for each other nor repeat a row") {
  const Database database;
  auto db = database.connect();
  insert_backlog(db);
  {
    EngineFixture one(database, "attempt_timeout", kShared);
    EngineFixture two(database, "attempt_timeout", kShared);
    TickReport other;
    std::thread beside([&] { other = two->tick(); });
    const TickReport report = one->tick();
    beside.join();
    CHECK_FALSE(report.failure);
    CHECK_FALSE(other.failure);
    CHECK(report.processed + other.processed + one->tick().processed == kEach * kPartitions);
  }
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event") == kEach * kPartitions);
  CHECK(deadlocks(db) == 0);
}
