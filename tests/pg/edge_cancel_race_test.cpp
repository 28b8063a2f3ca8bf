// The sibling-cancel pair beside others that hold what it needs, and replicas of its own.
#include <catch2/catch.hpp>
#include <limits>
#include <thread>

#include "demo/simulation/worker.hpp"
#include "pg/edge_cancel_groups.hpp"
#include "pg/transaction.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

reconcile::RowKey key_of(const FanIn& f) {
  return {f.partition, {to_string(f.flow), to_string(f.downstream)}};
}

const reconcile::Reconciler& dispatcher() {
  return *reconcile::find_reconciler("edge_cancel_dispatcher");
}

void make_claimable(pg::Connection& db, const Uuid& execution) {
  db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now' WHERE "
      "execution_id = $1",
      pg::Params::of(execution));
}

}  // namespace

TEST_CASE("edge_cancel_dispatcher leaves a whole group for later while a row of it or of a sibling is held") {
  const auto held =
      GENERATE("ff_edge_group WHERE downstream_eid = $2", "ff_exec_core WHERE execution_id = $1",
               "ff_attempt WHERE execution_id = $1", "ff_suspension_current WHERE execution_id = $1",
               "ff_waitpoint_pending WHERE execution_id = $1");
  CAPTURE(held);
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const FanIn f = insert_listed(db, 3);
  for (const Uuid& sibling : f.upstreams) {
    insert_attempt(db, {.partition = {3}, .execution = sibling, .lease_expires_at_ms = 9'900'000'000'000});
    insert_suspension(db, {.partition = {3}, .execution = sibling});
    insert_waitpoint(db, {.partition = {3}, .execution = sibling});
  }
  const auto before = snapshot(db);
  EngineFixture engine(database, "edge_cancel_dispatcher");
  pg::Transaction holding(other);
  const std::string rows =
      "SELECT FROM " + std::string(held) + " AND $1 IS NOT NULL AND $2 IS NOT NULL FOR UPDATE";
  REQUIRE(holding.execute(rows, pg::Params::of(f.upstreams[1], f.downstream)).size() == 1);
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "skipped_locked=1");
  CHECK(report.processed == 0);
  CHECK(diff(before, snapshot(db)).empty());
  holding.rollback();
  CHECK(outcomes(engine->tick()) == "dispatched=1");
  CHECK(completion_events(db).size() == 3);
  CHECK(lease_events(db).size() == 3);
}

TEST_CASE("edge_cancel_dispatcher and edge_cancel_reconciler pass by a pending row that somebody holds") {
  const auto name = GENERATE("edge_cancel_dispatcher", "edge_cancel_reconciler");
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  insert_listed(db, 0);
  EngineFixture engine(database, name);
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_pending_cancel_groups FOR UPDATE");
  const TickReport report = engine->tick();
  CHECK(report.outcomes.empty());
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  holding.rollback();
  CHECK(engine->tick().processed == 1);
  CHECK(pending(db) == 0);
}

TEST_CASE(
    "edge_cancel_dispatcher ends a sibling of two groups for the one that is free and not for the one held "
    "up") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const FanIn free = insert_listed(db, 1);
  const FanIn held_up = insert_listed(db, 2);
  db.execute(
      "UPDATE ff_edge_group SET cancel_siblings_pending_members = cancel_siblings_pending_members || $1"
      " WHERE downstream_eid = $2",
      pg::Params::of(std::vector<std::string>{to_string(free.upstreams[0])}, held_up.downstream));
  EngineFixture engine(database, "edge_cancel_dispatcher");
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE",
                  pg::Params::of(held_up.upstreams[1]));
  CHECK(outcomes(engine->tick()) == "dispatched=1 skipped_locked=1");
  CHECK(core(db, free.upstreams[0])["public_state"] == "cancelled");
  CHECK(core(db, held_up.upstreams[0])["public_state"] == "running");
  CHECK(edge_group(db, held_up.downstream)["cancel_siblings_pending_members"].size() == 3);
  holding.rollback();
  CHECK(outcomes(engine->tick()) == "dispatched=1");
  CHECK(completion_events(db).size() == 3);
}

TEST_CASE("edge_cancel_dispatcher reaches the groups behind more than a batch of groups that it skips") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  std::vector<FanIn> skipped;
  for (int i = 0; i < 7; ++i) skipped.push_back(insert_listed(db, 1, 100 + i));
  db.execute(
      "UPDATE ff_edge_group SET cancel_siblings_pending_flag = false WHERE downstream_eid = ANY($1)",
      pg::Params::of(std::vector<Uuid>{skipped[0].downstream, skipped[1].downstream, skipped[2].downstream}));
  const FanIn last = insert_listed(db, 1, 200);
  pg::Transaction holding(other);
  for (std::size_t i = 3; i < 7; ++i)
    holding.execute("SELECT FROM ff_edge_group WHERE downstream_eid = $1 FOR UPDATE",
                    pg::Params::of(skipped[i].downstream));
  EngineFixture engine(database, "edge_cancel_dispatcher", {.batch_size = 2});
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "dispatched=1 skipped_for_reconciler=3 skipped_locked=4");
  CHECK(report.scanned == 8);
  CHECK(report.processed == 1);
  CHECK(core(db, last.upstreams[0])["public_state"] == "cancelled");
  CHECK(pending(db) == 7);
}

TEST_CASE("edge_cancel_dispatcher leaves a group to the reconciler by its flag, whoever holds a sibling") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  insert_listed(db, 1);
  db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = false");
  EngineFixture engine(database, "edge_cancel_dispatcher");
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core FOR UPDATE");
  CHECK(outcomes(engine->tick()) == "skipped_for_reconciler=1");
}

TEST_CASE(
    "edge_cancel_dispatcher and edge_cancel_reconciler take a group at once that a fast clock has dated") {
  const auto [name, outcome] = GENERATE(table<std::string, std::string>(
      {{"edge_cancel_dispatcher", "dispatched=2"}, {"edge_cancel_reconciler", "completed_drain=2"}}));
  const Database database;
  auto db = database.connect();
  insert_listed(db, 0, now_ms(db) + 86'400'000);
  insert_listed(db, 0, std::numeric_limits<std::int64_t>::max() / 2);
  EngineFixture engine(database, name);
  CHECK(engine->backlog(10).due == 2);
  const TickReport report = engine->tick({.list_moves = true});
  CHECK(outcomes(report) == outcome);
  // None was late: what its date says is to come.
  for (const auto& move : report.moves) CHECK(count(move.due_at) > now_ms(db));
  CHECK(pending(db) == 0);
}

TEST_CASE("edge_cancel_reconciler comes to an end where groups that a fast clock has dated are left alone") {
  const Database database;
  auto db = database.connect();
  const std::int64_t ahead = now_ms(db) + 86'400'000;
  for (int i = 0; i < 30; ++i) insert_listed(db, 1, ahead);
  insert_listed(db, 0, ahead + 1);
  std::stop_source stop;
  int asked = 0;
  const WatchingClock clock([&] {
    if (++asked > 1000) stop.request_stop();
  });
  EngineFixture engine(database, "edge_cancel_reconciler", {.batch_size = 2, .clock = &clock});
  CHECK(outcomes(engine->tick({.stop = stop.get_token()})) == "completed_drain=1 no_op=30");
  CHECK_FALSE(stop.stop_requested());
}

TEST_CASE("edge_cancel_dispatcher takes the oldest group first") {
  const Database database;
  auto db = database.connect();
  for (const int enqueued : {300, 100, 400, 200}) insert_listed(db, 0, enqueued);
  EngineFixture engine(database, "edge_cancel_dispatcher", {.batch_size = 1});
  std::vector<std::int64_t> order;
  for (const auto& move : engine->tick({.list_moves = true}).moves) order.push_back(count(move.due_at));
  CHECK(order == std::vector<std::int64_t>{100, 200, 300, 400});
  CHECK(dispatcher().batch_size == 50);
}

TEST_CASE("edge_cancel_dispatcher of two replicas at once cancels each sibling once") {
  const Database database;
  auto db = database.connect();
  constexpr int kGroups = 60;
  // Neighbours share a sibling.
  std::optional<FanIn> before;
  for (int i = 0; i < kGroups; ++i) {
    const FanIn f = insert_listed(db, 2, 100 + i);
    if (before)
      db.execute(
          "UPDATE ff_edge_group SET cancel_siblings_pending_members = cancel_siblings_pending_members || $1"
          " WHERE downstream_eid = $2",
          pg::Params::of(std::vector<std::string>{to_string(before->upstreams[0])}, f.downstream));
    before = f;
  }
  const auto work = [&] {
    auto own = database.connect();
    EngineFixture engine(database, "edge_cancel_dispatcher", {.batch_size = 3});
    for (int i = 0; i < 500 && pending(own) > 0; ++i) engine->tick();
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(pending(db) == 0);
  CHECK(completion_events(db).size() == 2 * kGroups);
  CHECK(number(db, "SELECT count(DISTINCT execution_id) FROM ff_completion_event") == 2 * kGroups);
  CHECK(number(db, "SELECT count(*) FROM ff_edge_group WHERE cancel_siblings_pending_flag") == 0);
}

TEST_CASE("edge_cancel_dispatcher refuses a worker whose execution it has cancelled") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 1);
  make_claimable(db, f.upstreams[0]);
  simulation::Worker worker(db, "w1", Milliseconds{60'000});
  const auto claim = worker.claim_one({{3}, f.upstreams[0]}).value();
  EngineFixture engine(database, "edge_cancel_dispatcher");
  CHECK(engine->tick().processed == 1);
  const auto after = snapshot(db);
  CHECK_FALSE(worker.renew(claim));
  CHECK_FALSE(worker.complete(claim));
  CHECK_FALSE(worker.fail(claim, true));
  CHECK(diff(after, snapshot(db)).empty());
}

TEST_CASE(
    "edge_cancel_dispatcher leaves a group for later whose sibling is claimed after its statement began") {
  // The attempt that the worker makes is invisible to the statement: it could not take the lease away.
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 2);
  make_claimable(db, f.upstreams[0]);
  StalledAct stalled(database, dispatcher(), {key_of(f)});
  simulation::Worker worker(db, "w1", Milliseconds{60'000});
  const auto claim = worker.claim_one({{3}, f.upstreams[0]}).value();
  CHECK(stalled.finish() == std::vector<std::string>{"skipped_locked"});
  CHECK(core(db, f.upstreams[0])["lifecycle_phase"] == "active");
  CHECK(core(db, f.upstreams[1])["lifecycle_phase"] == "active");
  CHECK(pending(db) == 1);
  EngineFixture engine(database, "edge_cancel_dispatcher");
  CHECK(outcomes(engine->tick()) == "dispatched=1");
  CHECK_FALSE(worker.complete(claim));
}

TEST_CASE("edge_cancel_dispatcher leaves a sibling as it is that completes after its statement began") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 1);
  make_claimable(db, f.upstreams[0]);
  simulation::Worker worker(db, "w1", Milliseconds{60'000});
  const auto claim = worker.claim_one({{3}, f.upstreams[0]}).value();
  StalledAct stalled(database, dispatcher(), {key_of(f)});
  REQUIRE(worker.complete(claim));
  stalled.finish();
  EngineFixture engine(database, "edge_cancel_dispatcher");
  engine->tick();
  CHECK(pending(db) == 0);
  CHECK(attempt(db, f.upstreams[0])["outcome"] == "success");
  CHECK(completion_events(db).size() == 1);
}

TEST_CASE(
    "edge_cancel_dispatcher leaves a group alone that another has dispatched since its statement began") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 1);
  StalledAct stalled(database, dispatcher(), {key_of(f)});
  EngineFixture engine(database, "edge_cancel_dispatcher");
  REQUIRE(engine->tick().processed == 1);
  const auto after = snapshot(db);
  CHECK(stalled.finish().empty());
  CHECK(diff(after, snapshot(db)).empty());
}
