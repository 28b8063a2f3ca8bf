// Rows that workers hold in turns, one always waiting for the one before: SKIP LOCKED never finds them free.
#include <catch2/catch.hpp>

#include <functional>
#include <thread>
#include <vector>

#include "pg/quota_stage.hpp"
#include "pg/transaction.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

struct Stage : QuotaStage {
  void budget(const std::string& id) {
    insert(db, "ff_budget_policy",
           {{"partition_key", 3},
            {"budget_id", id},
            {"policy_json", {{"reset_interval_ms", 60'000}}},
            {"created_at_ms", 1},
            {"updated_at_ms", 1},
            {"next_reset_at_ms", now - 1'000}});
    insert(db, "ff_budget_usage",
           {{"partition_key", 3},
            {"budget_id", id},
            {"dimensions_key", "tokens"},
            {"current_value", 100},
            {"updated_at_ms", 1}});
  }
  std::int64_t spent(const std::string& id) {
    return number(db, "SELECT current_value FROM ff_budget_usage WHERE budget_id = $1", pg::Params::of(id));
  }
};

/// A worker that holds rows.
struct Holder {
  Holder(const Database& database, const std::string& rows)
      : connection(database.connect()), transaction(connection) {
    transaction.execute("SELECT FROM " + rows + " FOR NO KEY UPDATE");
    pid = transaction.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  }
  pg::Connection connection;
  pg::Transaction transaction;
  int pid = 0;
};

/// While `work` is under way: waits until somebody waits for the holder, and then lets go of what it holds.
void let_go_when_waited_for(pg::Connection& db, Holder& holder, const std::function<void()>& work) {
  std::jthread working(work);
  const bool waited = wait_until([&] {
    return number(db,
                  "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))"
                  " AND query LIKE '/* ff-reconcilerd % wait */%'",
                  pg::Params::of(holder.pid)) > 0;
  });
  holder.transaction.rollback();
  working.join();
  CHECK(waited);
}

}  // namespace

TEST_CASE("a budget that workers spend from one after the other is reset behind the one that has it") {
  Stage t;
  t.budget("busy");
  Holder worker(t.database, "ff_budget_policy");
  EngineFixture engine(t.database, "budget_reset");
  TickReport report;
  let_go_when_waited_for(t.db, worker, [&] { report = engine->tick(); });
  CHECK(outcomes(report) == "reset=1");
  CHECK(report.skipped.empty());
  CHECK(t.spent("busy") == 0);
}

TEST_CASE("a quota that is asked one admission after the other is corrected behind the one that has it") {
  Stage t;
  t.policy("busy", 5);
  Holder worker(t.database, "ff_quota_policy");
  EngineFixture engine(t.database, "quota_concurrency");
  TickReport report;
  let_go_when_waited_for(t.db, worker, [&] { report = engine->tick(); });
  CHECK(outcomes(report) == "corrected=1");
  CHECK(report.skipped.empty());
  CHECK(t.active("busy") == 0);
}

TEST_CASE("a busy budget has its turn also where all that went before has taken longer than a tick may") {
  Stage t;
  t.budget("busy");
  Holder worker(t.database, "ff_budget_policy");
  EngineFixture engine(t.database, "budget_reset");
  auto options = stepping_in([&] { engine.clock().advance(Milliseconds{2'000}); });
  options.deadline = engine.clock().now() + Milliseconds{1'000};
  TickReport report;
  let_go_when_waited_for(t.db, worker, [&] { report = engine->tick(options); });
  CHECK(outcomes(report) == "reset=1");
}

TEST_CASE("who sleeps on a row is waited for once a tick, and does not keep others from their turn") {
  Stage t;
  for (const char* id : {"a", "b", "c"}) t.budget(id);
  Holder sleeper(t.database, "ff_budget_policy WHERE budget_id = 'a'");
  Holder worker(t.database, "ff_budget_policy WHERE budget_id = 'b'");
  EngineFixture engine(t.database, "budget_reset");
  const std::map<Skip, std::int64_t> both{{Skip::locked, 2}};
  const TickReport first = engine->tick();
  CHECK_FALSE(first.failure);
  CHECK(outcomes(first) == "reset=1");
  CHECK(first.skipped == both);
  TickReport second;
  let_go_when_waited_for(t.db, worker, [&] { second = engine->tick(); });
  CHECK(outcomes(second) == "reset=1");
  CHECK(second.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK_FALSE(second.more);
  CHECK(t.spent("a") == 100);
  CHECK(t.spent("b") == 0);
}

TEST_CASE("a busy budget of which each that holds it changes the row has its turn behind all of them") {
  Stage t;
  t.budget("busy");
  // One after the other, each of them waiting already when the one before lets go.
  Holder first(t.database, "ff_budget_policy");
  first.transaction.execute("UPDATE ff_budget_policy SET last_breach_at_ms = 1");
  std::vector<pg::Connection> waiting;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) waiting.push_back(t.database.connect());
  for (pg::Connection& each : waiting)
    threads.emplace_back(
        [&each] { each.execute("UPDATE ff_budget_policy SET last_breach_at_ms = last_breach_at_ms + 1"); });
  REQUIRE(wait_until([&] {
    return number(t.db,
                  "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
                  "current_database()") == 3;
  }));
  EngineFixture engine(t.database, "budget_reset");
  TickReport report;
  std::jthread working([&] { report = engine->tick(); });
  REQUIRE(wait_until([&] {
    return number(t.db,
                  "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
                  "current_database()") == 4;
  }));
  first.transaction.commit();
  for (std::jthread& each : threads) each.join();
  working.join();
  CHECK(outcomes(report) == "reset=1");
  CHECK(report.skipped.empty());
}

TEST_CASE("a row that another has moved while it was waited for is no longer due") {
  Stage t;
  t.budget("busy");
  Holder worker(t.database, "ff_budget_policy");
  worker.transaction.execute("UPDATE ff_budget_policy SET next_reset_at_ms = NULL");
  EngineFixture engine(t.database, "budget_reset");
  TickReport report;
  std::jthread working([&] { report = engine->tick(); });
  CHECK(wait_until([&] {
    return number(t.db, "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))",
                  pg::Params::of(worker.pid)) > 0;
  }));
  worker.transaction.commit();
  working.join();
  CHECK(report.processed == 0);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(t.spent("busy") == 100);
}
