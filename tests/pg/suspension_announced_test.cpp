// suspension_timeout, its shortcut: what a cancelled execution left open goes when a lease event tells of the cancel, long
// before a walk comes to it.
#include <catch2/catch.hpp>

#include "pg/suspension_stage.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

const reconcile::Reconciler& shortcut() {
  for (const reconcile::Reconciler& companion : suspension_timeout().companions)
    if (companion.is_shortcut) return companion;
  throw std::out_of_range("no shortcut");
}

struct AnnouncedStage : SuspensionStage {
  /// Suspended until then, with two waitpoints.
  Uuid cancelled_one(PartitionKey partition = {3}, const Json& raw_fields = Json::object()) {
    return add(
        "fail", kNow + 3'600'000,
        {.partition = partition, .state = cancelled(), .terminal_at_ms = kNow - 5, .raw_fields = raw_fields});
  }
  void tell(const Uuid& id, const std::string& type = "revoked", std::int64_t ago_ms = 100,
            PartitionKey partition = {3}) {
    insert(db, "ff_lease_event",
           {{"execution_id", to_string(id)},
            {"event_type", type},
            {"occurred_at_ms", kNow - ago_ms},
            {"partition_key", partition.value}});
  }
  /// As a daemon looks between two scans of the others.
  TickReport tick(const EngineOptions& options = {}) {
    EngineFixture engine(database, suspension_timeout(), options);
    return engine->tick({.scan = false, .companions_scan = false, .shortcuts_scan = true, .in_slices = true});
  }
  std::int64_t open(const Uuid& id) {
    return number(db, "SELECT count(*) FROM ff_waitpoint_pending WHERE execution_id = $1",
                  pg::Params::of(id));
  }
};

}  // namespace

TEST_CASE(
    "what a cancelled execution left open goes by the lease event of its cancel, without any other look") {
  AnnouncedStage t;
  const Uuid told = t.cancelled_one();
  t.tell(told, GENERATE("revoked", "expired"));
  const Uuid untold = t.cancelled_one();
  const Uuid renewed = t.cancelled_one();
  t.tell(renewed, "renewed");
  const Uuid suspended = t.add("fail", kNow + 3'600'000);
  t.tell(suspended);
  const auto before = snapshot(t.db);

  CHECK(outcomes(t.tick()) == "orphan_cleared=2");

  CHECK(t.open(told) == 0);
  CHECK(number(t.db, "SELECT count(*) FROM ff_suspension_current WHERE execution_id = $1",
               pg::Params::of(told)) == 0);
  const auto changes = diff(before, snapshot(t.db));
  for (const Uuid& other : {untold, renewed, suspended}) CHECK(t.open(other) == 2);
  CHECK(changes.size() == 3);  // the suspension and its waitpoints
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("an old event, one that names nothing, and one of another partition lead nowhere") {
  AnnouncedStage t;
  const Uuid old = t.cancelled_one();
  t.tell(old, "revoked", 60'000);
  const Uuid elsewhere = t.cancelled_one({4});
  t.tell(elsewhere);
  const Uuid not_ours = t.cancelled_one({40});
  t.tell(not_ours, "revoked", 100, {40});
  t.tell(new_uuid());
  t.tell(t.cancelled_one(), "revoked", 100, {static_cast<std::int16_t>(-1)});
  t.db.execute("UPDATE ff_lease_event SET partition_key = 2000000000 WHERE partition_key = -1");
  t.db.execute(
      "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " VALUES ('no uuid', 'revoked', $1, 3)",
      pg::Params::of(kNow));
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("a shortcut takes what the filter asks for, by the execution and not by its event") {
  AnnouncedStage t;
  const Uuid mine = t.cancelled_one({3}, origin("a", "1"));
  const Uuid others = t.cancelled_one({3}, origin("b", "1"));
  for (const Uuid& id : {mine, others}) t.tell(id);
  CHECK(outcomes(t.tick({.filter = for_both("a", {"cairn.instance_id", "1"})})) == "orphan_cleared=2");
  CHECK(t.open(mine) == 0);
  CHECK(t.open(others) == 2);
}

TEST_CASE("a cancelled flow of thousands is taken in one scan, whoever else wrote events before") {
  AnnouncedStage t;
  t.db.execute_script(R"sql(
    INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)
      SELECT gen_random_uuid()::text, 'revoked', 1800000000000, i % 16 FROM generate_series(1, 20000) i;
    CREATE TEMP TABLE member AS SELECT gen_random_uuid() AS id FROM generate_series(1, 3000);
    INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state,
                              eligibility_state, public_state, attempt_state, created_at_ms)
      SELECT 7, id, 'default', 'cancelled', 'released', 'cancelled', 'cancelled', 'attempt_interrupted', 0 FROM member;
    INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, condition)
      SELECT 7, id, id, 0, '{}' FROM member;
    INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms)
      SELECT 7, id, id, 'k', 't', 0 FROM member;
    INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)
      SELECT id::text, 'revoked', 1800000000000, 7 FROM member)sql");
  CHECK(outcomes(t.tick()) == "orphan_cleared=3000");
  CHECK(number(t.db, "SELECT count(*) FROM ff_suspension_current") == 0);
}

TEST_CASE(
    "a scan by the newest events reads no more of an outbox than ten thousand, and no table as a whole") {
  const Database database;
  auto db = database.connect();
  db.execute_script(R"sql(
    CREATE TEMP TABLE seed AS
      SELECT i, (i % 16)::smallint AS partition_key, gen_random_uuid() AS execution_id
        FROM generate_series(1, 60000) i;
    INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state,
                              eligibility_state, public_state, attempt_state, created_at_ms)
      SELECT partition_key, execution_id, 'default', CASE i % 2 WHEN 0 THEN 'suspended' ELSE 'terminal' END,
             'unowned', 'not_applicable', 'x', 'x', 0
        FROM seed;
    INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms)
      SELECT partition_key, execution_id, execution_id, 'k', 't', 0 FROM seed WHERE i % 2 = 0;
    INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)
      SELECT execution_id::text, 'revoked', 4102444800000, partition_key FROM seed)sql");
  // With statistics, and as they are before the server has made any.
  for (const bool analysed : {false, true}) {
    if (analysed) db.execute_script("ANALYZE");
    for (const Partitions& partitions : {Partitions{{3}}, sixteen_partitions()}) {
      CAPTURE(analysed, partitions.size());
      const std::string page = reconcile::Statements(shortcut()).page.over(partitions);
      const auto params = page_params(shortcut(), partitions, Milliseconds{0}, 4);
      const Json run = run_plan_of(db, page, params, pg::Plan::generic);
      CHECK(whole_tables(db, run) == std::vector<std::string>{});
      // Each of them is judged by its kind and time, and then looked up by its key.
      CHECK(efforts_above(15'000, run) == std::vector<std::string>{});
    }
  }
}
