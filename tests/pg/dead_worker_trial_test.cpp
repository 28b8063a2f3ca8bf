// Workers that flap, beat by one sign and then by another, register anew and change their names, on a clock that is
// moved on: whoever gives a sign within its time to live keeps its leases, whoever dies loses them. No clock is behind by
// less than two seconds, for which that time is shorter.
// FF_DEAD_WORKER_WORKERS says how many there are, FF_DEAD_WORKER_STEPS how long.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <random>

#include "reconcile/family/liveness.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

struct Worker {
  std::string name;
  std::int64_t ttl_ms;
  std::int64_t skew_ms;  // of its clock
  bool beats;            // else it renews
  std::int64_t next_sign_ms;
  std::int64_t last_sign_ms;
  std::optional<std::int64_t> dies_ms;
  std::vector<Uuid> executions;
};

struct Trial : StillStage {
  Trial() : StillStage(*reconcile::find_reconciler("dead_worker")), engine(database, "dead_worker") {}

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  }

  void enter(Worker& worker) {
    const std::int64_t at = kNow + since_ms + worker.skew_ms;
    db.execute(
        "INSERT INTO ff_worker_registry VALUES ($1, 'a', $2, 'w', '{}', '', $3, $4, $3) ON CONFLICT "
        "(partition_key, namespace, worker_instance_id) DO UPDATE SET last_heartbeat_ms = $3",
        pg::Params::of(reconcile::liveness::register_partition(worker.name), worker.name, at, worker.ttl_ms));
    event(worker, "registered", at);
  }
  void event(const Worker& worker, const std::string& kind, std::int64_t at) {
    db.execute("INSERT INTO ff_worker_registry_event VALUES ($1, 'a', $2, $3, $4) ON CONFLICT DO NOTHING",
               pg::Params::of(reconcile::liveness::register_partition(worker.name), worker.name, at, kind));
  }
  void claim(Worker& worker) {
    const PartitionKey partition{static_cast<std::int16_t>(draw(0, 15))};
    const Uuid execution = insert_core(db, {.partition = partition, .raw_fields = {{"namespace", "a"}}});
    insert_attempt(db, {.partition = partition,
                        .execution = execution,
                        .lease_expires_at_ms = kNow + 1'000'000'000,
                        .started_at_ms = kNow + since_ms + worker.skew_ms});
    db.execute("UPDATE ff_attempt SET worker_instance_id = $2 WHERE execution_id = $1",
               pg::Params::of(execution, worker.name));
    worker.executions.push_back(execution);
    ++leases;
  }
  void rename(Worker& worker) {
    worker.name = "w" + std::to_string(++names);
    for (const Uuid& execution : worker.executions)
      db.execute("UPDATE ff_attempt SET worker_instance_id = $2 WHERE execution_id = $1",
                 pg::Params::of(execution, worker.name));
    enter(worker);
  }
  // One sign of whatever kind, as its clock has it.
  void sign(Worker& worker) {
    const std::int64_t at = kNow + since_ms + worker.skew_ms;
    const std::int64_t what = draw(0, 19);
    if (what == 0) rename(worker);
    if (what == 1) claim(worker);
    if (what == 2) worker.beats = !worker.beats;
    if (worker.beats) {
      const auto beaten = db.execute(
          "UPDATE ff_worker_registry SET last_heartbeat_ms = $3 WHERE worker_instance_id = $2 AND "
          "partition_key = $1 "
          "AND last_heartbeat_ms + liveness_ttl_ms > $3",
          pg::Params::of(reconcile::liveness::register_partition(worker.name), worker.name, at));
      if (beaten.affected() == 0)
        enter(worker);
      else
        event(worker, "heartbeat", at);
    } else {
      db.execute(
          "UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms + 1 WHERE execution_id = $1",
          pg::Params::of(worker.executions.at(
              static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(worker.executions.size()) - 1)))));
    }
    worker.last_sign_ms = since_ms;
    worker.next_sign_ms = since_ms + draw(worker.ttl_ms / 10, worker.ttl_ms * 9 / 10);
  }
  void step() {
    since_ms += draw(100, 1'000);
    set_clock(Milliseconds{since_ms});
    for (Worker& worker : workers)
      if (since_ms >= worker.next_sign_ms && !(worker.dies_ms && since_ms >= *worker.dies_ms)) sign(worker);
    const auto report = engine->tick({.wary = true});
    REQUIRE_FALSE(report.failure);
    judge();
  }
  void judge() {
    for (const pg::Row row :
         db.execute("SELECT DISTINCT worker_instance_id FROM ff_attempt WHERE raw_fields ? 'ended_by'")) {
      const auto name = row.get<std::string>(0);
      const auto found = std::ranges::find(workers, name, &Worker::name);
      REQUIRE(found != workers.end());
      INFO(name << " gave a sign at " << found->last_sign_ms << ", lives " << found->ttl_ms << ", it is "
                << since_ms << ", its clock is ahead by " << found->skew_ms);
      REQUIRE(since_ms - found->last_sign_ms >= found->ttl_ms);
      ended.insert(name);
    }
  }

  EngineFixture engine;
  std::mt19937_64 random{20'261'124};
  std::int64_t since_ms = 0;
  std::vector<Worker> workers;
  std::set<std::string> ended;
  std::int64_t leases = 0;
  int names = 0;
};

}  // namespace

TEST_CASE("whoever gives a sign of life within its time to live keeps its leases, whoever dies loses them") {
  Trial trial;
  const int workers = number_of("FF_DEAD_WORKER_WORKERS", 24);
  const int steps = number_of("FF_DEAD_WORKER_STEPS", 90);
  for (int i = 0; i < workers; ++i) {
    Worker worker{"w" + std::to_string(++trial.names),
                  trial.draw(4'000, 12'000),
                  i % 3 == 0 ? 0 : trial.draw(-60'000, -2'000),
                  i % 2 == 0,
                  0,
                  0,
                  {},
                  {}};
    if (i % 4 == 3) worker.dies_ms = trial.draw(1'000, 15'000);
    trial.enter(worker);
    for (std::int64_t claims = trial.draw(1, 5); claims > 0; --claims) trial.claim(worker);
    worker.next_sign_ms = trial.draw(0, worker.ttl_ms / 2);
    trial.workers.push_back(worker);
  }
  for (int i = 0; i < steps; ++i) trial.step();
  const auto died =
      std::ranges::count_if(trial.workers, [](const Worker& worker) { return worker.dies_ms.has_value(); });
  std::cout << trial.leases << " leases of " << workers << " workers under " << trial.names << " names, "
            << died << " died and " << trial.ended.size() << " lost their leases\n";
  CHECK(static_cast<std::ptrdiff_t>(trial.ended.size()) == died);
}
