// Who is told of executions that were ended and rows that were deleted, when, and of whom nothing is said.
#include <algorithm>
#include <catch2/catch.hpp>

#include "pg/edge_cancel_groups.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Action;
using reconcile::Effect;
using reconcile::Reconciler;
using reconcile::TickOptions;
using reconcile::TickReport;

namespace {

/// What a tick tells.
struct Told {
  std::vector<Action> actions{};

  TickOptions options() {
    return {.scan_ahead = std::chrono::hours{1}, .tell = [this](const std::vector<Action>& told) {
              actions.insert(actions.end(), told.begin(), told.end());
            }};
  }
  const Action* of(const Uuid& execution, Effect effect) const {
    const auto found = std::ranges::find_if(actions, [&](const Action& action) {
      return action.effect == effect && action.execution && action.execution->uuid == execution;
    });
    return found == actions.end() ? nullptr : &*found;
  }
};

/// How many of the rows that were counted had an outcome that ends or deletes.
std::int64_t ended_or_deleted(const Reconciler& pair, const TickReport& report) {
  std::int64_t sum = 0;
  for (const auto& [name, count] : report.outcomes)
    if (reconcile::ends_or_deletes(reconcile::outcome_of(pair, name)->effect)) sum += count;
  return sum;
}

}  // namespace

TEST_CASE("an execution that is ended is told of with its key, reason and times, one that goes on is not") {
  const Database database;
  auto db = database.connect();
  const std::int64_t lapsed_at = now_ms(db) - 5000;
  const Uuid over = insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = lapsed_at});
  const Uuid retried = insert_lapsed(db, {.partition = {3}, .policy = max_retries(3)});
  EngineFixture engine(database, "attempt_timeout");
  Told told;
  CHECK(outcomes(engine->tick(told.options())) == "expired=1 retried=1");
  REQUIRE(told.actions.size() == 1);
  const Action& action = told.actions.front();
  CHECK(action.effect == Effect::ended);
  CHECK(action.pair->name == "attempt_timeout");
  CHECK(action.execution == ExecutionId{{3}, over});
  CHECK(action.key == attempt_key({3}, over));
  CHECK(action.outcome == "expired");
  CHECK(action.reason == "its lease lapsed and no retry was left");
  CHECK(action.due_at == unix_millis(lapsed_at));
  CHECK(core(db, over)["terminal_at_ms"] == count(action.at));
  CHECK(action.committed);
  CHECK(told.of(retried, Effect::ended) == nullptr);
}

TEST_CASE("of every pair each row that is ended or deleted is told of once, and no other") {
  for (const Reconciler& pair : reconcile::all_pairs()) {
    if (!reconcile::ends_or_deletes(pair)) continue;
    CAPTURE(pair.name);
    const Database database;
    auto db = database.connect();
    seed(db, pair, {.count = 5});
    EngineFixture engine(database, pair);
    Told told;
    const TickReport report = engine->tick(told.options());
    CHECK_FALSE(report.failure);
    CHECK(report.processed == 5);
    const auto rows =
        std::ranges::count_if(told.actions, [](const Action& a) { return a.due_at.has_value(); });
    CHECK(rows == ended_or_deleted(pair, report));
    for (const Action& action : told.actions) {
      CHECK_FALSE(action.reason.empty());
      CHECK(reconcile::ends_or_deletes(action.effect));
      CHECK(action.execution.has_value() == !pair.execution_column.empty());
    }
  }
}

TEST_CASE("a waitpoint that is closed is told of with the execution that nobody could find by it any more") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_core(db, {.partition = {3}});
  insert_waitpoint(db, {.partition = {3}, .execution = id, .expires_at_ms = now_ms(db) - 1000});
  db.execute("UPDATE ff_waitpoint_pending SET state = 'pending'");
  EngineFixture engine(database, "pending_waitpoint_expiry");
  Told told;
  engine->tick(told.options());
  CHECK(told.actions.size() == 1);
  CHECK(told.of(id, Effect::deleted) != nullptr);
}

TEST_CASE("siblings that are cancelled are told of beside the group that listed them") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 2);
  const Uuid ended = insert_core(db, {.partition = {3}, .flow = f.flow, .state = terminal()});
  set_members(
      db, f,
      "{" + to_string(f.upstreams[0]) + "," + to_string(f.upstreams[1]) + "," + to_string(ended) + "}");
  EngineFixture engine(database, "edge_cancel_dispatcher");
  Told told;
  const TickReport report = engine->tick(told.options());
  CHECK(outcomes(report) == "dispatched=1");
  CHECK(report.processed == 1);
  CHECK(told.actions.size() == 3);
  for (const Uuid& id : f.upstreams) {
    const Action* action = told.of(id, Effect::ended);
    REQUIRE(action != nullptr);
    CHECK(action->outcome == "cancelled");
    CHECK(action->key == reconcile::RowKey{{3}, {}});
    CHECK_FALSE(action->due_at);
  }
  REQUIRE(told.of(f.downstream, Effect::deleted) != nullptr);
  CHECK(told.of(f.downstream, Effect::deleted)->outcome == "dispatched");
}

TEST_CASE("a downstream that is skipped is told of, one that becomes eligible is not") {
  const Database database;
  auto db = database.connect();
  const FanIn fails = insert_fan_in(db, 2, {.policy = {{"kind", "all_of"}}});
  end_upstream(db, fails, 0, "failed");
  const FanIn succeeds = insert_fan_in(db, 1, {.policy = {{"kind", "all_of"}}});
  end_upstream(db, succeeds, 0);
  EngineFixture engine(database, "dependency");
  Told told;
  CHECK(outcomes(engine->tick(told.options())) == "advanced=2");
  REQUIRE(told.actions.size() == 1);
  REQUIRE(told.of(fails.downstream, Effect::ended) != nullptr);
  CHECK(told.actions.front().outcome == "skipped");
}

TEST_CASE("what was rolled back is not told of, be it a dry run or a row that fails") {
  const Database database;
  auto db = database.connect();
  const Uuid fails = insert_lapsed(db, {.partition = {3}});
  const Uuid ends = insert_lapsed(db, {.partition = {3}});
  EngineFixture engine(database, "attempt_timeout");
  Told told;
  TickOptions dry = told.options();
  dry.dry_run = true;
  CHECK(engine->tick(dry).processed == 2);
  CHECK(told.actions.empty());
  db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION USING ERRCODE = '22012'; END$$;"
      "CREATE TRIGGER poison BEFORE UPDATE ON ff_attempt FOR EACH ROW WHEN (old.execution_id = '" +
      to_string(fails) + "') EXECUTE FUNCTION poison()");
  CHECK(engine->tick(told.options()).processed == 1);
  CHECK(told.actions.size() == 1);
  CHECK(told.of(ends, Effect::ended) != nullptr);
}

TEST_CASE("where the connection breaks in the commit it is told that nobody knows what came of it") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  // Deferred, so that it runs within COMMIT.
  db.execute_script(
      "CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
      " $$BEGIN PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()); RETURN NULL; END$$;"
      "CREATE CONSTRAINT TRIGGER break_off AFTER UPDATE ON ff_exec_core DEFERRABLE INITIALLY DEFERRED"
      " FOR EACH ROW EXECUTE FUNCTION break_off()");
  EngineFixture engine(database, "attempt_timeout");
  Told told;
  const TickReport report = engine->tick(told.options());
  REQUIRE(report.failure);
  CHECK(report.failure->outcome_unknown());
  REQUIRE(told.actions.size() == 1);
  CHECK_FALSE(told.actions.front().committed);
  CHECK(told.of(id, Effect::ended) != nullptr);
}
