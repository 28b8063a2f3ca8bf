// Whose leases dead_worker ends, and whose it does not: a case that changes beside each that must not.
#include <catch2/catch.hpp>

#include "support/dead_worker_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::TickReport;
using Stage = DeadWorkerStage;

namespace {

constexpr std::int64_t kTtl = Stage::kTtl;
constexpr std::int64_t kLeaseEnd = Stage::kLeaseEnd;

}  // namespace

TEST_CASE("dead_worker ends the lease of a silent worker and writes nothing else") {
  Stage stage;
  stage.add_worker("w", kNow - kTtl - 1);
  const Uuid execution = stage.add_lease("w");
  const auto before = snapshot(stage.db);
  const Json core_before = core(stage.db, execution);
  CHECK(stage.by_hand() == "lease_ended=1");
  const Json row = attempt(stage.db, execution);
  CHECK(row["lease_expires_at_ms"] == kNow);
  CHECK(row["lease_epoch"] == 1);
  CHECK(row["outcome"].is_null());
  CHECK(row["raw_fields"]["ended_by"] == Json{{"by", "dead_worker"}, {"at", kNow}});
  CHECK(core(stage.db, execution) == core_before);
  CHECK(diff(before, snapshot(stage.db)).size() <= 2);
  CHECK(lease_events(stage.db).empty());
  CHECK(stage.by_hand().empty());
}

TEST_CASE("dead_worker by hand takes the register at its word, to the millisecond") {
  Stage stage;
  stage.add_worker("silent", kNow - kTtl - 1);
  stage.add_worker("alive", kNow - kTtl);
  stage.add_worker("operator", 0);
  const Uuid silent = stage.add_lease("silent");
  const std::vector<Uuid> others{stage.add_lease("alive"), stage.add_lease("operator"),
                                 stage.add_lease("never")};
  CHECK(stage.by_hand() == "lease_ended=1");
  CHECK(stage.is_ended(silent));
  for (const Uuid& other : others) CHECK_FALSE(stage.is_ended(other));
}

TEST_CASE("a claim and an event are signs of life for dead_worker") {
  Stage stage;
  for (const char* name : {"claimed", "told", "silent"}) stage.add_worker(name, kNow - 2 * kTtl);
  const Uuid claimed = stage.add_lease("claimed");
  stage.db.execute("UPDATE ff_attempt SET started_at_ms = $1", pg::Params::of(kNow - kTtl));
  const Uuid older = stage.add_lease("claimed", {{"namespace", "a"}}, {9});
  stage.add_event("told", "heartbeat", kNow - kTtl);
  const Uuid told = stage.add_lease("told");
  const Uuid silent = stage.add_lease("silent");
  CHECK(stage.by_hand() == "lease_ended=1");
  CHECK(stage.is_ended(silent));
  for (const Uuid& other : {claimed, older, told}) CHECK_FALSE(stage.is_ended(other));
}

TEST_CASE("dead_worker takes who is gone by the newest event of its register, and nobody else") {
  Stage stage;
  stage.add_event("marked", "registered", kNow - 90'000);
  stage.add_event("marked", "marked_dead", kNow - 10);
  stage.add_event("swept", "heartbeat", kNow - 90'000);
  stage.add_event("swept", "ttl_swept", kNow - 10);
  stage.add_event("again", "ttl_swept", kNow - 10);
  stage.add_event("again", "registered", kNow - 10);
  stage.add_event("elsewhere", "marked_dead", kNow - 10, "b");
  const Uuid younger = stage.add_lease("younger");
  stage.add_event("younger", "marked_dead", kNow - 10);
  stage.renew(younger);
  const std::vector<Uuid> spared{younger, stage.add_lease("again"), stage.add_lease("elsewhere")};
  // A lease that was written after its end is a sign of life: these were there before.
  const Uuid marked = stage.add_lease("marked");
  const Uuid swept = stage.add_lease("swept");
  stage.db.execute(
      "UPDATE ff_worker_registry_event SET reason = 'later' WHERE worker_instance_id <> 'younger'");
  CHECK(stage.by_hand() == "lease_ended=2");
  CHECK(stage.is_ended(marked));
  CHECK(stage.is_ended(swept));
  for (const Uuid& execution : spared) CHECK_FALSE(stage.is_ended(execution));
}

TEST_CASE("dead_worker leaves what is not in the worker's namespace, and a worker that lives in another") {
  Stage stage;
  stage.add_worker("w", kNow - 2 * kTtl);
  stage.add_worker("two", kNow - 2 * kTtl);
  stage.add_worker("two", kNow, "b");
  const std::vector<Uuid> spared{stage.add_lease("w", {{"namespace", "b"}}),
                                 stage.add_lease("w", Json::object()), stage.add_lease("two")};
  const Uuid own = stage.add_lease("w");
  CHECK(stage.by_hand() == "lease_ended=1 other_namespace=2");
  CHECK(stage.is_ended(own));
  for (const Uuid& execution : spared) CHECK_FALSE(stage.is_ended(execution));
}

TEST_CASE("dead_worker leaves older attempts, executions that are not active, and lapsed leases") {
  Stage stage;
  stage.add_worker("w", kNow - 2 * kTtl);
  const Uuid cancelled_one = stage.add_lease("w", {{"namespace", "a"}}, {3}, cancelled());
  const Uuid newer = stage.add_lease("w");
  insert_attempt(
      stage.db, {.partition = {3}, .execution = newer, .attempt_index = 1, .lease_expires_at_ms = kLeaseEnd});
  const Uuid lapsed = stage.add_lease("w");
  stage.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $2 WHERE execution_id = $1",
                   pg::Params::of(lapsed, kNow));
  const auto before = snapshot(stage.db);
  CHECK(stage.by_hand().empty());
  CHECK(diff(before, snapshot(stage.db)).empty());
  CHECK(cancelled_one != newer);
}

TEST_CASE("a renewal that commits first keeps its lease from dead_worker") {
  Stage stage;
  stage.add_worker("w", kNow - 2 * kTtl);
  const Uuid execution = stage.add_lease("w");
  stage.check_left_alone_after(
      "UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms + 1000 WHERE execution_id = $1",
      pg::Params::of(execution));
}

TEST_CASE("a renewal between dead_worker and lease_expiry keeps the lease") {
  Stage stage;
  stage.add_worker("w", kNow - 2 * kTtl);
  const Uuid execution = stage.add_lease("w");
  CHECK(stage.by_hand() == "lease_ended=1");
  stage.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $1", pg::Params::of(kLeaseEnd));
  stage.set_clock(1s);
  EngineFixture expiry(stage.database, "lease_expiry");
  CHECK(expiry->tick().processed == 0);
  stage.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $1", pg::Params::of(kNow));
  CHECK(outcomes(expiry->tick()) == "reclaimable=1");
  CHECK(core(stage.db, execution)["lifecycle_phase"] == "runnable");
}

TEST_CASE("where the dead have no lease in any partition of the engine, nothing is found and nothing fails") {
  Stage stage;
  stage.add_worker("w", kNow - kTtl - 1);
  const Uuid elsewhere = stage.add_lease("w", {{"namespace", "a"}}, {200});
  const TickReport report = stage.tick();
  CHECK(report.complete);
  CHECK(report.scanned == 0);
  CHECK(report.database_time == unix_millis(kNow));
  CHECK_FALSE(stage.is_ended(elsewhere));
}
TEST_CASE("the leases of a dead worker end in whatever partitions they are") {
  Stage stage;
  std::vector<Uuid> its;
  for (const char* instance : {"one", "other"}) {
    stage.add_worker(instance, kNow - kTtl - 1);
    for (const PartitionKey partition : {PartitionKey{0}, PartitionKey{100}, PartitionKey{255}})
      its.push_back(stage.add_lease(instance, {{"namespace", "a"}}, partition));
  }
  its.push_back(stage.add_lease("other", {{"namespace", "a"}}, {40}));
  const Uuid alive = stage.add_lease("alive", {{"namespace", "a"}}, {41});
  stage.add_worker("alive", kNow);
  CHECK(outcomes(stage.tick({.partitions = partition_range({0}, {255})})) == "lease_ended=7");
  for (const Uuid& each : its) CHECK(stage.is_ended(each));
  CHECK_FALSE(stage.is_ended(alive));
}

TEST_CASE("register partitions are FNV-1a of the instance, as FlowFabric has them") {
  CHECK(reconcile::liveness::register_partition("") == 0xcbf29ce484222325U % 256);
  CHECK(reconcile::liveness::register_partition("a") == 0xaf63dc4c8601ec8cU % 256);
  CHECK(reconcile::liveness::register_partition("foobar") == 0x85944171f73967e8U % 256);
}
