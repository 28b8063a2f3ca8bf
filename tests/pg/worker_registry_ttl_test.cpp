#include <catch2/catch.hpp>
#include <limits>

#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("worker_registry_ttl");
}

struct WorkerRow {
  std::string name;
  std::int64_t last_heartbeat_ms = kNow - 30'001;
  std::int64_t liveness_ttl_ms = 30'000;
  std::string name_space = "a";
  int partition = 3;
};

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  RowKey add(const WorkerRow& row) {
    insert(db, "ff_worker_registry",
           {{"partition_key", row.partition},
            {"namespace", row.name_space},
            {"worker_instance_id", row.name},
            {"worker_id", "w"},
            {"lanes", {"default", "slow"}},
            {"capabilities_csv", "gpu"},
            {"last_heartbeat_ms", row.last_heartbeat_ms},
            {"liveness_ttl_ms", row.liveness_ttl_ms},
            {"registered_at_ms", 5}});
    return {{static_cast<std::int16_t>(row.partition)}, {row.name_space, row.name}};
  }
  std::string registered() {
    return db
        .execute(
            "SELECT coalesce(string_agg(worker_instance_id, ' ' ORDER BY worker_instance_id), '')"
            " FROM ff_worker_registry")
        .one()
        .get<std::string>(0);
  }
};

Json swept_event(int partition, const std::string& name_space, const std::string& name) {
  return {{"partition_key", partition}, {"namespace", name_space},   {"worker_instance_id", name},
          {"event_at_ms", kNow},        {"event_kind", "ttl_swept"}, {"reason", nullptr}};
}

}  // namespace

TEST_CASE("worker_registry_ttl sweeps a silent worker, keeps an event and touches nothing else") {
  Stage t;
  // The same name in another namespace and in another partition is another worker.
  t.add({.name = "silent", .last_heartbeat_ms = kNow, .name_space = "b"});
  t.add({.name = "silent", .last_heartbeat_ms = kNow, .partition = 4});
  t.add({.name = "lively", .last_heartbeat_ms = kNow});
  const auto before = snapshot(t.db);
  t.add({.name = "silent"});
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "swept=1");
  CHECK(report.scanned == 1);
  CHECK(report.skipped.empty());
  const auto changes = diff(before, snapshot(t.db));
  REQUIRE(changes.size() == 1);
  CHECK(row(t.db, "SELECT * FROM ff_worker_registry_event") == swept_event(3, "a", "silent"));
}

TEST_CASE("worker_registry_ttl lets a worker live to the end of the last millisecond") {
  Stage t;
  t.add({.name = "past", .last_heartbeat_ms = kNow - 101, .liveness_ttl_ms = 100});
  const RowKey present = t.add({.name = "present", .last_heartbeat_ms = kNow - 100, .liveness_ttl_ms = 100});
  t.add({.name = "future", .last_heartbeat_ms = kNow - 99, .liveness_ttl_ms = 100, .partition = 4});
  CHECK(act_on(t.db, reconciler(), {present}).empty());
  CHECK(t.tick().processed == 1);
  CHECK(t.registered() == "future present");
  CHECK(t.tick().next_due == unix_millis(kNow + 1));
}

TEST_CASE("worker_registry_ttl knows 256 partitions whatever the configuration says") {
  Stage t;
  for (const int partition : {0, 15, 16, 255})
    t.add({.name = "w" + std::to_string(partition), .partition = partition});
  t.db.execute("UPDATE ff_partition_config SET num_flow_partitions = 16, num_budget_partitions = 1");
  CHECK(t.tick({.partitions = {{1}}}).processed == 4);
  CHECK(t.registered().empty());
  CHECK(snapshot(t.db, "ff_worker_registry_event").size() == 4);
}

TEST_CASE("worker_registry_ttl is not disturbed by times that add up to more or less than a bigint") {
  Stage t;
  t.add({.name = "forever", .last_heartbeat_ms = kNow, .liveness_ttl_ms = kMost});
  t.add({.name = "for_all_eternity", .last_heartbeat_ms = kMost, .liveness_ttl_ms = kMost});
  t.add({.name = "long_ago", .last_heartbeat_ms = kLeast, .liveness_ttl_ms = -1});
  t.add({.name = "before_time", .last_heartbeat_ms = kLeast, .liveness_ttl_ms = kLeast});
  t.add({.name = "no_ttl", .last_heartbeat_ms = kNow - 1, .liveness_ttl_ms = 0});
  t.add({.name = "negative_ttl", .last_heartbeat_ms = kNow, .liveness_ttl_ms = -1});
  const TickReport report = t.tick();
  CHECK(report.error_count() == 0);
  CHECK(report.processed == 4);
  CHECK(t.registered() == "for_all_eternity forever");
  CHECK(report.lateness.rows_by_lateness().begin()->first.count() >= 0);
}

TEST_CASE("worker_registry_ttl keeps an event that somebody has written for the same moment") {
  Stage t;
  Json event = swept_event(3, "a", "silent");
  event["reason"] = "by another";
  insert(t.db, "ff_worker_registry_event", event);
  t.add({.name = "silent"});
  CHECK(outcomes(t.tick()) == "swept=1");
  CHECK(t.registered().empty());
  CHECK(row(t.db, "SELECT * FROM ff_worker_registry_event") == event);
}

TEST_CASE("worker_registry_ttl goes by the namespace of the filter, and workers have no tags") {
  Stage t;
  const RowKey foreign = t.add({.name = "foreign", .name_space = "b"});
  t.add({.name = "mine"});
  CHECK(act_on(t.db, reconciler(), {foreign}, for_namespace("a")).empty());
  const TickReport report = t.tick({.filter = for_both("a", {"cairn.instance_id", "1"})});
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(t.registered() == "foreign");
  CHECK(t.tick({.filter = for_tag("1")}).processed == 1);
}

TEST_CASE("worker_registry_ttl leaves a worker alone that sends a heartbeat between looking and acting") {
  Stage t;
  t.add({.name = "late"});
  const auto step_in = [&] {
    t.db.execute("UPDATE ff_worker_registry SET last_heartbeat_ms = $1", pg::Params::of(kNow));
  };
  CHECK(t.tick({.before_acting = step_in}).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(t.registered() == "late");
  CHECK(snapshot(t.db, "ff_worker_registry_event").empty());
}

TEST_CASE("worker_registry_ttl skips a worker whose row is held and takes it later") {
  Stage t;
  t.add({.name = "held"});
  t.add({.name = "free"});
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_worker_registry WHERE worker_instance_id = 'held' FOR UPDATE");
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "swept=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.registered() == "held");
  CHECK(snapshot(t.db, "ff_worker_registry_event").size() == 1);
  holding.rollback();
  CHECK(t.tick().processed == 1);
  CHECK(t.registered().empty());
}

TEST_CASE("worker_registry_ttl changes nothing when it runs again") {
  Stage t;
  t.add({.name = "silent"});
  REQUIRE(t.tick().processed == 1);
  const auto after = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE("worker_registry_ttl tells workers of the same name in two partitions apart") {
  Stage t;
  t.add({.name = "w"});
  t.add({.name = "w", .last_heartbeat_ms = kNow, .partition = 4});
  // Due as well, so that one statement is about both partitions.
  t.add({.name = "silent", .partition = 4});
  CHECK(t.tick().processed == 2);
  CHECK(number(t.db, "SELECT partition_key::bigint FROM ff_worker_registry") == 4);
  CHECK(t.registered() == "w");
  t.add({.name = "both"});
  t.add({.name = "both", .partition = 4});
  CHECK(t.tick().processed == 2);
}

TEST_CASE("a worker is swept though its id is too long for the index of the events") {
  Stage stage;
  std::string id;  // that cannot be compressed
  for (int i = 0; id.size() < 2'680; ++i)
    id +=
        stage.db.execute("SELECT md5($1::text)", pg::Params::of(std::to_string(i))).one().get<std::string>(0);
  id.resize(2'680);
  stage.add({.name = id});
  stage.add({.name = "short"});
  const TickReport report = stage.tick();
  CHECK(outcomes(report) == "swept=2");
  CHECK(stage.registered().empty());
}
