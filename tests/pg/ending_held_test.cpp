// What an ending makes of rows that somebody else holds or has just written.
#include <catch2/catch.hpp>

#include "ending_stage.hpp"
#include "pg/transaction.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;
using Stage = EndingStage;

TEST_CASE("an ending waits for a lease of an older attempt that somebody holds") {
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 6 WHERE attempt_index = 1");
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_attempt WHERE execution_id = $1 AND attempt_index = 1 FOR UPDATE",
                  pg::Params::of(id));
  const auto before = snapshot(t.db);
  CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "ended=1");
}

TEST_CASE("an ending waits while somebody holds any row of the execution and lets the others end") {
  const std::string held =
      GENERATE("ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending");
  Stage t;
  const Uuid busy = t.add(Json::object());
  const auto before = snapshot(t.db);
  const Uuid free = t.add(Json::object());
  auto other = t.database.connect();
  pg::Transaction holding(other);
  // One waitpoint of two, and of the attempts the current one.
  const std::string which = held == "ff_waitpoint_pending" ? " AND waitpoint_key = 'k'"
                            : held == "ff_attempt"         ? " AND attempt_index = 2"
                                                           : "";
  holding.execute("SELECT FROM " + held + " WHERE execution_id = $1" + which + " FOR UPDATE",
                  pg::Params::of(busy));
  const TickReport report = t.tick();
  CAPTURE(held);
  CHECK(outcomes(report) == "ended=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(lines_of(diff(before, snapshot(t.db)), "- ") == 0);
  CHECK(t.own_core(free)["lifecycle_phase"] == "terminal");
  holding.rollback();
  t.db.execute("UPDATE ff_exec_core SET deadline_at_ms = NULL WHERE execution_id = $1", pg::Params::of(free));
  CHECK(outcomes(t.tick()) == "ended=1");
  CHECK(lease_events(t.db) == Json::array({lease_event(free), lease_event(busy)}));
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
  CHECK(snapshot(t.db, "ff_waitpoint_pending").empty());
}

TEST_CASE("an ending leaves an execution alone that was claimed since the statement began") {
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  StalledAct act(t.database, t.reconciler, {{{3}, {to_string(id)}}});
  // Phase and index of the core are as before.
  insert_attempt(t.db, {.partition = {3}, .execution = id, .attempt_index = 4, .lease_expires_at_ms = 9});
  t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'active' WHERE execution_id = $1",
               pg::Params::of(id));
  const auto claimed = snapshot(t.db);
  CHECK(act.finish().empty());
  CHECK(diff(claimed, snapshot(t.db)).empty());
  CHECK(outcomes(t.tick()) == "ended=1");
  CHECK(t.own_attempt(id, 4)["outcome"] == "stopped");
}

TEST_CASE("an ending waits for its own rows although those of a namesake in another partition are free") {
  const std::string held = GENERATE("ff_attempt", "ff_suspension_current", "ff_waitpoint_pending");
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  insert_core(t.db, {.partition = {4}, .execution = id, .attempt_index = 2, .deadline_at_ms = 1000});
  for (int index : {1, 2})
    insert_attempt(t.db,
                   {.partition = {4}, .execution = id, .attempt_index = index, .lease_expires_at_ms = 5});
  insert_suspension(t.db, {.partition = {4}, .execution = id});
  for (const pg::Row found : t.db.execute("SELECT waitpoint_id::text FROM ff_waitpoint_pending"))
    insert(t.db, "ff_waitpoint_pending",
           {{"partition_key", 4},
            {"waitpoint_id", found.get<std::string>(0)},
            {"execution_id", to_string(id)},
            {"token_kid", "k1"},
            {"token", "t1"},
            {"created_at_ms", 1},
            {"waitpoint_key", ""}});
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + held + " WHERE partition_key = 3 FOR UPDATE");
  const TickReport report = t.tick();
  CAPTURE(held);
  CHECK(outcomes(report) == "ended=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.own_core(id)["lifecycle_phase"] == "active");
  CHECK(t.own_attempt(id)["lease_epoch"] == 42);
}

TEST_CASE("an ending locks no row of another execution") {
  Stage t;
  const Uuid id = t.add(Json::object());
  t.add_bystanders(id);
  const Uuid in_four = t.add(Json::object(), 5, 4);
  // Behind those of the others, where whoever looks for them too widely meets the others first.
  for (const char* table : {"ff_attempt", "ff_suspension_current", "ff_waitpoint_pending"})
    t.db.execute("UPDATE " + std::string(table) +
                     " SET execution_id = execution_id WHERE partition_key = 3 AND execution_id = $1"
                     " OR execution_id = $2",
                 pg::Params::of(id, in_four));
  CHECK(outcomes(t.tick()) == "ended=2");
  // A lock leaves its mark in the row's header.
  for (const char* table : {"ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending"})
    CHECK(number(
              t.db,
              "SELECT count(*) FROM " + std::string(table) +
                  " WHERE NOT (partition_key = 3 AND execution_id = $1 OR execution_id = $2) AND xmax <> '0'",
              pg::Params::of(id, in_four)) == 0);
}
