// Whoever may create in a schema of the path runs nothing with the rights of who runs a command, be it an administrator.
#include <catch2/catch.hpp>

#include "hostile_stage.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("nothing that others have put on the path of the daemon, or of a superuser, is run") {
  HostileStage stage;
  // They would be, by whoever says nothing of the path.
  auto unwary = stage.database.connect();
  for (const char* sql :
       {"SELECT 2.5 * 2", "SELECT now()", "SELECT rolname FROM pg_roles", "SELECT 'a'::text || 'b'::text"})
    CHECK_THROWS_WITH(unwary.execute(sql), Catch::Contains("hostile"));
  unwary.execute("SET search_path = pg_catalog, public");
  CHECK_THROWS_WITH(unwary.execute("SELECT 2.5 * 2"), Catch::Contains("hostile"));

  const std::string role = GENERATE("plain", "postgres");
  CAPTURE(role);
  const auto check = [&](const std::vector<std::string>& command) {
    const Ended ended = stage.as(role, command);
    CAPTURE(command.front(), ended.out, ended.err);
    CHECK(ended.code == 0);
    CHECK(ended.out.find("hostile ") == std::string::npos);
    CHECK(ended.err.find("hostile ") == std::string::npos);
    return ended.out;
  };
  const std::string execution =
      stage.admin
          .execute("SELECT format('{fp:%s}:%s', partition_key, execution_id) FROM ff_exec_core LIMIT 1")
          .one()
          .get<std::string>(0);
  check({"migrate", "status"});
  check({"status"});
  check({"check-db"});
  if (role == "postgres") check({"pause", "all", "--reason", "nobody else's functions", "--for", "1h"});
  check({"explain", execution});
  const Ended audited = stage.as(role, {"audit"});
  CAPTURE(audited.out, audited.err);
  CHECK(audited.code == 1);  // much of it has been due for long
  CHECK((audited.out + audited.err).find("hostile ") == std::string::npos);
  // The grants of reconcilers are not those of whoever reads everything.
  if (role == "postgres") CHECK(audited.out.find("NOT CHECKED") == std::string::npos);
  std::size_t busy = 0;
  for (const reconcile::Reconciler& reconciler : reconcile::registry())
    if (check({"tick", std::string(reconciler.name), "--gap", "0s"}).find(": 0 due") == std::string::npos)
      ++busy;
  CHECK(busy >= reconcile::registry().size() - 1);
  check({"lease-events"});
  check({"status"});
  if (role == "postgres") check({"resume", "all"});
  CHECK(number(stage.admin, "SELECT count(*) FROM ff_lease_event") > 0);
}
