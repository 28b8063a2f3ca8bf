// A pair to whose rows no index leads scans the more seldom the longer it takes.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Reconciler;
using reconcile::TickOptions;

namespace {

const TickOptions kOneOfMany{.in_slices = true};

enum class Kind { search, walk };

Reconciler slow_pair(const std::string& scan, Kind kind) {
  Reconciler pair{.name = "searcher",
                  .summary = "Takes deadlines away.",
                  .outcomes = {"undated"},
                  .key = {{"execution_id", "uuid"}},
                  .execution_column = "execution_id",
                  .scan = scan,
                  .act = R"sql(
      held AS MATERIALIZED (
        SELECT c.partition_key, c.execution_id, 1700000000000 AS due_at_ms
          FROM clock, key
          JOIN {schema}.ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
         WHERE {in_partitions:c} AND c.deadline_at_ms <= clock.due_ms AND {filter:c}
           FOR NO KEY UPDATE OF c SKIP LOCKED),
      undated AS (
        UPDATE {schema}.ff_exec_core c
           SET deadline_at_ms = NULL
          FROM held
         WHERE {in_partitions:c} AND c.partition_key = held.partition_key AND c.execution_id = held.execution_id),
      moved AS (SELECT *, 'undated' AS outcome FROM held))sql",
                  .interval = 1s};
  if (kind == Kind::walk)
    pair.walk = {{"ff_exec_core", "execution_id", 20}};
  else
    pair.searches = true;
  return pair;
}

std::string scan_that_takes(const std::string& seconds, Kind kind) {
  return R"sql(
      SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
        FROM {schema}.ff_exec_core c
       WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL AND {filter:c}
         AND (SELECT pg_sleep()sql" +
         seconds + ") IS NOT NULL)" + (kind == Kind::walk ? " AND {in_slice:c}" : "");
}

struct Stage {
  explicit Stage(const std::string& seconds, Kind kind = Kind::search)
      : scan(scan_that_takes(seconds, kind)), reconciler(slow_pair(scan, kind)) {}

  void add(int rows = 1, PartitionKey partition = {3}) {
    for (int i = 0; i < rows; ++i) insert_core(db, {.partition = partition, .deadline_at_ms = 5});
  }
  std::int64_t moved(const TickOptions& options = kOneOfMany) {
    const auto report = engine->tick(options);
    CHECK_FALSE(report.failure);
    return report.processed;
  }

  const std::string scan;
  const Reconciler reconciler;
  Database database;
  pg::Connection db = database.connect();
  ShiftedClock clock;
  EngineFixture engine{database, reconciler, {.clock = &clock}};
};

}  // namespace

TEST_CASE("after two long searches the next one waits two hundred times as long as they took") {
  Stage t("0.3");
  t.add();
  CHECK(t.moved() == 1);
  t.add();
  CHECK(t.moved() == 1);  // the first one may have planned
  t.add();
  CHECK(t.moved() == 0);
  t.clock.shift += 50s;
  CHECK(t.moved() == 0);
  CHECK(t.moved({}) == 1);  // by hand it does not wait
  t.add();
  t.clock.shift += 120s;  // longer than any rest
  CHECK(t.moved() == 1);
}

TEST_CASE("a search rests for two minutes at most, and not at all where it takes no time") {
  Stage slow("0.8");
  for (int i = 0; i < 2; ++i) CHECK(slow.moved() == 0);
  slow.add();
  slow.clock.shift += 115s;
  CHECK(slow.moved() == 0);
  slow.clock.shift += 6s;
  CHECK(slow.moved() == 1);
  Stage quick("0");
  quick.moved({});
  for (int i = 0; i < 3; ++i) {
    quick.add();
    quick.clock.shift += 121s;
    CHECK(quick.moved() == 1);
  }
}

TEST_CASE("what a search has not come to is gone on with at once, and new settings end its rest") {
  Stage t("0.3");
  for (int i = 0; i < 2; ++i) CHECK(t.moved() == 0);
  t.add();
  CHECK(t.moved() == 0);
  t.engine->set_scope(t.engine->scope());
  CHECK(t.moved() == 1);
  t.clock.shift += 120s;
  t.add(3000);
  // No time is left behind the scan, but for one batch.
  const auto first = t.engine->tick({.deadline = t.clock.now(), .in_slices = true});
  CHECK(first.more);
  CHECK(first.processed < 3000);
  CHECK(first.processed + t.moved() == 3000);
}

TEST_CASE("a search does not rest past what it has shown, nor where a row that it knew was locked") {
  Stage t("0.3");
  const auto now = number(t.db, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint");
  for (int i = 0; i < 70; ++i) insert_core(t.db, {.partition = {3}, .deadline_at_ms = now + 15'000});
  for (int i = 0; i < 2; ++i) CHECK(t.moved() == 0);
  t.add();
  CHECK(t.moved() == 0);
  t.clock.shift += 15s;  // in the middle of its rest
  CHECK(t.moved() == 1);
  t.db.execute_script("DELETE FROM {schema}.ff_exec_core");
  for (int i = 0; i < 2; ++i) CHECK(t.moved() == 0);
  t.clock.shift += 120s;
  t.add();
  {
    auto other = t.database.connect();
    pg::Transaction transaction(other);
    transaction.execute("SELECT FROM {schema}.ff_exec_core FOR UPDATE");
    const auto report = t.engine->tick(kOneOfMany);
    CHECK(report.skipped == std::map<reconcile::Skip, std::int64_t>{{reconcile::Skip::locked, 1}});
  }
  t.clock.shift += 1s;
  CHECK(t.moved() == 1);
}

TEST_CASE("a walk rests as a search does, but not behind the end of the table") {
  Stage t("0.3", Kind::walk);
  const auto all_due = [&] { t.db.execute_script("UPDATE {schema}.ff_exec_core SET deadline_at_ms = 5"); };
  t.add(45);
  // While a tenth of what it reads is due it goes on at once.
  for (const std::int64_t slice : {20, 20, 5}) CHECK(t.moved() == slice);
  CHECK(t.moved() == 0);
  all_due();
  const auto resting = t.engine->tick(kOneOfMany);
  CHECK(resting.processed == 0);
  CHECK_FALSE(resting.known_until);  // or it would be asked again and again
  t.clock.shift += 120s;
  for (const std::int64_t slice : {20, 5, 20}) CHECK(t.moved() == slice);
}

TEST_CASE("a walk that has moved something rests no longer than its interval") {
  Stage t("0.3", Kind::walk);
  t.add(45);
  for (const std::int64_t slice : {20, 20, 5}) CHECK(t.moved() == slice);
  t.db.execute_script(
      "UPDATE {schema}.ff_exec_core SET deadline_at_ms = 5 WHERE execution_id IN"
      " (SELECT execution_id FROM {schema}.ff_exec_core ORDER BY partition_key, execution_id LIMIT 1)");
  CHECK(t.moved() == 1);
  t.db.execute_script("UPDATE {schema}.ff_exec_core SET deadline_at_ms = 5");
  CHECK(t.moved() == 0);
  t.clock.shift += 1s;
  CHECK(t.moved() == 20);
}

TEST_CASE("a search shows far more rows to come than it finds due at once, partition by partition") {
  Stage t("0");
  const auto now = number(t.db, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint");
  for (int i = 0; i < 50; ++i) insert_core(t.db, {.partition = {3}, .deadline_at_ms = now + 90'000 + i});
  t.add(3, {3});
  t.add(10, {4});
  CHECK(t.moved() == 13);
  t.clock.shift += 90s;
  t.db.execute_script("UPDATE {schema}.ff_exec_core SET deadline_at_ms = 5 WHERE deadline_at_ms IS NOT NULL");
  t.clock.shift += 1s;
  CHECK(t.moved({.scan = false, .in_slices = true}) == 50);
}
