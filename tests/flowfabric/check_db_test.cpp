// `check-db` on a schema that FlowFabric itself made, under a role that has what `migrate grants` prints for it.
#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "support/flowfabric.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// A role of its own, gone with the object.
struct Role {
  explicit Role(const FlowFabricDatabase& database) : db(database.connect()) {
    db.execute("CREATE ROLE checks_flowfabric LOGIN");
  }
  ~Role() { db.execute_script("DROP OWNED BY checks_flowfabric; DROP ROLE checks_flowfabric"); }

  pg::Connection db;
};

std::vector<Json> check_db(const std::string& conninfo, int code) {
  const Ended done = run_binary({"check-db", "--json"}, {{"FF_DATABASE_URL", conninfo}});
  CAPTURE(done.out, done.err);
  CHECK(done.code == code);
  std::vector<Json> lines;
  std::istringstream text(done.out);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE(
    "check-db finds no fault with a schema that FlowFabric made once migrate up has added what is ours and "
    "what migrate "
    "grants prints is granted") {
  const FlowFabricDatabase database;
  Role role(database);
  const std::string as_role = database.conninfo() + " user=checks_flowfabric";

  std::set<std::string> ungranted;
  for (const Json& line : check_db(as_role, 1))
    if (line["verdict"] == "problem") ungranted.insert(line["check"].get<std::string>());
  CHECK(ungranted.contains("privileges"));
  CHECK_FALSE(ungranted.contains("indexes"));

  const Ended up = run_binary({"migrate", "up"}, {{"FF_DATABASE_URL", database.conninfo()}});
  CAPTURE(up.out, up.err);
  REQUIRE(up.code == 0);
  const Ended grants = run_binary({"migrate", "grants", "--role", "checks_flowfabric"},
                                  {{"FF_DATABASE_URL", database.conninfo()}});
  REQUIRE(grants.code == 0);
  role.db.execute_script(grants.out + "GRANT pg_read_all_stats TO checks_flowfabric");
  std::set<std::string> fine;
  for (const Json& line : check_db(as_role, 0)) {
    CAPTURE(line.dump());
    const auto check = line["check"].get<std::string>();
    if (line["verdict"] == "fine") fine.insert(check);
    // No daemon is at work, and what FlowFabric left of its rows may be dead.
    if (check != "replicas" && check != "dead_rows") CHECK(line["verdict"] == "fine");
    if (check == "schema")
      CHECK_THAT(line["text"].get<std::string>(), Catch::StartsWith("made by FlowFabric, version "));
  }
  for (const char* check :
       {"schema", "privileges", "indexes", "triggers", "partitions", "pauses", "scan", "locks", "listen"}) {
    CAPTURE(check);
    CHECK(fine.contains(check));
  }
}
