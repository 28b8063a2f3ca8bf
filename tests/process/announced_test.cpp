// What is announced is taken soon, though no scan of the others would come to it for long.
#include <catch2/catch.hpp>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("a daemon clears what a cancel left open by its event, before its walk comes to the waitpoint") {
  Database database;
  auto db = database.connect();
  // Of executions that wait, and by their number before those of any other: so many slices that a round takes
  // minutes.
  db.execute_script(R"sql(
    CREATE TEMP TABLE waiting AS
      SELECT ('00000000-0000-0000-0000-' || lpad(to_hex(i), 12, '0'))::uuid AS id FROM generate_series(1, 300000) i;
    INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state,
                              eligibility_state, public_state, attempt_state, created_at_ms)
      SELECT 0, id, 'default', 'suspended', 'released', 'not_applicable', 'suspended', 'attempt_interrupted', 0
        FROM waiting;
    INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms)
      SELECT 0, id, id, 'k', 't', 0 FROM waiting;
    ANALYZE)sql");
  const Uuid id = insert_core(db, {.partition = {3}, .state = suspended()});
  insert_suspension(db, {.partition = {3}, .execution = id});
  insert_waitpoint(db, {.partition = {3}, .execution = id});
  const auto open = [&] {
    return db.execute("SELECT count(*) FROM ff_waitpoint_pending WHERE execution_id = $1", pg::Params::of(id))
        .one()
        .get<std::int64_t>(0);
  };
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = "partitions: 0-3\nrecovery_grace: 0s\n"});
  const std::string looks = "ff_reconciler_last_success_timestamp_seconds{reconciler=\"suspension_timeout\"}";
  REQUIRE(wait_until([&] { return daemon.ready() && daemon.metric(looks) > 0; }));
  CHECK(open() == 1);

  db.execute_script(
      "BEGIN; UPDATE ff_exec_core SET lifecycle_phase = 'cancelled' WHERE execution_id = '" + to_string(id) +
      "'; INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " SELECT '" +
      to_string(id) + "', 'revoked', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 3; COMMIT");

  CHECK(wait_until([&] { return open() == 0; }));
  CHECK(db.execute("SELECT FROM ff_suspension_current").empty());
}
