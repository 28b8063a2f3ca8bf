// Workers as FlowFabric registers them, and their leases once they are silent or marked dead.
#include "world.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr std::int64_t kLongLease = 300'000;

/// One worker named so, and what it claims.
struct DeadWorkerWorld : World {
  void enter(const std::string& instance, std::int64_t ttl_ms, const std::string& name_space = "default") {
    real.call("register_worker", {{"instance", instance}, {"ttl_ms", ttl_ms}, {"namespace", name_space}});
  }
  std::string leased_by(const std::string& instance, const std::string& way = "claim_execution",
                        const std::string& handle = "h") {
    const std::string made = execution({{"namespace", "default"}});
    take(way, made, handle, kLongLease, {{"instance", instance}});
    return made;
  }
};

}  // namespace

TEST_CASE(
    "what a silent worker holds can be claimed long before its lease would lapse, however it was claimed") {
  // Claims of the operator have no worker's name.
  for (const char* way : {"claim", "claim_execution"}) {
    INFO(way);
    DeadWorkerWorld world;
    world.enter("silent", 1);
    const std::string execution = world.leased_by("silent", way);
    CHECK(world.tick("lease_expiry").empty());
    CHECK(world.tick("dead_worker") == "lease_ended=1");
    CHECK(world.tick("lease_expiry") == "reclaimable=1");
    CHECK(world.real.refusal("renew", {{"handle", "h"}}) == "Contention.LeaseConflict");
    CHECK(world.taken_by("claim", execution).empty());
  }
}

TEST_CASE("a worker that beats, claims, is not registered or is the operator's keeps its leases") {
  DeadWorkerWorld world;
  world.enter("beating", 60'000);
  world.enter("operator", 1);
  world.leased_by("beating", "claim_execution", "a");
  world.leased_by("operator", "claim_execution", "b");
  world.leased_by("unknown", "claim_execution", "c");
  CHECK(world.real.call("heartbeat_worker", {{"instance", "beating"}}).at("outcome") != "NotRegistered");
  CHECK(world.tick("dead_worker").empty());
  for (const char* handle : {"a", "b", "c"}) CHECK(world.real.refusal("renew", {{"handle", handle}}).empty());
}

TEST_CASE("who is marked dead or swept loses its leases, and who registers anew under its name keeps them") {
  DeadWorkerWorld world;
  world.enter("marked", 60'000);
  world.enter("swept", 1);
  world.enter("again", 60'000);
  const std::string marked = world.leased_by("marked", "claim_execution", "a");
  const std::string swept = world.leased_by("swept", "claim_execution", "b");
  world.leased_by("again", "claim_execution", "c");
  world.pass();
  for (const char* instance : {"marked", "again"})
    CHECK(world.real.call("mark_worker_dead", {{"instance", instance}}).at("outcome") == "Marked");
  world.enter("again", 60'000);
  EngineOptions everywhere;
  everywhere.partitions = partition_range({0}, {255});
  CHECK(world.tick("worker_registry_ttl", everywhere) == "swept=1");
  CHECK(world.tick("dead_worker") == "lease_ended=2");
  CHECK(world.attempt(marked).at("raw_fields").contains("ended_by"));
  CHECK(world.attempt(swept).at("raw_fields").contains("ended_by"));
  CHECK(world.real.refusal("renew", {{"handle", "c"}}).empty());
}

TEST_CASE("a worker whose lease was ended keeps it by its handle until it is taken, and not typed") {
  DeadWorkerWorld world;
  world.enter("silent", 1);
  const std::string by_handle = world.leased_by("silent", "claim", "a");
  const std::string typed = world.leased_by("silent", "claim_execution", "b");
  CHECK(world.tick("dead_worker") == "lease_ended=2");
  world.pass();
  CHECK(world.real.refusal("renew", {{"handle", "a"}}).empty());
  CHECK_FALSE(world.real.refusal("renew_lease", {{"handle", "b"}}).empty());
  CHECK(world.tick("lease_expiry") == "reclaimable=1");
  CHECK(world.core(by_handle).at("lifecycle_phase") == "active");
  CHECK(world.core(typed).at("lifecycle_phase") == "runnable");
}

TEST_CASE("an execution of another namespace, and a worker that lives in another, are left alone") {
  DeadWorkerWorld world;
  world.enter("elsewhere", 1, "tenant");
  world.enter("both", 1);
  world.enter("both", 60'000, "tenant");
  world.leased_by("elsewhere", "claim_execution", "a");
  world.leased_by("both", "claim_execution", "b");
  CHECK(world.tick("dead_worker") == "other_namespace=1");
  for (const char* handle : {"a", "b"}) CHECK(world.real.refusal("renew", {{"handle", handle}}).empty());
}
