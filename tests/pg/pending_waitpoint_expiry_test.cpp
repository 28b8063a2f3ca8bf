#include <catch2/catch.hpp>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kPast = kNow - 5000;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("pending_waitpoint_expiry");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  /// A suspended execution.
  Uuid add_execution(const Json& raw_fields = Json::object()) {
    const Uuid id = insert_core(db, {.partition = {3}, .state = suspended(), .raw_fields = raw_fields});
    insert_suspension(db,
                      {.partition = {3}, .execution = id, .timeout_at_ms = kPast, .member_map = {{"m", 1}}});
    return id;
  }
  Uuid add(const Uuid& execution, const std::string& key = "", std::optional<std::int64_t> expires = kPast,
           PartitionKey partition = {3}) {
    return insert_waitpoint(
        db, {.partition = partition, .execution = execution, .expires_at_ms = expires, .waitpoint_key = key});
  }
  Json suspension(const Uuid& id) {
    return row(db, "SELECT * FROM ff_suspension_current WHERE partition_key = 3 AND execution_id = $1",
               pg::Params::of(id));
  }
  bool pending(const Uuid& waitpoint) {
    return number(db, "SELECT count(*) FROM ff_waitpoint_pending WHERE waitpoint_id = $1",
                  pg::Params::of(waitpoint)) == 1;
  }
};

RowKey key_of(const Uuid& waitpoint) {
  return {{3}, {to_string(waitpoint)}};
}

}  // namespace

TEST_CASE(
    "pending_waitpoint_expiry closes a waitpoint, and touches neither its suspension nor anything else") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid neighbour = t.add_execution();
  t.add(id, "later", kNow + 60'000);
  t.add(id, "unlimited", std::nullopt);
  t.add(neighbour, "k", kNow + 60'000);
  // The same execution's number in another partition is another execution.
  insert_suspension(t.db, {.partition = {4}, .execution = id});
  const auto without = snapshot(t.db);
  const Uuid closed = t.add(id, "k");
  const Json before = t.suspension(id);

  const TickReport report = t.tick();
  CHECK(t.suspension(id) == before);
  CHECK_FALSE(t.pending(closed));
  CHECK(diff(without, snapshot(t.db)).empty());
  CHECK(outcomes(report) == "closed=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
}

TEST_CASE(
    "pending_waitpoint_expiry leaves a waitpoint alone that a suspension uses, whenever it was to expire") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid used = t.add(id, "k");
  const Uuid odd = t.add(id, "odd");
  t.db.execute("UPDATE ff_waitpoint_pending SET state = CASE waitpoint_id WHEN $1 THEN 'active' ELSE '' END",
               pg::Params::of(used));
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(act_on(t.db, reconciler(), {key_of(used), key_of(odd)}).empty());
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE(
    "pending_waitpoint_expiry leaves a waitpoint alone that a worker begins to use between looking and "
    "acting") {
  Stage t;
  const Uuid used = t.add(t.add_execution(), "k");
  const auto step_in = [&] { t.db.execute("UPDATE ff_waitpoint_pending SET state = 'active'"); };
  CHECK(t.tick({.before_acting = step_in}).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(t.pending(used));
}

TEST_CASE(
    "pending_waitpoint_expiry closes the waitpoints of executions without a suspension or without a core") {
  Stage t;
  t.add_execution();  // another's suspension, which is none of theirs
  const Uuid running = insert_core(t.db, {.partition = {3}});
  const Uuid ended = insert_core(t.db, {.partition = {3}, .state = terminal(), .terminal_at_ms = 5});
  const auto before = snapshot(t.db);
  for (const Uuid& id : {running, ended, new_uuid()}) t.add(id, "k");
  CHECK(outcomes(t.tick()) == "closed=3");
  CHECK(diff(before, snapshot(t.db)).empty());
  // Without a core nobody can say whose it was, so a filter does not match it.
  t.add(new_uuid(), "k", kPast);
  CHECK(t.tick({.filter = for_namespace("a")}).scanned == 0);
}

TEST_CASE("pending_waitpoint_expiry leaves a waitpoint open to the end of the last millisecond") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid past = t.add(id, "past", kNow - 1);
  const Uuid present = t.add(id, "present", kNow);
  CHECK(act_on(t.db, reconciler(), {key_of(present)}).empty());
  const TickReport report = t.tick();
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK_FALSE(t.pending(past));
  CHECK(t.pending(present));
  CHECK(report.next_due == unix_millis(kNow + 1));
}

TEST_CASE("pending_waitpoint_expiry skips a waitpoint that somebody holds and takes it later") {
  const std::string table = "ff_waitpoint_pending";
  Stage t;
  const Uuid held_execution = t.add_execution();
  const Uuid held = t.add(held_execution, "k");
  const Uuid free = t.add(t.add_execution(), "k");
  const Json before = t.suspension(held_execution);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE",
                  pg::Params::of(held_execution));
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "closed=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.suspension(held_execution) == before);
  CHECK(t.pending(held));
  CHECK_FALSE(t.pending(free));
  holding.rollback();
  CHECK(outcomes(t.tick()) == "closed=1");
  CHECK_FALSE(t.pending(held));
}

TEST_CASE("pending_waitpoint_expiry closes a waitpoint while another of its execution is held") {
  Stage t;
  const Uuid id = t.add_execution();
  t.add(id, "held");
  t.add(id, "free");
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_waitpoint_pending WHERE waitpoint_key = 'held' FOR UPDATE");
  CHECK(t.tick().processed == 1);
  holding.rollback();
  CHECK(t.tick().processed == 1);
  CHECK(t.suspension(id)["member_map"] == Json{{"m", 1}});
}

TEST_CASE("pending_waitpoint_expiry does not mind who holds the core or the suspension") {
  Stage t;
  t.add(t.add_execution(), "k");
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core FOR UPDATE");
  holding.execute("SELECT FROM ff_suspension_current FOR UPDATE");
  CHECK(outcomes(t.tick()) == "closed=1");
}

TEST_CASE("pending_waitpoint_expiry leaves a waitpoint alone that is committed between looking and acting") {
  Stage t;
  const Uuid id = t.add_execution();
  t.add(id, "k");
  const Json before = t.suspension(id);
  const auto step_in = [&] { t.db.execute("DELETE FROM ff_waitpoint_pending"); };
  CHECK(t.tick({.before_acting = step_in}).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(t.suspension(id) == before);
}

TEST_CASE(
    "pending_waitpoint_expiry goes by the filter of the execution and is not disturbed by odd raw_fields") {
  Stage t;
  const Uuid mine = t.add(t.add_execution(origin("a", "1")), "k");
  std::vector<Uuid> others;
  for (const Json& raw_fields : {origin("b", "1"), origin("a", "2"), Json(5), Json("text"),
                                 Json::array({"namespace"}), Json{{"namespace", 5}, {"tags", {1, 2}}}})
    others.push_back(t.add(t.add_execution(raw_fields), "k"));
  const auto filter = for_both("a", {"cairn.instance_id", "1"});
  for (const Uuid& waitpoint : others) CHECK(act_on(t.db, reconciler(), {key_of(waitpoint)}, filter).empty());
  CHECK(t.tick({.filter = filter}).scanned == 1);
  CHECK_FALSE(t.pending(mine));
  CHECK(outcomes(t.tick()) == "closed=6");
}

TEST_CASE("pending_waitpoint_expiry changes nothing when it runs again") {
  Stage t;
  t.add(t.add_execution(), "k");
  REQUIRE(t.tick().processed == 1);
  const auto after = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE("a worker's expired waitpoints are closed and its suspension goes on in order") {
  const Database database;
  auto db = database.connect();
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  const auto id = simulation::create(db, {.partition = {3}});
  const auto claim = worker.claim_one(id).value();
  worker.create_waitpoint(claim, "a", Milliseconds{-1000});
  worker.create_waitpoint(claim, "", Milliseconds{-1000});
  REQUIRE(worker.suspend(claim, {.waitpoints = {{.key = "b"}}}));
  EngineFixture engine(database, "pending_waitpoint_expiry");
  CHECK(outcomes(engine->tick()) == "closed=2");
  CHECK(snapshot(db, "ff_waitpoint_pending").size() == 1);
  CHECK(row(db, "SELECT member_map FROM ff_suspension_current")["member_map"].empty());
  CHECK(simulation::audit(db).empty());
}

TEST_CASE("pending_waitpoint_expiry tells waitpoints of the same number in two partitions apart") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid waitpoint = t.add(id, "k");
  insert_waitpoint(t.db, {.partition = {4}, .waitpoint = waitpoint, .execution = id, .expires_at_ms = kNow});
  // Due as well, so that one statement is about both partitions.
  t.add(new_uuid(), "k", kPast, {4});
  CHECK(outcomes(t.tick()) == "closed=2");
  CHECK(number(t.db, "SELECT partition_key::bigint FROM ff_waitpoint_pending") == 4);
}

TEST_CASE("pending_waitpoint_expiry closes the waitpoints of a single execution by hand") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid mine = t.add(id, "k");
  const Uuid other = t.add(t.add_execution(), "k");
  EngineFixture engine(t.database, "pending_waitpoint_expiry");
  CHECK(outcomes(engine->tick_one({{3}, id})) == "closed=1");
  CHECK_FALSE(t.pending(mine));
  CHECK(t.pending(other));
}
