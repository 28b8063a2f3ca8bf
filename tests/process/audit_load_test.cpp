// `audit` beside workers and a daemon that are at work: what they are just doing is no alarm.
#include <catch2/catch.hpp>

#include "demo/simulation/workload.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("audit finds nothing while workers crash and a daemon rescues their work") {
  const Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = "recovery_grace: 0s\n"});
  simulation::Workload load(database.connector(), {.name = "load", .partitions = partition_range({0}, {31})});
  auto db = database.connect();
  const auto lapses = [&] {
    return number(db, "SELECT count(*) FROM ff_lease_event WHERE event_type = 'expired'");
  };
  REQUIRE(wait_until([&] { return lapses() > 0; }));
  for (int i = 0; i < 3; ++i) {
    const auto before = lapses();
    const Ended found = run_binary({"audit"}, {{"FF_DATABASE_URL", database.conninfo()}});
    CAPTURE(found.err);
    CHECK(found.out == "nothing found by 83 checks over 256 partitions\n");
    CHECK(wait_until([&] { return lapses() > before; }));  // workers went on crashing
  }
  CHECK(load.errors() == std::vector<std::string>{});
}
