// The smallest lives with the real FlowFabric, one operation after another.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/flowfabric.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("an execution of the real FlowFabric is created, claimed and completed") {
  FlowFabricDatabase database;
  FlowFabric& flowfabric = database.flowfabric();
  auto connection = database.connect();

  const Json made = flowfabric.call("create_execution", {{"partition", 3}, {"runnable", "pending"}});
  const Json lease = flowfabric.call("claim", {{"as", "h"}, {"worker", "w1"}});
  CHECK(lease.at("execution") == made.at("execution"));
  CHECK(lease.at("attempt") == 0);
  flowfabric.call("complete", {{"handle", "h"}});

  CHECK(
      number(connection,
             "SELECT count(*) FROM ff_exec_core WHERE partition_key = 3 AND lifecycle_phase = 'terminal'") ==
      1);
  CHECK(lease_events(connection).size() == 2);
  CHECK(completion_events(connection).at(0).at("outcome") == "success");
}

TEST_CASE("each case begins with empty tables") {
  FlowFabricDatabase database;
  auto connection = database.connect();

  CHECK(number(connection, "SELECT count(*) FROM ff_exec_core") == 0);
  CHECK(database.flowfabric().call("claim").is_null());
}

TEST_CASE("what FlowFabric refuses is named by the variants of its error") {
  FlowFabricDatabase database;
  FlowFabric& flowfabric = database.flowfabric();

  const Json made = flowfabric.call("create_execution", {{"runnable", "pending"}});
  flowfabric.call("claim", {{"as", "h"}});
  CHECK(flowfabric.refusal("claim_execution", {{"execution", made.at("execution")}}) ==
        "Contention.ExecutionNotActive");
  flowfabric.call("remake_handle",
                  {{"as", "stale"}, {"execution", made.at("execution")}, {"attempt", 0}, {"epoch", 99}});
  CHECK(flowfabric.refusal("renew", {{"handle", "stale"}}) == "Contention.LeaseConflict");
  CHECK(flowfabric.refusal("renew", {{"handle", "h"}}).empty());
}
