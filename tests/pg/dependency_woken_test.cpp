// dependency, its companion: who waits for children that ended before it began to wait.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/engine.hpp"
#include "support/flow.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;

namespace {

const Json kAllOf = {{"kind", "all_of"}};

const reconcile::Reconciler& companion() {
  return reconcile::find_reconciler("dependency")->companions.at(1);
}

/// As FlowFabric's wait_children leaves an execution: public_state stands since it was claimed.
State waiting_for_children() {
  return {"runnable", "unowned", "blocked_by_dependencies", "running", "attempt_interrupted"};
}

/// One that waits for its children, after a typed claim, and the counts of its group.
Uuid add_waiting(pg::Connection& db, GroupRow group, CoreRow row = {.state = waiting_for_children()}) {
  if (!row.flow) row.flow = new_uuid();
  row.partition = {3};
  row.attempt_index = 1;
  insert_core(db, row);
  db.execute("UPDATE ff_exec_core SET blocking_reason = 'waiting_for_children' WHERE execution_id = $1",
             pg::Params::of(row.execution));
  insert_attempt(db, {.partition = {3}, .execution = row.execution, .outcome = "waiting_children"});
  group.flow = *row.flow;
  group.downstream = row.execution;
  group.policy = kAllOf;
  insert_group(db, group);
  return row.execution;
}

}  // namespace

TEST_CASE("dependency wakes one that began to wait for its children when all of them had ended") {
  const Database database;
  auto db = database.connect();
  const Uuid woken = add_waiting(
      db, {.success = 2},
      {.state = waiting_for_children(), .deadline_at_ms = 9'900'000'000'000, .raw_fields = origin("n", "i")});
  add_waiting(db, {.success = 2, .running = 1});
  add_waiting(db, {});  // nobody has been counted yet
  const auto before = snapshot(db);
  const Json core_before = core(db, woken);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "woken=1");
  CHECK(core(db, woken) == changed(core_before, {{"eligibility_state", "eligible_now"},
                                                 {"public_state", "waiting"},
                                                 {"attempt_index", 0},
                                                 {"raw_fields", changed(core_before["raw_fields"],
                                                                        {{"total_attempt_count", "0"}})}}));
  CHECK(diff(before, snapshot(db)).size() == 2);
  CHECK(engine->tick().scanned == 0);
}

TEST_CASE("dependency wakes one that waits for its children however they ended") {
  const GroupRow group = GENERATE(GroupRow{.success = 1}, GroupRow{.fail = 1}, GroupRow{.skip = 1},
                                  GroupRow{.success = 1, .fail = 2, .skip = 3});
  const Database database;
  auto db = database.connect();
  const Uuid woken = add_waiting(db, group);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "woken=1");
  CHECK(core(db, woken)["eligibility_state"] == "eligible_now");
}

TEST_CASE("dependency does not wake by the way one that waits for something else") {
  const bool without_reason = GENERATE(true, false);
  State state = waiting_for_children();
  SECTION("by its phase") {
    state.lifecycle_phase = GENERATE("submitted", "active", "suspended", "terminal");
  }
  SECTION("by its eligibility") {
    state.eligibility_state = GENERATE("eligible_now", "pending_claim", "not_eligible_until_time");
  }
  const Database database;
  auto db = database.connect();
  add_waiting(db, {.success = 1}, {.state = state});
  // Blocked by dependencies, for another reason or none.
  const Uuid other = add_waiting(db, {.success = 1});
  db.execute("UPDATE ff_exec_core SET blocking_reason = $2 WHERE execution_id = $1",
             pg::Params::of(other, without_reason ? std::nullopt : std::optional<std::string>("other")));
  // The group of another flow.
  const Uuid stranger = add_waiting(db, {.success = 1});
  db.execute("UPDATE ff_exec_core SET flow_id = $2 WHERE execution_id = $1",
             pg::Params::of(stranger, new_uuid()));
  const auto before = snapshot(db);
  EngineFixture engine(database, "dependency");
  CHECK(engine->tick().scanned == 0);
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("dependency wakes only those whose execution its filter asks for") {
  const Database database;
  auto db = database.connect();
  const Uuid ours =
      add_waiting(db, {.success = 1}, {.state = waiting_for_children(), .raw_fields = origin("a", "i")});
  const Uuid theirs =
      add_waiting(db, {.success = 1}, {.state = waiting_for_children(), .raw_fields = origin("b", "i")});
  EngineFixture engine(database, "dependency", {.filter = for_namespace("a")});
  CHECK(outcomes(engine->tick()) == "woken=1");
  CHECK(core(db, ours)["eligibility_state"] == "eligible_now");
  CHECK(core(db, theirs)["eligibility_state"] == "blocked_by_dependencies");
}

TEST_CASE("dependency leaves one that waits for its children for later while it or its group is held") {
  const auto held =
      GENERATE("ff_exec_core WHERE execution_id = $1", "ff_edge_group WHERE downstream_eid = $1");
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const Uuid waiting = add_waiting(db, {.success = 1});
  EngineFixture engine(database, "dependency");
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + std::string(held) + " FOR UPDATE", pg::Params::of(waiting));
  CHECK(engine->tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  holding.rollback();
  CHECK(outcomes(engine->tick()) == "woken=1");
}

TEST_CASE("dependency does not wake one to whose group an edge is applied after the statement began") {
  const Database database;
  auto db = database.connect();
  const Uuid waiting = add_waiting(db, {.success = 1});
  StalledAct stalled(database, companion(), {{{3}, {to_string(waiting)}}});
  db.execute("UPDATE ff_edge_group SET running_count = running_count + 1");
  CHECK(stalled.finish().empty());
  CHECK(core(db, waiting)["eligibility_state"] == "blocked_by_dependencies");
}

TEST_CASE("dependency does not wake one that was woken and claimed after the statement began") {
  const Database database;
  auto db = database.connect();
  const Uuid waiting = add_waiting(db, {.success = 1});
  StalledAct stalled(database, companion(), {{{3}, {to_string(waiting)}}});
  db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'active', eligibility_state = 'not_applicable'");
  CHECK(stalled.finish().empty());
  CHECK(core(db, waiting)["lifecycle_phase"] == "active");
}

TEST_CASE("dependency finds one that waits for its children by its name, too") {
  const Database database;
  auto db = database.connect();
  const Uuid waiting = add_waiting(db, {.success = 1});
  const Uuid other = add_waiting(db, {.success = 1});
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick_one({{3}, waiting})) == "woken=1");
  CHECK(core(db, waiting)["eligibility_state"] == "eligible_now");
  CHECK(core(db, other)["eligibility_state"] == "blocked_by_dependencies");
}

TEST_CASE("dependency wakes one that waits for its children at once, whatever clock it was made by") {
  const Database database;
  auto db = database.connect();
  const Uuid waiting = add_waiting(db, {.success = 1});
  db.execute("UPDATE ff_exec_core SET created_at_ms = $1", pg::Params::of(now_ms(db) + 86'400'000));
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "woken=1");
  CHECK(core(db, waiting)["eligibility_state"] == "eligible_now");
}

TEST_CASE("one that began to wait is woken by the lease event that tells of it, before its turn comes") {
  const Database database;
  auto db = database.connect();
  const auto tell = [&](const Uuid& id) {
    db.execute(
        "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " SELECT $1, 'revoked', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 3",
        pg::Params::of(to_string(id)));
  };
  const Uuid told = add_waiting(db, {.success = 1});
  const Uuid untold = add_waiting(db, {.success = 1});
  const Uuid works = add_waiting(db, {.success = 1, .running = 1});
  State suspended = waiting_for_children();
  suspended.lifecycle_phase = "suspended";
  const Uuid not_runnable = add_waiting(db, {.success = 1}, {.state = suspended});
  for (const Uuid& id : {told, works, not_runnable}) tell(id);
  EngineFixture engine(database, "dependency");
  const reconcile::TickOptions by_events{
      .scan = false, .companions_scan = false, .shortcuts_scan = true, .in_slices = true};
  CHECK(outcomes(engine->tick(by_events)) == "woken=1");
  CHECK(core(db, told)["eligibility_state"] == "eligible_now");
  for (const Uuid& other : {untold, works, not_runnable})
    CHECK(core(db, other)["eligibility_state"] == "blocked_by_dependencies");
}
