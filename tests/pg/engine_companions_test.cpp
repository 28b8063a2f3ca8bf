// A reconciler with companions is one to whoever runs it: further pairs for rows to which another index leads.
#include <algorithm>
#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;
using reconcile::TickOptions;
using reconcile::TickReport;

namespace {

/// Deletes waitpoints whose time has come, one by one, as `walked`; walks through their table in tens.
Reconciler walker(Reconciler pair) {
  pair.outcomes = {"walked"};
  pair.key = {{"waitpoint_id", "uuid"}};
  pair.walk = {{"ff_waitpoint_pending", "waitpoint_id", 10}};
  pair.scan = R"sql(
    SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.expires_at_ms AS due_at_ms
      FROM {schema}.ff_waitpoint_pending w
     WHERE {in_partitions:w} AND w.expires_at_ms IS NOT NULL
       AND {in_slice:w}
       AND ({namespace} IS NULL OR w.waitpoint_key = {namespace}) AND ({tag_key} IS NULL OR {tag_value} IS NULL))sql";
  pair.act = R"sql(
    gone AS (
      DELETE FROM {schema}.ff_waitpoint_pending w
       USING clock, key
       WHERE {in_partitions:w} AND w.partition_key = key.partition_key AND w.waitpoint_id = key.waitpoint_id
         AND w.expires_at_ms <= clock.due_ms
         AND ({namespace} IS NULL OR w.waitpoint_key = {namespace}) AND ({tag_key} IS NULL OR {tag_value} IS NULL)
         AND {in_slice:w}
      RETURNING w.partition_key, w.waitpoint_id, w.expires_at_ms AS due_at_ms),
    moved AS (SELECT *, 'walked' AS outcome FROM gone))sql";
  return pair;
}

/// The same of waitpoints that are called `named`, without a walk.
Reconciler shortcut(const Reconciler& pair) {
  static const std::string scan = [&] {
    const std::string its = std::string(walker(pair).scan);
    const std::string slice = "AND {in_slice:w}";
    return std::string(its).replace(its.find(slice), slice.size(), "AND w.waitpoint_key = 'named'");
  }();
  static const std::string act = [&] {
    const std::string its = std::string(walker(pair).act);
    const std::string slice = "AND {in_slice:w}";
    return std::string(its).replace(its.find(slice), slice.size(), "");
  }();
  Reconciler made = walker(pair);
  made.walk = {};
  made.scan = scan;
  made.act = act;
  made.is_shortcut = true;
  return made;
}

/// Takes the deadline of executions away when it has come, as `undated`.
const Reconciler& undater() {
  static const Reconciler made = [] {
    Reconciler pair{.name = "undater",
                    .summary = "Takes deadlines and waitpoints away.",
                    .outcomes = {"undated"},
                    .key = {{"execution_id", "uuid"}},
                    .execution_column = "execution_id",
                    .scan = R"sql(
      SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
        FROM {schema}.ff_exec_core c
       WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL
         AND ({namespace} IS NULL OR c.lane_id = {namespace}) AND ({tag_key} IS NULL OR {tag_value} IS NULL))sql",
                    .act = R"sql(
      undated AS (
        UPDATE {schema}.ff_exec_core c
           SET deadline_at_ms = NULL, cancellation_reason = c.deadline_at_ms::text
          FROM clock, key
         WHERE {in_partitions:c} AND c.partition_key = key.partition_key
           AND c.execution_id = key.execution_id AND c.deadline_at_ms <= clock.due_ms
           AND ({namespace} IS NULL OR c.lane_id = {namespace}) AND ({tag_key} IS NULL OR {tag_value} IS NULL)
        RETURNING c.partition_key, c.execution_id, c.cancellation_reason::bigint AS due_at_ms),
      moved AS (SELECT *, 'undated' AS outcome FROM undated))sql",
                    .interval = Milliseconds{1000}};
    pair.companions = {walker(pair), shortcut(pair)};
    return pair;
  }();
  return made;
}

struct Stage {
  Uuid add_execution(std::int64_t due_ago_ms, PartitionKey partition = {3}) {
    return insert_core(db, {.partition = partition, .deadline_at_ms = now_ms(db) - due_ago_ms});
  }
  Uuid add_waitpoint(std::int64_t due_ago_ms, PartitionKey partition = {3}, const Uuid& of = new_uuid()) {
    return insert_waitpoint(
        db, {.partition = partition, .execution = of, .expires_at_ms = now_ms(db) - due_ago_ms});
  }
  void poison(const char* table) {
    db.execute_script(
        "CREATE OR REPLACE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'spoiled'; END $$; CREATE TRIGGER poison BEFORE UPDATE OR DELETE ON " +
        std::string(table) + " FOR EACH ROW EXECUTE FUNCTION poison()");
  }
  std::int64_t waitpoints() { return number(db, "SELECT count(*) FROM {schema}.ff_waitpoint_pending"); }

  Database database;
  pg::Connection db = database.connect();
  EngineFixture engine{database, undater()};
};

}  // namespace

TEST_CASE("a companion that fails takes nothing from those behind it") {
  Stage t;
  Reconciler pair = undater();
  Reconciler broken = pair.companions.front();
  broken.scan = R"sql(
    SELECT w.partition_key, w.waitpoint_id, w.execution_id, w.expires_at_ms / 0 AS due_at_ms
      FROM {schema}.ff_waitpoint_pending w
     WHERE {in_partitions:w} AND {in_slice:w} AND ({namespace} IS NULL OR {tag_key} IS NULL OR {tag_value} IS NULL))sql";
  pair.companions.insert(pair.companions.begin(), broken);
  EngineFixture engine(t.database, pair);
  t.add_waitpoint(9'000);
  const TickReport report = engine->tick();
  REQUIRE(report.failure);
  CHECK(report.failure->sqlstate() == "22012");
  CHECK(outcomes(report) == "walked=1");
}

TEST_CASE("a tick runs a reconciler and its companions, and reports all of them together") {
  Stage t;
  t.add_execution(5'000);
  t.add_waitpoint(9'000);
  t.add_waitpoint(8'000);
  t.add_waitpoint(-30'000);
  const TickReport report =
      t.engine->tick({.companions_scan_ahead = Milliseconds{60'000}, .list_moves = true});
  CHECK_FALSE(report.failure);
  CHECK(report.scanned == 3);
  CHECK(report.processed == 3);
  CHECK(outcomes(report) == "undated=1 walked=2");
  REQUIRE(report.moves.size() == 3);
  CHECK(report.moves[0].pair->key[0].name == "waitpoint_id");
  CHECK(report.moves[2].pair->key[0].name == "execution_id");
  CHECK(report.next_due);
  CHECK(t.engine->tick().scanned == 0);
}

TEST_CASE("a companion that is not to look takes only what it has seen coming") {
  Stage t;
  const TickOptions first_only{.companions_scan = false};
  t.add_waitpoint(5'000);
  CHECK(t.engine->tick(first_only).scanned == 0);
  t.add_waitpoint(-200);
  CHECK(t.engine->tick({.scan = false, .companions_scan_ahead = Milliseconds{60'000}}).processed == 1);
  CHECK(t.engine->tick(first_only).processed == 0);
  t.engine.clock().advance(Milliseconds{400});
  t.db.execute_script("SELECT pg_sleep(0.3)");
  CHECK(t.engine->tick(first_only).processed == 1);
}

TEST_CASE("what a companion would do is listed by a dry run and counted by a backlog") {
  Stage t;
  t.add_execution(5'000);
  t.add_waitpoint(9'000, {1});
  t.add_waitpoint(-60'000, {2});
  const auto before = snapshot(t.db);
  CHECK(t.engine->tick({.dry_run = true, .list_moves = true}).moves.size() == 2);
  const auto backlog = t.engine->backlog(10);
  CHECK(diff(before, snapshot(t.db)).empty());
  CHECK(backlog.due == 2);
  REQUIRE(backlog.oldest_due);
  CHECK(backlog.database_time - *backlog.oldest_due >= Milliseconds{9'000});
  REQUIRE(backlog.next_due);
  CHECK(*backlog.next_due > backlog.database_time + Milliseconds{50'000});
}

TEST_CASE("an execution that is named is taken by a reconciler and by its companions") {
  Stage t;
  const Uuid execution = t.add_execution(5'000);
  t.add_waitpoint(5'000, {3}, execution);
  t.add_waitpoint(-60'000, {3}, execution);
  t.add_execution(5'000);
  t.add_waitpoint(5'000);
  const TickReport report = t.engine->tick_one({{3}, execution});
  CHECK(outcomes(report) == "undated=1 walked=1");
  CHECK(report.skipped.empty());  // beside what is due, nothing is said of what is not
}

TEST_CASE("the quarantined rows of all pairs are counted") {
  Stage t;
  t.poison("ff_exec_core");
  t.poison("ff_waitpoint_pending");
  t.add_execution(5'000);
  t.add_waitpoint(5'000);
  t.add_waitpoint(5'000);
  CHECK(t.engine->tick().quarantined == 3);
  CHECK(t.engine->tick({.scan = false, .companions_scan = false}).quarantined == 3);
}

TEST_CASE("filter and batch size hold for companions, too") {
  Stage t;
  for (int i = 0; i < 5; ++i) t.add_waitpoint(5'000);
  t.db.execute_script(
      "UPDATE {schema}.ff_waitpoint_pending SET waitpoint_key = 'a' WHERE waitpoint_id IN"
      " (SELECT waitpoint_id FROM {schema}.ff_waitpoint_pending LIMIT 2)");
  EngineFixture filtered(t.database, undater(), {.filter = for_namespace("a"), .batch_size = 1});
  CHECK(filtered->tick().processed == 2);
  CHECK(number(t.db, "SELECT count(DISTINCT xmin::text) FROM {schema}.ff_waitpoint_pending") <= 3);
  reconcile::Scope scope = t.engine->scope();
  scope.filter = for_namespace("b");
  t.engine->set_scope(scope);
  CHECK(t.engine->tick().scanned == 0);
}

TEST_CASE(
    "slice by slice a table is walked through, past the rows that stay, and then from its beginning again") {
  Stage t;
  for (int i = 0; i < 35; ++i)
    t.add_waitpoint(i % 2 == 0 ? 5'000 : -600'000, {static_cast<std::int16_t>(i % 4)});
  const auto slice = [&] { return t.engine->tick({.in_slices = true}).processed; };
  std::vector<std::int64_t> seen;
  for (int i = 0; i < 4; ++i) seen.push_back(slice());
  // Each slice is of ten rows at its time; eighteen rows are due.
  CHECK(seen[0] + seen[1] + seen[2] + seen[3] == 18);
  CHECK(std::ranges::all_of(seen, [](std::int64_t moved) { return moved <= 10; }));
  CHECK(t.waitpoints() == 17);
  t.add_waitpoint(5'000, {15});
  CHECK(slice() == 0);  // the first ten
  CHECK(slice() == 1);  // those behind
}

TEST_CASE("a walk goes on at once while a tenth of what it reads is due") {
  Stage t;
  for (int i = 0; i < 10; ++i) t.add_waitpoint(i == 0 ? 5'000 : -600'000, {0});
  for (int i = 0; i < 10; ++i) t.add_waitpoint(-600'000, {15});
  const auto slice = [&] { return t.engine->tick({.in_slices = true}); };
  TickReport report = slice();
  CHECK(report.processed == 1);
  CHECK(report.more);
  report = slice();  // the other partition
  CHECK(report.processed == 0);
  CHECK_FALSE(report.more);
  CHECK_FALSE(slice().more);  // behind the last row
  t.add_waitpoint(5'000, {0});
  CHECK(slice().more);
}

TEST_CASE("a shortcut takes what a walk would come to later, and the walk takes the rest") {
  Stage t;
  for (int i = 0; i < 15; ++i) t.add_waitpoint(5'000, {1});
  const Uuid named = t.add_waitpoint(5'000, {9});
  t.db.execute("UPDATE {schema}.ff_waitpoint_pending SET waitpoint_key = 'named' WHERE waitpoint_id = $1",
               pg::Params::of(named));
  TickOptions daily{.companions_scan = false, .in_slices = true};
  CHECK(t.engine->tick(daily).scanned == 0);
  daily.shortcuts_scan = true;
  CHECK(t.engine->tick(daily).processed == 1);
  CHECK(t.waitpoints() == 15);
  CHECK(t.engine->tick(daily).scanned == 0);
  CHECK(t.engine->tick({.shortcuts_scan = true, .in_slices = true}).processed == 10);
}

TEST_CASE("where a scan shows everything, what a shortcut leads to is seen once") {
  Stage t;
  const Uuid execution = t.add_execution(-60'000);
  t.add_waitpoint(5'000, {3}, execution);
  t.db.execute_script("UPDATE {schema}.ff_waitpoint_pending SET waitpoint_key = 'named'");
  CHECK(t.engine->backlog(10).due == 1);
  CHECK(t.engine->tick({.dry_run = true}).processed == 1);
  CHECK(t.engine->tick_one({{3}, execution}, {.dry_run = true}).processed == 1);
  CHECK(t.engine->tick().processed == 1);
}

TEST_CASE("a scan that is not one of many reads all of a table at once") {
  Stage t;
  for (int i = 0; i < 35; ++i) t.add_waitpoint(5'000, {static_cast<std::int16_t>(i % 4)});
  CHECK(t.engine->tick({.in_slices = true}).processed == 10);
  CHECK(t.engine->backlog(100).due == 25);
  CHECK(t.engine->tick().processed == 25);
}

TEST_CASE("a backlog reads no more of a table that is walked through than it may count") {
  Stage t;
  for (int i = 0; i < 20; ++i) t.add_waitpoint(-600'000, {0});
  for (int i = 0; i < 15; ++i) t.add_waitpoint(5'000, {1});
  const auto first = t.engine->backlog(20);
  CHECK(first.due == 0);
  CHECK(first.capped);
  const auto all = t.engine->backlog(100);
  CHECK(all.due == 15);
  CHECK_FALSE(all.capped);
}
