// A pair that locks in a statement of its own: what its act sees then is what stands while it holds the locks.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/engine.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

/// Writes into an execution whose deadline has come how many waitpoints it has, as its priority. Who adds one holds the
/// execution, and leaves it as it is.
const Reconciler& counter() {
  static const Reconciler made{.name = "counter",
                               .summary = "Counts waitpoints.",
                               .outcomes = {"counted"},
                               .key = {{"execution_id", "uuid"}},
                               .execution_column = "execution_id",
                               .scan = R"sql(
  SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
    FROM {schema}.ff_exec_core c
   WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL)sql",
                               .act = R"sql(
counted AS (
  UPDATE {schema}.ff_exec_core c
     SET deadline_at_ms = NULL,
         priority = (SELECT count(*) FROM {schema}.ff_waitpoint_pending w
                      WHERE {in_partitions:w} AND w.partition_key = c.partition_key
                        AND w.execution_id = c.execution_id)
    FROM clock, key
   WHERE {in_partitions:c} AND c.partition_key = key.partition_key AND c.execution_id = key.execution_id
  RETURNING c.partition_key, c.execution_id, clock.now_ms AS due_at_ms
),
moved AS (SELECT *, 'counted' AS outcome FROM counted))sql",
                               .lock = R"sql(
locked AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
   WHERE {in_partitions:c} AND c.deadline_at_ms <= clock.due_ms
     FOR NO KEY UPDATE OF c SKIP LOCKED
))sql",
                               .interval = Milliseconds{1000}};
  return made;
}

struct Stage {
  Uuid add(std::int64_t due_ago_ms = 5'000) {
    return insert_core(db, {.partition = {3}, .priority = -1, .deadline_at_ms = now_ms(db) - due_ago_ms});
  }
  std::int64_t counted(const Uuid& id) { return core(db, id)["priority"].get<std::int64_t>(); }
  void hold(pg::Transaction& transaction, const Uuid& id) {
    transaction.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  }

  Database database;
  pg::Connection db = database.connect();
  EngineFixture engine{database, counter()};
};

}  // namespace

TEST_CASE("an act behind a lock of its own sees what was committed before the lock") {
  Stage t;
  const Uuid id = t.add();
  TickReport report;
  const auto tick = [&] { report = t.engine->tick(); };
  StalledAct lock(t.database, tick, "locked");
  {
    auto other = t.database.connect();
    pg::Transaction transaction(other);
    t.hold(transaction, id);
    insert_waitpoint(other, {.partition = {3}, .execution = id});
    transaction.commit();
  }
  lock.finish();
  CHECK(report.processed == 1);
  CHECK(t.counted(id) == 1);
}

TEST_CASE("a row that could not be locked first is not moved, though it is free when the others are") {
  Stage t;
  const Uuid held = t.add(9'000);
  const Uuid free = t.add();
  const Uuid later = t.add(-60'000);
  auto other = t.database.connect();
  pg::Transaction transaction(other);
  t.hold(transaction, held);
  TickReport report;
  StalledAct act(t.database, [&] { report = t.engine->tick(); });
  transaction.commit();
  act.finish();
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.counted(free) == 0);
  CHECK(t.counted(held) == -1);
  CHECK(t.counted(later) == -1);
  CHECK(t.engine->tick().processed == 1);
  CHECK(t.counted(held) == 0);
}

TEST_CASE("where no row can be locked first, no act is sent, and each is counted by its reason") {
  Stage t;
  const Uuid held = t.add(9'000);
  const Uuid gone = t.add();
  auto other = t.database.connect();
  pg::Transaction transaction(other);
  t.hold(transaction, held);
  const TickReport report = t.engine->tick(stepping_in([&] {
    t.db.execute("UPDATE ff_exec_core SET deadline_at_ms = NULL WHERE execution_id = $1",
                 pg::Params::of(gone));
  }));
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 0);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}, {Skip::no_longer_due, 1}});
}

TEST_CASE("a dry run locks first as well, and leaves nothing behind") {
  Stage t;
  t.add();
  const auto before = snapshot(t.db);
  CHECK(t.engine->tick({.dry_run = true, .list_moves = true}).moves.size() == 1);
  CHECK(diff(before, snapshot(t.db)).empty());
}
