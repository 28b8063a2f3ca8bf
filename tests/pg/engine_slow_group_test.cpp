// Partitions that cannot be read in time hold up no others.
#include <catch2/catch.hpp>

#include "reconcile/hold.hpp"
#include "support/engine.hpp"
#include "support/undating.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Reconciler;
using reconcile::TickReport;

namespace {

/// What has a deadline; a row of the lane "slow" cannot be looked at within any statement_timeout of this file.
constexpr std::string_view kScan = R"sql(
      SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
        FROM {schema}.ff_exec_core c
       WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL AND {filter:c}
         AND pg_sleep(CASE c.lane_id WHEN 'slow' THEN 5 ELSE 0 END)::text IS NOT NULL)sql";

const Partitions& some_partitions() {
  static const Partitions some = partition_range({0}, {63});
  return some;
}

struct Stage {
  Stage() {
    for (const PartitionKey each : some_partitions())
      insert_core(db, {.partition = each, .lane = each.value == 40 ? "slow" : "a", .deadline_at_ms = 5});
  }
  std::int64_t left() {
    return number(db, "SELECT count(*) FROM ff_exec_core WHERE deadline_at_ms IS NOT NULL");
  }

  const Database database;
  pg::Connection db = database.connect();
  Reconciler pair = undating(kScan);
};

EngineOptions impatient() {
  return {.partitions = some_partitions(), .statement_timeout = 300ms};
}

}  // namespace

TEST_CASE("a group of partitions that takes too long is the failure of a scan, and the others are moved") {
  Stage t;
  EngineFixture engine(t.database, t.pair, impatient());
  // The slow one may be the first that is asked for.
  TickReport report = engine->tick({.in_slices = true});
  if (report.processed == 0) report = engine->tick({.in_slices = true});
  REQUIRE(report.failure);
  CHECK(report.failure->sqlstate() == "57014");
  CHECK(report.processed == 48);
  CHECK(t.left() == 16);
  CHECK_FALSE(report.complete);
  CHECK(report.known_until < unix_millis(1000));
}

TEST_CASE(
    "a group of partitions that took too long is tried again after a while only, and moved when it can be") {
  Stage t;
  EngineFixture engine(t.database, t.pair, impatient());
  for (int i = 0; i < 2; ++i) engine->tick({.in_slices = true});
  REQUIRE(t.left() == 16);
  t.db.execute("UPDATE ff_exec_core SET lane_id = 'a'");
  insert_core(t.db, {.partition = {1}, .lane = "a", .deadline_at_ms = 5});
  const TickReport meanwhile = engine->tick({.in_slices = true});
  CHECK(meanwhile.processed == 1);
  CHECK(meanwhile.failure);
  engine.clock().advance(61s);
  const TickReport then = engine->tick({.in_slices = true});
  CHECK_FALSE(then.failure);
  CHECK(then.complete);
  CHECK(t.left() == 0);
}

TEST_CASE("while a group of partitions takes too long, hold_above counts and lets go of the others") {
  Stage t;
  t.pair.settings = {reconcile::kHoldAbove};
  EngineOptions options = impatient();
  options.settings = {{"hold_above", 100}};
  EngineFixture engine(t.database, t.pair, options);
  for (int i = 0; i < 2; ++i) engine->tick({.in_slices = true});
  CHECK(t.left() == 16);
}

TEST_CASE("a scan of some groups at a time goes on behind those that take too long") {
  Stage t;
  t.pair.groups_a_scan = 1;
  EngineFixture engine(t.database, t.pair, impatient());
  for (int i = 0; i < 5; ++i) engine->tick({.in_slices = true});
  CHECK(t.left() == 16);
}
