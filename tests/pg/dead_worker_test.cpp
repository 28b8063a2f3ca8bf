// Whose leases dead_worker ends, and whose it does not: a case that changes beside each that must not.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "reconcile/family/liveness.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Skip;
using reconcile::TickOptions;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kTtl = 30'000;
constexpr std::int64_t kLeaseEnd = kNow + 300'000;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("dead_worker");
}

/// A database whose clock goes on when it is told to, and the engine of a daemon, which remembers.
struct Stage : StillStage {
  Stage() : StillStage(reconciler()), engine(database, reconciler()) {}

  void add_worker(const std::string& instance, std::int64_t heartbeat_ms,
                  const std::string& name_space = "a") {
    insert(db, "ff_worker_registry",
           {{"partition_key", reconcile::liveness::register_partition(instance)},
            {"namespace", name_space},
            {"worker_instance_id", instance},
            {"worker_id", "w"},
            {"lanes", {"default"}},
            {"capabilities_csv", ""},
            {"last_heartbeat_ms", heartbeat_ms},
            {"liveness_ttl_ms", kTtl},
            {"registered_at_ms", heartbeat_ms}});
  }
  void add_event(const std::string& instance, const std::string& kind, std::int64_t at_ms,
                 const std::string& name_space = "a") {
    insert(db, "ff_worker_registry_event",
           {{"partition_key", reconcile::liveness::register_partition(instance)},
            {"namespace", name_space},
            {"worker_instance_id", instance},
            {"event_at_ms", at_ms},
            {"event_kind", kind}});
  }
  /// As mark_worker_dead and the sweep do it.
  void remove_worker(const std::string& instance, const std::string& kind, std::int64_t at_ms) {
    pg::Transaction transaction(db);
    transaction.execute("DELETE FROM ff_worker_registry WHERE worker_instance_id = $1",
                        pg::Params::of(instance));
    transaction.execute(
        "INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, "
        "event_at_ms, event_kind) VALUES ($1, 'a', $2, $3, $4)",
        pg::Params::of(reconcile::liveness::register_partition(instance), instance, at_ms, kind));
    transaction.commit();
  }
  void beat(const std::string& instance, std::int64_t at_ms) {
    db.execute("UPDATE ff_worker_registry SET last_heartbeat_ms = $2 WHERE worker_instance_id = $1",
               pg::Params::of(instance, at_ms));
  }
  Uuid add_lease(const std::string& instance, const Json& raw_fields = {{"namespace", "a"}},
                 PartitionKey partition = {3}, const State& state = active()) {
    const Uuid execution =
        insert_core(db, {.partition = partition, .state = state, .raw_fields = raw_fields});
    insert_attempt(db, {.partition = partition,
                        .execution = execution,
                        .lease_expires_at_ms = kLeaseEnd,
                        .started_at_ms = kNow - 100'000});
    db.execute("UPDATE ff_attempt SET worker_instance_id = $2 WHERE execution_id = $1",
               pg::Params::of(execution, instance));
    return execution;
  }
  void renew(const Uuid& execution) {
    db.execute("UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms + 1 WHERE execution_id = $1",
               pg::Params::of(execution));
  }
  TickReport watch(Milliseconds since) {
    set_clock(since);
    TickReport report = engine->tick({.wary = true});
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    return report;
  }
  /// A millisecond later, not for a scan but because the last tick has named this moment: what came of it.
  std::string at_the_moment() {
    advance(engine, 1ms);
    const TickReport report = engine->tick({.scan = false, .wary = true});
    CHECK_FALSE(report.failure);
    next_due = report.next_due;
    return outcomes(report);
  }
  /// The daemon looks each second, to the end of that time.
  void watch_through(Milliseconds from, Milliseconds to) {
    for (Milliseconds at = from; at <= to; at += 1s) watch(at);
  }
  bool is_ended(const Uuid& execution) {
    const Json row = attempt(db, execution);
    return row["lease_expires_at_ms"] != Json(kLeaseEnd) && row["raw_fields"].contains("ended_by");
  }
  std::string by_hand() { return outcomes(tick()); }

  EngineFixture engine;
  std::optional<UnixMillis> next_due{};  // as of at_the_moment()
};

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

TEST_CASE("a daemon knows ahead when a worker dies, and ends its leases then") {
  Stage stage;
  stage.add_worker("w", kNow);
  const Uuid execution = stage.add_lease("w");
  stage.watch_through(0s, 29s);
  const TickReport before = stage.watch(30s);
  CHECK(before.processed == 0);
  CHECK(before.next_due == unix_millis(kNow + kTtl + 1));
  CHECK(outcomes(stage.watch(30'001ms)) == "lease_ended=1");
  CHECK(stage.is_ended(execution));
}

TEST_CASE("at the moment a worker would die a daemon asks what it has done since the last scan") {
  Stage stage;
  stage.add_worker("w", kNow);
  stage.add_worker("other", kNow + 20'000);
  const Uuid execution = stage.add_lease("w");
  stage.watch_through(0s, 30s);
  SECTION("nothing") {
    CHECK(stage.at_the_moment() == "lease_ended=1");
    CHECK(stage.is_ended(execution));
    CHECK(stage.next_due == unix_millis(kNow + 20'000 + kTtl + 1));
  }
  SECTION("it has sent a heartbeat") {
    stage.beat("w", kNow + 30'000);
    CHECK(stage.at_the_moment().empty());
    CHECK(stage.next_due == unix_millis(kNow + 20'000 + kTtl + 1));
  }
  SECTION("it has registered in another namespace") {
    stage.add_worker("w", kNow + 30'000, "b");
    CHECK(stage.at_the_moment().empty());
  }
  SECTION("it has renewed a lease, in whatever partition") {
    stage.renew(stage.add_lease("w", {{"namespace", "b"}}, {200}));
    CHECK(stage.at_the_moment().empty());
  }
  SECTION("it was swept, which is no sign of life") {
    stage.remove_worker("w", "ttl_swept", kNow + 30'000);
    CHECK(stage.at_the_moment() == "lease_ended=1");
  }
  SECTION("of another nothing, until the next scan") {
    const Uuid its = stage.add_lease("other");
    stage.remove_worker("other", "marked_dead", kNow + 30'000);
    CHECK(stage.at_the_moment() == "lease_ended=1");
    CHECK_FALSE(stage.is_ended(its));
    stage.watch(31s);
    CHECK(stage.is_ended(its));
  }
}

TEST_CASE("who was swept and registers again in another namespace just in time is not dead") {
  Stage stage;
  stage.add_worker("w", kNow);
  const Uuid execution = stage.add_lease("w");
  stage.watch_through(0s, 10s);
  stage.renew(execution);
  stage.watch_through(11s, 30s);
  stage.remove_worker("w", "ttl_swept", kNow + 30'500);
  stage.watch_through(31s, 41s);
  CHECK(attempt(stage.db, execution)["raw_fields"].contains("ended_by") == false);
  SECTION("it does") {
    stage.add_worker("w", kNow + 41'000, "b");
    CHECK(stage.at_the_moment().empty());
  }
  SECTION("it does not") {
    CHECK(stage.at_the_moment() == "lease_ended=1");
  }
}

TEST_CASE("a daemon that has just begun gives a worker its time to live, whatever its clock says") {
  Stage stage;
  stage.add_worker("behind", kNow - 90'000);
  const Uuid execution = stage.add_lease("behind");
  stage.watch_through(0s, 30s);
  CHECK_FALSE(stage.is_ended(execution));
  SECTION("and another while its heartbeats change") {
    stage.beat("behind", kNow - 80'000);
    stage.watch_through(31s, 59s);
    CHECK_FALSE(stage.is_ended(execution));
    stage.watch_through(60s, 62s);
  }
  SECTION("and another while its leases are renewed, in whatever partition") {
    const Uuid other = stage.add_lease("behind", {{"namespace", "b"}}, {200});
    stage.watch_through(31s, 59s);
    CHECK_FALSE(stage.is_ended(execution));
    stage.renew(other);
    stage.watch_through(60s, 88s);
    CHECK_FALSE(stage.is_ended(execution));
    stage.watch_through(89s, 92s);
  }
  SECTION("and no more") {
    stage.watch(31s);
  }
  CHECK(stage.is_ended(execution));
}

TEST_CASE("a daemon believes at once who is marked dead, and a sweep once its signs have stood still") {
  Stage stage;
  stage.add_worker("marked", kNow);
  stage.add_worker("swept", kNow - kTtl);
  const Uuid marked = stage.add_lease("marked");
  const Uuid swept = stage.add_lease("swept");
  stage.watch_through(0s, 2s);
  stage.remove_worker("marked", "marked_dead", kNow + 500);
  stage.remove_worker("swept", "ttl_swept", kNow + 500);
  CHECK(outcomes(stage.watch(3s)) == "lease_ended=1");
  CHECK(stage.is_ended(marked));
  stage.watch_through(4s, 29s);
  CHECK_FALSE(stage.is_ended(swept));
  stage.watch_through(30s, 31s);
  CHECK(stage.is_ended(swept));
}

TEST_CASE("who is dead and done with in some partitions is found again in others") {
  Stage stage;
  stage.add_worker("w", kNow);
  const Uuid its = stage.add_lease("w");
  const Uuid elsewhere = stage.add_lease("w", {{"namespace", "a"}}, {200});
  stage.watch_through(0s, 2s);
  stage.remove_worker("w", "marked_dead", kNow + 500);
  CHECK(outcomes(stage.watch(3s)) == "lease_ended=1");
  CHECK(stage.is_ended(its));
  CHECK_FALSE(stage.is_ended(elsewhere));
  reconcile::Scope scope = stage.engine->scope();
  scope.partitions = partition_range({192}, {207});
  stage.engine->set_scope(scope);
  CHECK(outcomes(stage.watch(4s)) == "lease_ended=1");
  CHECK(stage.is_ended(elsewhere));
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

TEST_CASE("who has renewed after its sweep, or registered again, is left to lapse") {
  Stage stage;
  stage.add_worker("renewed", kNow - kTtl);
  stage.add_worker("again", kNow - kTtl);
  const Uuid renewed = stage.add_lease("renewed");
  const Uuid again = stage.add_lease("again");
  stage.watch_through(0s, 2s);
  stage.remove_worker("renewed", "ttl_swept", kNow);
  stage.remove_worker("again", "ttl_swept", kNow);
  stage.renew(renewed);
  stage.add_worker("again", kNow + 2'500);
  for (Milliseconds at = 3s; at <= 90s; at += 1s) {
    stage.beat("again", kNow + at.count());
    stage.watch(at);
  }
  CHECK_FALSE(stage.is_ended(renewed));
  CHECK_FALSE(stage.is_ended(again));
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

TEST_CASE("a lease that somebody holds when its worker is dead is ended by a later look") {
  Stage stage;
  stage.add_worker("w", kNow - 2 * kTtl);
  const Uuid execution = stage.add_lease("w");
  const Uuid free = stage.add_lease("w");
  stage.watch(0s);
  auto holder = stage.database.connect();
  pg::Transaction transaction(holder);
  transaction.execute("SELECT FROM ff_attempt WHERE execution_id = $1 FOR UPDATE", pg::Params::of(execution));
  CHECK(stage.watch(31s).skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(stage.is_ended(free));
  transaction.rollback();
  CHECK(outcomes(stage.watch(32s)) == "lease_ended=1");
  CHECK(stage.is_ended(execution));
}

TEST_CASE("register partitions are FNV-1a of the instance, as FlowFabric has them") {
  CHECK(reconcile::liveness::register_partition("") == 0xcbf29ce484222325U % 256);
  CHECK(reconcile::liveness::register_partition("a") == 0xaf63dc4c8601ec8cU % 256);
  CHECK(reconcile::liveness::register_partition("foobar") == 0x85944171f73967e8U % 256);
}
