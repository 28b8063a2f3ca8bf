// The commands that end by themselves, but for `tick`: what they print and how they exit. Scripts rely on these. What
// they make of a configuration: check_config_test.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::set<std::string> keys(const Json& object) {
  std::set<std::string> all;
  for (const auto& [key, value] : object.items()) all.insert(key);
  return all;
}

Environment at(const Database& database) {
  return {{"FF_DATABASE_URL", database.conninfo()}};
}

const Json& line_of(const Json& status, const std::string& reconciler) {
  for (const Json& line : status["reconcilers"])
    if (line["reconciler"] == reconciler) return line;
  throw std::runtime_error("no line for " + reconciler);
}

}  // namespace

TEST_CASE("status --json says what is due by exactly the keys that scripts rely on") {
  Database database;
  auto db = database.connect();
  const std::int64_t due_at = now_ms(db) - 1000;
  const Uuid id = insert_core(db, {.partition = {7}});
  insert_attempt(db, {.partition = {7}, .execution = id, .lease_expires_at_ms = due_at});
  const auto before = snapshot(db);
  const Ended done = run_binary({"status", "--json"}, at(database));
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  const Json status = Json::parse(done.out);
  CHECK(keys(status) == std::set<std::string>{"database_time_ms", "writable", "server_version", "schema",
                                              "partitions", "pool", "pause_table", "pauses", "reconcilers"});
  CHECK(keys(status["schema"]) == std::set<std::string>{"made_by", "version", "flowfabric_ledger",
                                                        "flowfabric_annotation", "usable", "problems",
                                                        "warnings"});
  CHECK(status["partitions"] ==
        Json{{"count", 256}, {"covered", "0-255"}, {"left_out", ""}, {"not_there", ""}});
  CHECK(keys(status["pool"]) == std::set<std::string>{"size", "sessions"});
  CHECK(status["pause_table"] == "readable");
  CHECK(status["pauses"] == Json::array());
  CHECK(status["writable"] == true);
  CHECK(status["schema"]["usable"] == true);
  CHECK(status["schema"]["made_by"] == "ff-reconciler");
  CHECK(status["database_time_ms"].get<std::int64_t>() > due_at);
  for (const Json& line : status["reconcilers"])
    CHECK(keys(line) == std::set<std::string>{"reconciler", "enabled", "paused", "due", "due_capped",
                                              "oldest_due_ms", "next_due_ms", "next_due_known_until_ms",
                                              "above_hold"});
  const auto day = std::chrono::milliseconds(std::chrono::hours{24}).count();
  CHECK(line_of(status, "lease_expiry")["next_due_ms"] == nullptr);
  CHECK(line_of(status, "lease_expiry")["next_due_known_until_ms"].get<std::int64_t>() > due_at + day);
  CHECK(line_of(status, "lease_expiry")["enabled"] == true);
  CHECK(line_of(status, "outbox_retention")["enabled"] == false);
  CHECK(line_of(status, "lease_expiry")["due"] == 1);
  CHECK(line_of(status, "lease_expiry")["oldest_due_ms"] == due_at);
  CHECK(line_of(status, "lease_expiry")["due_capped"] == false);
  CHECK(line_of(status, "attempt_timeout")["due"] == 0);
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("who only reads does so on a server that takes no writes, and says that it takes none") {
  Database database;
  auto db = database.connect();
  const std::string id = "{fp:7}:" + to_string(insert_core(db, {.partition = {7}}));
  db.execute("ALTER DATABASE " + database.name() + " SET default_transaction_read_only = on");
  const Ended status = run_binary({"status"}, at(database));
  CHECK(status.code == 1);
  CHECK_THAT(status.out, Catch::Contains(", NOT WRITABLE\n") && Catch::Contains("lease_expiry"));
  CHECK(Json::parse(run_binary({"status", "--json"}, at(database)).out)["writable"] == false);
  const Ended audited = run_binary({"audit"}, at(database));
  CHECK_THAT(audited.out, Catch::Contains("checks"));
  const Ended explained = run_binary({"explain", id}, at(database));
  CHECK(explained.code == 0);
  CHECK_THAT(explained.out, Catch::Contains(id));
  for (const Ended& each : {status, audited, explained})
    CHECK_THAT(each.err, Catch::Contains("no server takes writes"));
}

TEST_CASE("status counts the sessions of daemons on its database, and no others") {
  Database database;
  const Database another;
  RunningDaemon daemon({.conninfo = another.conninfo()});
  daemon.wait_until_ready();
  const pg::Connector other_command({.conninfo = database.conninfo(), .application_name = "ff-reconcilerd"});
  const auto session = other_command.connect(Clock::system().now() + std::chrono::seconds{10});
  const auto sessions = [&](const Database& of) {
    return Json::parse(run_binary({"status", "--json"}, at(of)).out)["pool"]["sessions"].get<int>();
  };
  CHECK(sessions(database) == 0);
  CHECK(sessions(another) > 0);
}

TEST_CASE("a database without the tables is told of, with the command that says more") {
  Database database{empty_database()};
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"audit"}, {"tick", "lease_expiry"}, {"lease-events", "--partition", "3"}}) {
    CAPTURE(command.front());
    const Ended done = run_binary(command, at(database));
    CHECK(done.code == 1);
    CHECK_THAT(done.err, Catch::Contains("42P01") && Catch::Contains("-> ff-reconcilerd check-db"));
  }
}

TEST_CASE(
    "tables that are not on the search_path are named by every command, and none would have others made") {
  Database database;
  database.connect().execute("ALTER DATABASE " + database.name() + " SET search_path = ''");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"status"},
                                                  {"audit"},
                                                  {"tick", "lease_expiry"},
                                                  {"explain", "{fp:1}:00000000-0000-0000-0000-000000000001"},
                                                  {"lease-events"},
                                                  {"lease-events", "--partition", "3"},
                                                  {"pause", "all", "--reason", "none"},
                                                  {"resume", "all"},
                                                  {"migrate", "status"},
                                                  {"migrate", "grants"},
                                                  {"check-db"}}) {
    CAPTURE(command.front());
    const Ended done = run_binary(command, at(database));
    CHECK(done.code == 1);
    CHECK_THAT(done.out + done.err,
               Catch::Contains("schema public, where there are such tables, is not on the search_path") &&
                   Catch::Contains("SET search_path = public") && !Catch::Contains("migrate up") &&
                   !Catch::Contains("pending") && !Catch::Contains("does not exist"));
  }
}

TEST_CASE("what a command does not know is refused with the command that lists what it does") {
  const Ended option = run_binary({"status", "--databse-url", "x"});
  CHECK(option.code == 64);
  CHECK_THAT(option.err, Catch::EndsWith("`ff-reconcilerd status --help` lists what is allowed.\n"));
  CHECK_THAT(run_binary({"sttus"}).err, Catch::EndsWith("`ff-reconcilerd --help` lists what is allowed.\n"));
}

TEST_CASE("status is a table for people") {
  Database database;
  const Ended done = run_binary({"status"}, at(database));
  CHECK(done.code == 0);
  CHECK_THAT(done.out, Catch::Contains("writable") && Catch::Contains("attempt_timeout") &&
                           Catch::Contains("lease_expiry") && Catch::Contains("oldest due") &&
                           Catch::Contains("outbox_retention (off)") && Catch::Contains("none for 1 d"));
  CHECK_THAT(done.out, Catch::Matches("database  PostgreSQL 1[5-9]\\.[0-9]+, writable(.|\n)*"));
}

TEST_CASE("status of a database that is not fit is a problem") {
  Database database{empty_database()};
  const Ended text = run_binary({"status"}, at(database));
  CHECK(text.code == 1);
  CHECK_THAT(text.out, Catch::Contains("NOT FIT") && Catch::Contains("problem: "));
  const Ended json = run_binary({"status", "--json"}, at(database));
  CHECK(json.code == 1);
  CHECK(Json::parse(json.out)["schema"]["usable"] == false);
  CHECK(!Json::parse(json.out)["schema"]["problems"].empty());
}

TEST_CASE("migrate up makes the schema once, and repeating it changes nothing") {
  Database database{empty_database()};
  const Ended before = run_binary({"migrate", "status"}, at(database));
  CHECK(before.code == 1);
  CHECK_THAT(before.out, Catch::StartsWith("no schema\n") && Catch::Contains("pending: 0001 "));

  const Ended up = run_binary({"migrate", "up", "--fan-out", "3"}, at(database));
  CHECK(up.code == 0);
  CHECK_THAT(up.out, Catch::Contains("applied: 0001 ") && Catch::Contains("hash children per table: 3") &&
                         Catch::Contains("the reconcilers can run on it"));

  const Ended again = run_binary({"migrate", "up", "--fan-out", "3"}, at(database));
  CHECK(again.code == 0);
  CHECK_THAT(again.out, !Catch::Contains("applied"));
  const Ended after = run_binary({"migrate", "status"}, at(database));
  CHECK(after.code == 0);
  CHECK(after.out == again.out);
  auto db = database.connect();
  CHECK(db.execute("SELECT 1 FROM pg_inherits WHERE inhparent = 'ff_attempt'::regclass").size() == 3);
}

TEST_CASE("migrate sql prints a script that psql can run, twice") {
  Database database{empty_database()};
  const Ended sql = run_binary({"migrate", "sql", "--fan-out", "2"});
  REQUIRE(sql.code == 0);
  for (int i = 0; i < 2; ++i) {
    const Ended psql = run({"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database.conninfo()},
                           {{"PGOPTIONS", "-c client_min_messages=warning"}}, sql.out);
    CAPTURE(psql.err);
    REQUIRE(psql.code == 0);
  }
  const Ended status = run_binary({"migrate", "status"}, at(database));
  CHECK(status.code == 0);
  CHECK_THAT(status.out, Catch::Contains("hash children per table: 2"));
}

TEST_CASE("migrate grants prints what a role needs, for psql to run") {
  Database database;
  const Ended grants = run_binary({"migrate", "grants", "--role", "the \"daemon\""}, at(database));
  CHECK(grants.err.empty());
  REQUIRE(grants.code == 0);
  auto db = database.connect();
  db.execute_script("CREATE ROLE \"the \"\"daemon\"\"\" LOGIN");
  const Ended psql =
      run({"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database.conninfo()}, {}, grants.out);
  CAPTURE(psql.err);
  REQUIRE(psql.code == 0);
  const Environment as_role{{"FF_DATABASE_URL", database.conninfo() + " user='the \"daemon\"'"}};
  for (const auto& words : {std::vector<std::string>{"status"}, {"tick", "all"}, {"lease-events"}}) {
    CAPTURE(words);
    const Ended done = run_binary(words, as_role);
    CHECK(done.err.empty());
    CHECK(done.code == 0);
  }
  db.execute_script("DROP OWNED BY \"the \"\"daemon\"\"\"; DROP ROLE \"the \"\"daemon\"\"\"");
}

TEST_CASE("migrate grants prints for one reconciler what it alone needs, to a role that is to be replaced") {
  Database database;
  const Ended grants = run_binary({"migrate", "grants", "pending_waitpoint_expiry"}, at(database));
  CHECK(grants.code == 0);
  CHECK(grants.out ==
        "GRANT SELECT ON TABLE public.ff_exec_core TO your_role;\n"
        "GRANT SELECT ON TABLE public.ff_partition_config TO your_role;\n"
        "GRANT SELECT ON TABLE public.ff_reconciler_migration TO your_role;\n"
        "GRANT SELECT ON TABLE public.ff_reconciler_pause TO your_role;\n"
        "GRANT SELECT ON TABLE public.ff_reconciler_release TO your_role;\n"
        "GRANT DELETE, SELECT, UPDATE ON TABLE public.ff_waitpoint_pending TO your_role;\n");
}

TEST_CASE("migrate grants prints nothing where there is no schema") {
  Database database{empty_database()};
  const Ended refused = run_binary({"migrate", "grants"}, at(database));
  CHECK(refused.code == 1);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, Catch::Contains("no schema"));
}

TEST_CASE("passwords are in no output, in whatever form they come and however it fails") {
  const std::string directory = "/nonexistent";
  const auto url = GENERATE_COPY(std::string("postgresql://user:geheim@%2Fnonexistent/db"),
                                 std::string("postgresql:///db?host=/nonexistent&password=geheim"),
                                 "host=" + directory + " password=geheim dbname=db",
                                 "host=" + directory + " password='geheim with blanks' dbname=db",
                                 std::string("postgresql://user:geheim@:bad:port:/db"),
                                 std::string("host=x password=geheim nonsense"),
                                 std::string("nonsense://user:geheim@host"));
  CAPTURE(url);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"status"}, {"check-db"}, {"tick", "all"}, {"migrate", "status"}}) {
    for (const bool by_flag : {false, true}) {
      auto line = words;
      if (by_flag) line.insert(line.end(), {"--database-url", url});
      const Ended failed = run_binary(line, by_flag ? Environment{} : Environment{{"FF_DATABASE_URL", url}});
      CHECK(failed.code != 0);
      CHECK_THAT(failed.out + failed.err, !Catch::Contains("geheim"));
    }
  }
}

TEST_CASE("a running daemon shows its password nowhere") {
  RunningDaemon daemon({.conninfo = "postgresql://user:geheim@%2Fnonexistent/db?sslpassword=geheim",
                        .config = "log: {level: trace}\npartitions: 0-3\n"});
  REQUIRE(wait_until([&] { return daemon.state() == "unreachable"; }));
  for (const char* page : {"/metrics", "/livez", "/readyz", "/status"})
    CHECK_THAT(daemon.get(page).body, !Catch::Contains("geheim"));
  CHECK(daemon.stop() == 0);
  CHECK_THAT(daemon.process().err(), !Catch::Contains("geheim"));
}

TEST_CASE("healthcheck asks the daemon, wherever it is told to listen") {
  RunningDaemon daemon({.conninfo = "host=/nonexistent dbname=x user=y", .config = "partitions: 0-3\n"});
  const std::string address = "127.0.0.1:" + std::to_string(daemon.port());
  const Ended by_flag = run_binary({"healthcheck", "--address", address});
  CHECK(by_flag.code == 0);
  CHECK(by_flag.out + by_flag.err == "");
  const Ended not_ready = run_binary({"healthcheck", "--ready", "--address", address});
  CHECK(not_ready.code == 1);
  CHECK_THAT(not_ready.err, Catch::Contains("/readyz answers 503") && Catch::Contains("\"state\""));
  CHECK(run_binary({"healthcheck"}, {{"FF_RECONCILER_HTTP_LISTEN", address}}).code == 0);
  const TemporaryDirectory directory;
  CHECK(run_binary({"healthcheck", "--config",
                    directory.write("c.yaml",
                                    "http: {listen: \"0.0.0.0:" + std::to_string(daemon.port()) + "\"}\n")})
            .code == 0);

  CHECK(daemon.stop() == 0);
  const Ended of_nothing = run_binary({"healthcheck", "--address", address});
  CHECK(of_nothing.code == 1);
  CHECK_THAT(of_nothing.err, Catch::Contains(address));
  CHECK(run_binary({"healthcheck", "--address", "here:there"}).code == 64);
}

TEST_CASE("version says what was built, for people and for machines") {
  const Ended text = run_binary({"version"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::StartsWith("ff-reconcilerd ") && Catch::Contains("libpq "));
  const Ended json = run_binary({"version", "--json"});
  CHECK(json.code == 0);
  const Json version = Json::parse(json.out);
  CHECK(keys(version) == std::set<std::string>{"version", "revision", "compiler", "libpq_version"});
  CHECK_THAT(text.out, Catch::Contains(version["version"].get<std::string>()) &&
                           Catch::Contains(version["revision"].get<std::string>()));
}

TEST_CASE("output that cannot be written is an error, whatever the command") {
  for (const char* command : {"version", "--help", "check-config --print-default"}) {
    CAPTURE(command);
    const Ended ended = run({"sh", "-c", std::string("\"$1\" ") + command + " >/dev/full", "sh", FF_BINARY});
    CHECK(ended.code == 70);
    CHECK_THAT(ended.err, Catch::Contains("the output cannot be written"));
  }
}

TEST_CASE("help lists the commands, and each command explains itself") {
  const Ended all = run_binary({"--help"});
  CHECK(all.code == 0);
  CHECK(all.err.empty());
  for (const char* command : {"run", "tick", "status", "explain", "audit", "migrate", "check-config",
                              "check-db", "demo", "healthcheck", "version"}) {
    CHECK_THAT(all.out, Catch::Contains(std::string("\n  ") + command + " "));
    const Ended one = run_binary({command, "--help"});
    CHECK(one.code == 0);
    CHECK_THAT(one.out, Catch::StartsWith(std::string("usage: ff-reconcilerd ") + command));
  }
}
