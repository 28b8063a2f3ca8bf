// What a scan has seen coming is taken at its moment, without another scan.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Skip;
using reconcile::TickOptions;
using reconcile::TickReport;

namespace {

const TickOptions kScan{.scan_ahead = Milliseconds{60'000}};
const TickOptions kForeseen{.scan = false};

/// Lapsing leases, and a database whose clock the test moves together with the engine's.
struct Stage : StillStage {
  Stage() : StillStage(*reconcile::find_reconciler("attempt_timeout")) {}

  Uuid add(std::int64_t lapses_at, PartitionKey partition = {3}) {
    return insert_lapsed(db, {.partition = partition}, {.lease_expires_at_ms = lapses_at});
  }
  std::int64_t leases() {
    return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL");
  }
};

}  // namespace

TEST_CASE("rows that were seen coming are taken in their milliseconds, and by nobody sooner") {
  Stage t;
  t.add(kNow + 50, {1});
  t.add(kNow + 50, {2});
  t.add(kNow + 70, {3});
  EngineFixture engine(t.database, "attempt_timeout");
  CHECK(engine->tick(kForeseen).processed == 0);  // nothing was seen yet
  const TickReport scan = engine->tick(kScan);
  CHECK(scan.complete);
  CHECK(scan.next_due == unix_millis(kNow + 51));
  CHECK(engine->tick(kForeseen).scanned == 0);
  t.advance(engine, 50ms);
  CHECK(engine->tick(kForeseen).scanned == 0);  // strictly before now is lapsed
  t.advance(engine, 1ms);
  const TickReport report = engine->tick(kForeseen);
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 2);
  CHECK(report.next_due == unix_millis(kNow + 71));
  CHECK_FALSE(report.complete);
  CHECK(report.database_time == unix_millis(kNow + 51));
  CHECK(report.lateness == reconcile::Lateness{Milliseconds{1}, Milliseconds{1}});
  t.advance(engine, 100ms);
  CHECK(engine->tick(kForeseen).processed == 1);
  CHECK_FALSE(engine->tick(kForeseen).next_due);
  CHECK(t.leases() == 0);
}

TEST_CASE("a tick that takes only what was seen asks the database for nothing while nothing is due") {
  Stage t;
  t.add(kNow + 50);
  EngineFixture engine(t.database, "attempt_timeout");
  engine->tick(kScan);
  const auto busy = engine.pool().acquire();  // the only connection
  const TickReport report = engine->tick(kForeseen);
  CHECK_FALSE(report.failure);
  CHECK(report.next_due == unix_millis(kNow + 51));
}

TEST_CASE("a lease that was renewed since it was seen is left to its worker") {
  Stage t;
  t.add(kNow + 50);
  EngineFixture engine(t.database, "attempt_timeout");
  engine->tick(kScan);
  t.advance(engine, 60ms);
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $1", pg::Params::of(kNow + 30'000));
  const auto before = snapshot(t.db);
  CHECK(engine->tick(kForeseen).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("a row that is held when its moment has come is found again by the next scan") {
  Stage t;
  t.add(kNow + 50);
  EngineFixture engine(t.database, "attempt_timeout");
  engine->tick(kScan);
  t.advance(engine, 60ms);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_attempt FOR UPDATE");
  CHECK(engine->tick(kForeseen).skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  holding.rollback();
  CHECK(engine->tick(kForeseen).scanned == 0);
  CHECK(engine->tick(kScan).processed == 1);
}

TEST_CASE("a scan tells how far ahead it has seen everything") {
  Stage t;
  EngineFixture engine(t.database, "attempt_timeout");
  CHECK(engine->tick(kScan).known_until == unix_millis(kNow + 60'000));
  // Of one partition it shows the first few rows only.
  for (int i = 1; i <= 6; ++i) t.add(kNow + i * 10);
  t.add(kNow + 15, {4});
  CHECK(engine->tick(kScan).known_until == unix_millis(kNow + 41));
  t.advance(engine, 42ms);
  CHECK(engine->tick(kForeseen).processed == 5);
  CHECK(engine->tick(kScan).known_until == unix_millis(kNow + 42 + 60'000));
}

TEST_CASE("other rows are foreseen as soon as the scope is another") {
  Stage t;
  t.add(kNow + 50, {3});
  EngineFixture engine(t.database, "attempt_timeout");
  engine->tick(kScan);
  reconcile::Scope scope = engine->scope();
  scope.partitions = {{4}};
  engine->set_scope(scope);
  t.advance(engine, 60ms);
  CHECK(engine->tick(kForeseen).scanned == 0);
  CHECK(t.leases() == 1);
}

TEST_CASE("rows in more partitions than one statement names are taken together") {
  Stage t;
  for (std::int16_t partition = 0; partition < 110; ++partition) t.add(kNow + 50, {partition});
  EngineFixture engine(t.database, "attempt_timeout", {.partitions = partition_range({0}, {109})});
  const bool few = GENERATE(true, false);
  if (few) t.db.execute_script("DELETE FROM ff_attempt WHERE partition_key >= 20");
  engine->tick(kScan);
  t.advance(engine, 60ms);
  const TickReport report = engine->tick(kForeseen);
  CHECK(report.processed == (few ? 20 : 110));
  CHECK(report.scanned == report.processed);
  CHECK(t.leases() == 0);
}
