// Whoever may create in a schema of the daemon's path runs nothing with the daemon's rights. Commands: hostile_commands_test.
#include <catch2/catch.hpp>

#include "hostile_stage.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("a running daemon hears of what its triggers announce, whatever is on its path") {
  HostileStage stage;
  RunningDaemon daemon(
      {.conninfo = stage.database.conninfo() + " user=plain", .config = "recovery_grace: 0s\n"});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  CHECK(wait_until([&] {
    return number(stage.admin, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms < 10000") == 0;
  }));
  CHECK_FALSE(daemon.process().err_has("hostile "));
  CHECK(daemon.stop() == 0);
}
