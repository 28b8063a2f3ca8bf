// SIGKILL at any moment loses and repeats nothing.
#include <catch2/catch.hpp>
#include <csignal>
#include <random>
#include <thread>

#include "demo/simulation/audit.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr int kRows = 1500;
constexpr int kKills = 20;

// Executions with a lapsed lease, half of which may be retried, as workers would have left them; and what
// moves one takes a while, so that most of the daemon's time is spent within a batch.
constexpr const char* kBacklog = R"sql(
WITH made AS (
  INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
                            public_state, attempt_state, created_at_ms, policy, raw_fields)
  SELECT i % 4, gen_random_uuid(), 'default', 'active', 'leased', 'not_applicable', 'running', 'running_attempt', 1,
         CASE WHEN i % 2 = 0 THEN '{"retry_policy": {"max_retries": 3}}'::jsonb END, '{"namespace": "n"}'
    FROM generate_series(1, 1500) i
  RETURNING partition_key, execution_id),
held AS (
  INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, lease_epoch, lease_expires_at_ms,
                          started_at_ms)
  SELECT partition_key, execution_id, 0, 'w', 1, 1000, 1 FROM made)
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace)
SELECT execution_id::text, 'acquired', 1, partition_key, 'n' FROM made)sql";

constexpr const char* kSlow = R"sql(
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.002); RETURN new; END $$;
CREATE TRIGGER slow BEFORE UPDATE ON ff_exec_core FOR EACH ROW EXECUTE FUNCTION slow();
CREATE TRIGGER slow BEFORE INSERT ON ff_lease_event FOR EACH ROW EXECUTE FUNCTION slow())sql";

std::int64_t left(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL");
}

}  // namespace

TEST_CASE("a daemon that is killed twenty times in the middle of its work leaves no row half changed") {
  Database database;
  auto db = database.connect();
  db.execute(kBacklog);
  db.execute_script(kSlow);
  REQUIRE(left(db) == kRows);

  std::mt19937 generator{20};
  std::uniform_int_distribution<int> pause(0, 60);
  const RunningDaemon::Options options{
      .conninfo = database.conninfo(),
      .config =
          "partitions: 0-3\nrecovery_grace: 0s\nreconcilers:\n  lease_expiry: {enabled: false}\n"
          "  attempt_timeout: {interval: 20ms, batch_size: 7}\n"};
  int in_mid_batch = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::int64_t before = left(db);
    REQUIRE(before > 0);
    RunningDaemon daemon(options);
    REQUIRE(wait_until([&] { return left(db) < before; }));
    std::this_thread::sleep_for(Milliseconds{pause(generator)});  // the moment of death is meant to vary
    in_mid_batch += db.execute(
                          "SELECT 1 FROM pg_stat_activity WHERE application_name ^@ 'ff-reconcilerd ' AND "
                          "datname = current_database() AND state = 'active' AND xact_start IS NOT NULL")
                            .empty()
                        ? 0
                        : 1;
    daemon.process().signal(SIGKILL);
    REQUIRE(daemon.process().wait() == 128 + SIGKILL);
    const auto violations = simulation::audit(db);
    CAPTURE(kill, violations);
    CHECK(violations.empty());
  }
  CHECK(in_mid_batch > kKills / 4);

  db.execute_script("DROP TRIGGER slow ON ff_exec_core; DROP TRIGGER slow ON ff_lease_event");
  RunningDaemon daemon(options);
  REQUIRE(wait_until([&] { return left(db) == 0; }));
  CHECK(daemon.stop() == 0);
  CHECK(simulation::audit(db).empty());
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event WHERE event_type = 'expired'") == kRows);
  CHECK(number(db, "SELECT count(DISTINCT execution_id) FROM ff_lease_event WHERE event_type = 'expired'") ==
        kRows);
  CHECK(number(db, "SELECT count(*) FROM ff_completion_event WHERE outcome = 'expired'") == kRows / 2);
  CHECK(number(db, "SELECT count(DISTINCT execution_id) FROM ff_completion_event") == kRows / 2);
  CHECK(
      number(db,
             "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'runnable' AND attempt_index = 1") ==
      kRows / 2);
  CHECK(number(db, "SELECT count(*) FROM ff_attempt WHERE lease_epoch = 2") == kRows);
}
