#pragma once

#include <string>

#include "pg/transaction.hpp"
#include "reconcile/family/liveness.hpp"
#include "support/still_stage.hpp"

namespace ff::test {

/// A database whose clock goes on when it is told to, and the engine of a daemon, which remembers.
struct DeadWorkerStage : StillStage {
  DeadWorkerStage()
      : StillStage(*reconcile::find_reconciler("dead_worker")), engine(database, "dead_worker") {}

  static constexpr std::int64_t kTtl = 30'000;
  static constexpr std::int64_t kLeaseEnd = kNow + 300'000;

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
  reconcile::TickReport watch(Milliseconds since) {
    set_clock(since);
    reconcile::TickReport report = engine->tick({.wary = true});
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    return report;
  }
  /// A millisecond later, not for a scan but because the last tick has named this moment: what came of it.
  std::string at_the_moment() {
    advance(engine, Milliseconds{1});
    const reconcile::TickReport report = engine->tick({.scan = false, .wary = true});
    CHECK_FALSE(report.failure);
    next_due = report.next_due;
    return outcomes(report);
  }
  /// The daemon looks each second, to the end of that time.
  void watch_through(Milliseconds from, Milliseconds to) {
    for (Milliseconds at = from; at <= to; at += std::chrono::seconds{1}) watch(at);
  }
  bool is_ended(const Uuid& execution) {
    const Json row = attempt(db, execution);
    return row["lease_expires_at_ms"] != Json(kLeaseEnd) && row["raw_fields"].contains("ended_by");
  }
  std::string by_hand() { return outcomes(tick()); }

  EngineFixture engine;
  std::optional<UnixMillis> next_due{};  // as of at_the_moment()
};

}  // namespace ff::test
