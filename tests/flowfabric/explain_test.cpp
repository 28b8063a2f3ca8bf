// What `explain` says of rows that the real FlowFabric wrote.
#include "flow.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::string explained(World& world, const std::string& execution) {
  const Ended ended = run_binary({"explain", execution}, {{"FF_DATABASE_URL", world.conninfo()}});
  CHECK(ended.code == 0);
  return ended.out;
}

}  // namespace

TEST_CASE("explain tells how an execution ended that FlowFabric calls running still") {
  World world;
  Flow flow(world);
  flow.claim("downstream", "parent");
  world.real.call("wait_children", {{"handle", "parent"}});
  flow.succeeds(0);
  world.pass();

  CHECK_THAT(explained(world, flow.upstream[0]), Catch::Contains("it has ended as completed"));
  const std::string waiting = explained(world, flow.downstream);
  CHECK_THAT(waiting,
             Catch::Contains("\nupstream    " + flow.upstream[0] + " completed, its end not passed on yet"));
  CHECK_THAT(waiting,
             Catch::Contains(flow.upstream[0] + " ended as completed, and nobody has passed that on"));
  // By when it has been due for long enough.
  CHECK_THAT(waiting, Catch::Contains("tick dependency --execution '" + flow.upstream[0] + "'") ||
                          Catch::Contains("wait: dependency passes it on"));
}

TEST_CASE("explain calls the end of a worker's delay no deadline") {
  World world;
  const std::string execution = world.execution();
  world.take("claim", execution);
  world.real.call("delay", {{"handle", "h"}, {"delay_in_ms", 3'600'000}});

  CHECK_THAT(explained(world, execution),
             Catch::Contains("\ndelay       in 59 m ") && !Catch::Contains("\ndeadline "));
}

TEST_CASE("explain says to whom a lapsed lease is promised, and what else the real rows of a lease tell") {
  World world;
  const std::string execution = world.execution();
  world.take("claim_execution", execution, "late", 1);
  world.pass();
  CHECK_THAT(explained(world, execution),
             Catch::Contains("lease_lapsed") && Catch::Contains("attempt     0 (current) by "));
  world.real.call("issue_reclaim_grant", {{"execution", execution}, {"worker", "w2"}});
  CHECK_THAT(explained(world, execution),
             Catch::Contains("lease_promised") && Catch::Contains("promised to w2"));
}
