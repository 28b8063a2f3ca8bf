// execution_deadline, beside executions that an operator has replayed after their deadline.
#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

TEST_CASE("execution_deadline does not compare all that was replayed with each operator event") {
  const Database database;
  auto db = database.connect();
  const int replayed = 10'000;
  db.execute(
      "INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state,"
      "  eligibility_state, public_state, attempt_state, created_at_ms, deadline_at_ms, raw_fields)"
      " SELECT 3, md5(i::text)::uuid, 'default', 'active', 'leased', 'not_applicable', 'active', "
      "'running_attempt', 1,"
      "  1000, '{\"replay_count\": 1}' FROM generate_series(1, $1::integer) AS i",
      pg::Params::of(replayed));
  db.execute(
      "INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " SELECT md5(i::text)::uuid::text, 'replayed', 2000, 3 FROM generate_series(1, $1::integer) AS i",
      pg::Params::of(replayed));
  // Replayed once, and past the deadline of that run; replayed twice since.
  const Uuid late = insert_core(
      db, {.partition = {3}, .state = active(), .deadline_at_ms = 3000, .raw_fields = {{"replay_count", 1}}});
  const Uuid again = insert_core(
      db, {.partition = {3}, .state = active(), .deadline_at_ms = 3000, .raw_fields = {{"replay_count", 2}}});
  for (const auto& [id, at] : {std::pair{late, 2000}, {again, 2000}, {again, 4000}})
    db.execute(
        "INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " VALUES ($1, 'replayed', $2, 3)",
        pg::Params::of(to_string(id), std::int64_t{at}));
  db.execute_script("ANALYZE ff_exec_core, ff_operator_event");
  EngineFixture engine(database, "execution_deadline", {.statement_timeout = Milliseconds{1500}});
  const TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(outcomes(report) == "expired=1");
  CHECK(core(db, late)["public_state"] == "expired");
  CHECK(core(db, again)["lifecycle_phase"] == "active");
}
