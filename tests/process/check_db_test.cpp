// `check-db` as an operator runs it: what it prints, that what it says to paste mends what it found, and how it exits.
// What it looks at, one by one: tests/pg.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "support/database.hpp"
#include "support/pooler.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"
#include "testserver/private_server.hpp"

using namespace ff;
using namespace ff::test;
using Catch::Matchers::Contains;

namespace {

struct Told {
  int code;
  std::vector<Json> lines;

  /// Those of one check that are not fine.
  std::vector<Json> faults(const std::string& check) const {
    std::vector<Json> found;
    for (const Json& line : lines)
      if (line["check"] == check && line["verdict"] != "fine") found.push_back(line);
    return found;
  }
  std::vector<Json> problems() const {
    std::vector<Json> found;
    for (const Json& line : lines)
      if (line["verdict"] == "problem") found.push_back(line);
    return found;
  }
};

Environment over(const std::string& partitions) {
  return {{"FF_RECONCILER_PARTITIONS", partitions}};
}

Told check_db(const std::string& conninfo, Environment environment = {}) {
  environment["FF_DATABASE_URL"] = conninfo;
  const Ended done = run_binary({"check-db", "--json"}, over_one_group(std::move(environment)));
  CAPTURE(done.err);
  CHECK(done.err.empty());
  Told told{done.code, {}};
  std::istringstream text(done.out);
  for (std::string line; std::getline(text, line);) told.lines.push_back(Json::parse(line));
  return told;
}

/// A role with what `migrate grants` prints, in a database of its own; it goes with it.
struct Bench {
  Bench() {
    db.execute_script("CREATE ROLE checked LOGIN");
    const Ended grants =
        run_binary({"migrate", "grants", "--role", "checked"}, {{"FF_DATABASE_URL", database.conninfo()}});
    db.execute_script(grants.out + "GRANT pg_read_all_stats TO checked");
  }
  ~Bench() { db.execute_script("RESET ROLE; DROP OWNED BY checked; DROP ROLE checked"); }
  std::string as_role() const { return database.conninfo() + " user=checked"; }
  Told ask(const Environment& environment = {}) const { return check_db(as_role(), environment); }

  Database database;
  pg::Connection db = database.connect();
};

}  // namespace

TEST_CASE("check-db of a database that is fit ends with 0, writes nothing, and prints an object a line") {
  Bench bench;
  const auto before = snapshot(bench.db);
  const Told told = bench.ask(over("all"));
  CHECK(told.code == 0);
  std::set<std::string> checks;
  for (const Json& line : told.lines) {
    CAPTURE(line.dump());
    REQUIRE(line.size() == 4);
    CHECK(line.contains("text"));
    CHECK((line["verdict"] == "fine" ? line["next"].is_null() : !line["next"].get<std::string>().empty()));
    CHECK(line["verdict"] != "problem");
    checks.insert(line["check"].get<std::string>());
  }
  CHECK(
      checks ==
      std::set<std::string>{
          "reachable",       "writable",   "server_version", "tls",       "connections", "locked_tables",
          "privileges",      "schema",     "indexes",        "triggers",  "partitions",  "pauses",
          "replicas",        "scan",       "locks",          "strangers", "listen",      "long_transactions",
          "oldest_snapshot", "autovacuum", "dead_rows",      "encoding",  "statistics",  "row_triggers"});
  CHECK(told.faults("scan").empty());
  CHECK(diff(before, snapshot(bench.db)).empty());

  const Ended text = run_binary({"check-db"}, {{"FF_DATABASE_URL", bench.as_role()}});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::StartsWith("fine     reachable ") && Contains("\n0 problems, "));
}

TEST_CASE("check-db names an index that was dropped, and what it says to paste mends it") {
  Bench bench;
  bench.db.execute("DROP INDEX ff_attempt_lease_expiry_idx");
  const Told told = bench.ask();
  CHECK(told.code == 1);
  const auto faults = told.faults("indexes");
  REQUIRE(faults.size() == 1);
  const Ended psql = run({"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", bench.database.conninfo()}, {},
                         faults[0]["next"].get<std::string>());
  CAPTURE(psql.err);
  CHECK(psql.code == 0);
  CHECK(bench.ask().code == 0);
}

TEST_CASE("check-db names each privilege that is missing, and what it says to paste grants it") {
  Bench bench;
  bench.db.execute_script(
      "REVOKE UPDATE ON ff_attempt FROM checked; REVOKE USAGE ON SEQUENCE ff_lease_event_event_id_seq FROM "
      "checked");
  const Told told = bench.ask();
  CHECK(told.code == 1);
  const auto faults = told.faults("privileges");
  REQUIRE(faults.size() == 2);
  CHECK(faults[0]["next"] == "GRANT UPDATE ON TABLE public.ff_attempt TO checked;");
  CHECK(faults[1]["next"] == "GRANT USAGE ON SEQUENCE public.ff_lease_event_event_id_seq TO checked;");
  // Of the others each is looked at all the same, and each that cannot be is named.
  const auto scans = told.faults("scan");
  REQUIRE(!scans.empty());
  for (const Json& scan : scans) {
    CAPTURE(scan.dump());
    const auto text = scan["text"].get<std::string>();
    CHECK_THAT(text, Catch::Contains("permission denied") && !Catch::StartsWith("it "));
  }
  for (const Json& fault : faults) bench.db.execute_script(fault["next"].get<std::string>());
  CHECK(bench.ask().code == 0);

  bench.db.execute("REVOKE SELECT ON ff_budget_policy FROM checked");
  const Told reading = bench.ask({{"FF_RECONCILER_RECONCILERS_BUDGET_RESET_ENABLED", "false"}});
  CHECK(reading.code == 0);  // status alone would look at it
  REQUIRE(reading.faults("privileges").size() == 1);
  CHECK(reading.faults("privileges")[0]["verdict"] == "warning");
}

TEST_CASE("check-db names row-level security, other commands name check-db, and what it says lifts it") {
  Bench bench;
  bench.db.execute("ALTER TABLE ff_attempt ENABLE ROW LEVEL SECURITY");
  const Told told = bench.ask();
  CHECK(told.code == 1);
  const auto faults = told.faults("privileges");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0]["verdict"] == "problem");
  CHECK_THAT(faults[0]["text"].get<std::string>(), Contains("public.ff_attempt"));
  const Ended refused = run_binary({"status"}, {{"FF_DATABASE_URL", bench.as_role()}});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Contains("row-level security policy") && !Contains("migrate grants") &&
                              Contains("ff-reconcilerd check-db names the tables"));
  bench.db.execute_script(faults[0]["next"].get<std::string>());
  CHECK(bench.ask().code == 0);
}

TEST_CASE("without any rights check-db counts no locks, and commands that read say who grants them") {
  Bench bench;
  bench.db.execute_script("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM checked");
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"explain", "{fp:0}:" + to_string(new_uuid())},
                                             {"audit"},
                                             {"lease-events"},
                                             {"tick", "lease_expiry"}}) {
    CAPTURE(command);
    const Ended refused = run_binary(command, {{"FF_DATABASE_URL", bench.as_role()}});
    CHECK(refused.code == 1);
    CHECK_THAT(refused.err, Contains("permission denied") &&
                                Catch::EndsWith("; as the owner of the tables: ff-reconcilerd migrate grants "
                                                "--role NAME\n"));
  }
  bench.db.execute_script("GRANT SELECT ON ff_reconciler_migration, ff_partition_config TO checked");
  const Told told = bench.ask();
  CHECK(told.code == 1);
  CHECK_FALSE(told.faults("privileges").empty());
  REQUIRE(told.faults("locks").size() == 1);
  CHECK(told.faults("locks")[0]["verdict"] == "skipped");
}

TEST_CASE("check-db names the limit below what a daemon takes, and what it says to paste raises it") {
  const Bench bench;
  const auto [limit, verdict] =
      GENERATE(table<std::string, std::string>({{"ALTER ROLE checked CONNECTION LIMIT 9", "warning"},
                                                {"ALTER ROLE checked CONNECTION LIMIT 1", "problem"},
                                                {"ALTER DATABASE %I CONNECTION LIMIT 9", "warning"}}));
  CAPTURE(limit);
  auto db = bench.database.connect();
  db.execute_script("DO $$ BEGIN EXECUTE format('" + limit + "', current_database()); END $$");
  const auto faults = bench.ask().faults("connections");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0]["verdict"] == verdict);
  CHECK_THAT(faults[0]["text"].get<std::string>(), Catch::EndsWith("sessions, and a daemon takes up to 10"));
  db.execute(faults[0]["next"].get<std::string>());
  CHECK(bench.ask().faults("connections").empty());
}

TEST_CASE("check-db says where it was set that nothing is written") {
  Bench bench;
  const std::string role = "ALTER ROLE checked IN DATABASE " + bench.database.name();
  bench.db.execute(role + " SET default_transaction_read_only = on");
  const Told of_role = bench.ask();
  REQUIRE(of_role.problems().size() == 1);
  CHECK(of_role.problems()[0]["next"] == role + " RESET default_transaction_read_only;");
  bench.db.execute(role + " RESET default_transaction_read_only");
  CHECK(bench.ask().code == 0);
}

TEST_CASE("check-db names who has locked a whole table, and other commands name check-db") {
  Bench bench;
  auto somebody = bench.database.connect();
  somebody.execute("SET application_name = 'a migration'");
  somebody.execute("BEGIN");
  somebody.execute("LOCK TABLE ff_attempt IN ACCESS EXCLUSIVE MODE");
  const auto pid = somebody.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  const auto faults = bench.ask().faults("locked_tables");
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults[0]["text"].get<std::string>(), Catch::Contains("ff_attempt is locked") &&
                                                       Catch::Contains("(a migration), idle in transaction"));
  CHECK_THAT(faults[0]["next"].get<std::string>(),
             Catch::Contains("pg_terminate_backend(" + std::to_string(pid) + ")"));
  const Ended explained = run_binary({"explain", "{fp:0}:" + to_string(new_uuid())},
                                     {{"FF_DATABASE_URL", bench.database.conninfo()}});
  CHECK(explained.code == 1);
  CHECK_THAT(explained.err, Catch::Contains("lock timeout") && Catch::Contains("-> ff-reconcilerd check-db"));
}

TEST_CASE("check-db of a role that may not use the schema says so and grants it") {
  Bench bench;
  bench.db.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC");
  const Told told = bench.ask();
  CHECK(told.code == 1);
  REQUIRE(told.problems().size() == 1);
  CHECK(told.problems()[0]["next"] == "GRANT USAGE ON SCHEMA public TO checked;");
  bench.db.execute_script(told.problems()[0]["next"].get<std::string>());
  CHECK(bench.ask().code == 0);
}

TEST_CASE("check-db of a server that takes no writes looks at the rest all the same") {
  Bench bench;
  bench.db.execute("ALTER DATABASE " + bench.database.name() + " SET default_transaction_read_only = on");
  const Told told = bench.ask();
  CHECK(told.code == 1);
  REQUIRE(told.problems().size() == 1);
  CHECK(told.problems()[0]["check"] == "writable");
  CHECK(told.problems()[0]["next"] ==
        "ALTER DATABASE " + bench.database.name() + " RESET default_transaction_read_only;");
  CHECK(told.faults("listen").size() == 1);
  CHECK(told.faults("indexes").empty());
}

TEST_CASE("check-db of a standby says that it is one") {
  testserver::PrivateServer server;
  server.create_database("flow");
  const std::string conninfo = server.conninfo("flow");
  REQUIRE(run_binary({"migrate", "up", "--fan-out", "2"}, {{"FF_DATABASE_URL", conninfo}}).code == 0);
  server.stop();
  std::ofstream(server.data() / "standby.signal").close();
  server.start();
  const Told told = check_db(conninfo);
  CHECK(told.code == 1);
  REQUIRE(told.problems().size() == 1);
  CHECK_THAT(told.problems()[0]["text"].get<std::string>(), Contains("standby"));
  CHECK(told.faults("scan").empty());
}

TEST_CASE("check-db says which partitions of the configuration are not there") {
  Bench bench;
  const Told some = bench.ask(over("0-63"));
  CHECK(some.code == 0);
  const Told beyond = bench.ask(over("250-260"));
  CHECK(beyond.code == 1);
  REQUIRE(beyond.faults("partitions").size() == 1);
  CHECK_THAT(beyond.faults("partitions")[0]["text"].get<std::string>(), Contains("256-260"));
}

TEST_CASE("check-db of a database without a schema is a problem and no crash") {
  const Database empty{empty_database()};
  const Told told = check_db(empty.conninfo());
  CHECK(told.code == 1);
  REQUIRE(told.problems().size() == 1);
  CHECK_THAT(told.problems()[0]["next"].get<std::string>(), Contains("ff-reconcilerd migrate up"));
}

TEST_CASE("check-db warns of what harms without stopping the daemon, and ends with 0") {
  Bench bench;
  bench.db.execute_script(
      "GRANT CREATE ON SCHEMA public TO checked; ALTER TABLE ff_lease_event DISABLE TRIGGER USER;"
      "ALTER TABLE ff_exec_core_p1 SET (autovacuum_enabled = off)");
  const Told told = bench.ask();
  CHECK(told.code == 0);
  for (const char* check : {"strangers", "triggers", "autovacuum"}) {
    CAPTURE(check);
    REQUIRE_FALSE(told.faults(check).empty());
    CHECK(told.faults(check).back()["verdict"] == "warning");
  }
}

TEST_CASE("check-db warns of a trigger that may drop what is written, and what it says switches it off") {
  Bench bench;
  bench.db.execute_script(
      "CREATE FUNCTION forgets() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
      "CREATE TRIGGER guard BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION forgets()");
  const Told told = bench.ask();
  CHECK(told.code == 0);
  const auto faults = told.faults("row_triggers");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0]["verdict"] == "warning");
  CHECK_THAT(
      faults[0]["text"].get<std::string>(),
      Catch::StartsWith("BEFORE trigger guard acts on each row that is written to public.ff_attempt: "));
  const auto next = faults[0]["next"].get<std::string>();
  CHECK_THAT(next, Catch::StartsWith("SELECT pg_get_functiondef('public.forgets()'::regprocedure); -- "));
  bench.db.execute_script(next.substr(0, next.find(" -- ")));
  bench.db.execute_script(next.substr(next.find("ALTER TABLE")));
  CHECK(bench.ask().faults("row_triggers").empty());
}

TEST_CASE("check-db ends with 69 where nothing answers, with 64 for a line that it cannot read") {
  const std::string nowhere = "host=/nonexistent dbname=x user=y password=geheim";
  const Told told = check_db(nowhere);
  CHECK(told.code == 69);
  REQUIRE(told.lines.size() == 1);
  CHECK(told.lines[0]["check"] == "reachable");
  CHECK_THAT(told.lines[0].dump(), !Contains("geheim"));
  CHECK(run_binary({"check-db", "stray"}, {{"FF_DATABASE_URL", nowhere}}).code == 64);
  CHECK(run_binary({"check-db", "--dry-run"}, {{"FF_DATABASE_URL", nowhere}}).code == 64);
}

TEST_CASE(
    "check-db through PgBouncer says that its transaction mode swallows notifications, and how many sessions "
    "its session mode needs") {
  const auto [mode, verdict, column, said] =
      GENERATE(table<std::string, std::string, std::string, std::string>(
          {{"session", "fine", "text", "has to be 10 or more"},
           {"transaction", "warning", "next", "pool_mode = session"}}));
  CAPTURE(mode);
  const Database database;
  const Pooler pooler(Database::server(), mode);
  for (int i = 0; i < 2; ++i) {  // what the first leaves in a session, the second would meet
    const Told told = check_db(database.conninfo() + pooler.detour());
    CHECK(told.code == 0);
    CHECK(told.faults("scan").empty());
    const auto listen =
        std::ranges::find(told.lines, "listen", [](const Json& line) { return line["check"]; });
    REQUIRE(listen != told.lines.end());
    CHECK((*listen)["verdict"] == verdict);
    CHECK_THAT((*listen)[column].get<std::string>(), Contains(said));
  }
}

TEST_CASE("check-db through PgBouncer's statement mode says which line to change") {
  const Database database;
  const Pooler pooler(Database::server(), "statement");
  const Told told = check_db(database.conninfo() + pooler.detour());
  CHECK(told.code == 69);
  REQUIRE(told.lines.size() == 1);
  CHECK_THAT(told.lines[0]["text"].get<std::string>(),
             Contains("it needs pool_mode = session or transaction"));
  CHECK_THAT(told.lines[0]["next"].get<std::string>(), Contains("set pool_mode = transaction"));
}

TEST_CASE("check-db sees the daemons that are at work, and what they look after") {
  Bench bench;
  REQUIRE(bench.ask(over("all")).faults("replicas").size() == 1);
  RunningDaemon daemon({.conninfo = bench.as_role(), .config = "partitions: 0-99\n"});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  const auto some = bench.ask(over("all")).faults("replicas");
  REQUIRE(some.size() == 1);
  CHECK_THAT(some[0]["text"].get<std::string>(), Contains("covers partitions 100-255"));
  RunningDaemon other({.conninfo = bench.as_role(), .config = "partitions: all\n"});
  REQUIRE(wait_until([&] { return other.ready(); }));
  CHECK(bench.ask(over("all")).faults("replicas").empty());
  CHECK(daemon.stop() == 0);
  CHECK(other.stop() == 0);
}
