// The daemon while its database is away, comes back, takes no writes, lacks the schema or refuses it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "migrate/migrate.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"
#include "testserver/private_server.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using testserver::PrivateServer;

namespace {

constexpr const char* kDatabase = "flow";

std::string config(const std::string& recovery_grace) {
  return "partitions: 0-3\nrecovery_grace: " + recovery_grace +
         "\nreconcilers:\n  attempt_timeout: {interval: 50ms}\n  lease_expiry: {interval: 50ms}\n";
}

pg::Connection connect(const PrivateServer& server) {
  return pg::Connector({.conninfo = server.conninfo(kDatabase), .application_name = "ff-test"})
      .connect(Clock::system().now() + 10s);
}

void migrate_database(PrivateServer& server) {
  server.create_database(kDatabase);
  auto db = connect(server);
  migrate::up(db, Database::kFanOut);
}

Uuid insert_due(pg::Connection& db) {
  const Uuid id = insert_core(db, {.partition = {2}, .policy = max_retries(3)});
  insert_attempt(db, {.partition = {2}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  return id;
}

bool moved(pg::Connection& db, const Uuid& id) {
  return core(db, id)["lifecycle_phase"] == "runnable";
}

std::ptrdiff_t lines_with(const std::string& log, const std::string& text) {
  std::istringstream lines(log);
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(text) != std::string::npos;
  return count;
}

}  // namespace

TEST_CASE("a daemon whose database is away is alive and unready, and becomes ready when it comes") {
  PrivateServer server;
  migrate_database(server);
  server.stop();
  RunningDaemon daemon({.conninfo = server.conninfo(kDatabase), .config = config("0s")});
  REQUIRE(wait_until([&] { return daemon.state() == "unreachable"; }));
  const auto readyz = daemon.get("/readyz");
  CHECK(readyz.status == 503);
  CHECK(!Json::parse(readyz.body)["reasons"][0].get<std::string>().empty());
  CHECK(daemon.get("/livez").status == 200);
  CHECK(daemon.metric("ff_reconciler_ready") == 0);
  // Several attempts later it still says it once.
  REQUIRE(
      wait_until([&] { return daemon.metric(R"(ff_reconciler_db_connects_total{result="failure"})") >= 4; }));
  CHECK(lines_with(daemon.process().err(), "database is unreachable") == 1);

  server.start();
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  auto db = connect(server);
  const Uuid id = insert_due(db);
  CHECK(wait_until([&] { return moved(db, id); }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a daemon survives its server's restart and crash, and takes no lease during recovery grace") {
  PrivateServer server;
  migrate_database(server);
  const auto how = GENERATE(PrivateServer::Stop::fast, PrivateServer::Stop::immediate);
  RunningDaemon daemon({.conninfo = server.conninfo(kDatabase), .config = config("4s")});
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));

  const auto told =
      lines_with(daemon.process().err(), "leases are not taken");  // the server had just started
  server.stop(how);
  REQUIRE(wait_until([&] { return daemon.state() == "unreachable"; }));
  server.start();
  auto db = connect(server);
  const Uuid id = insert_due(db);
  const SteadyTime back = Clock::system().now();
  REQUIRE(wait_until([&] { return daemon.state() == "recovering"; }));
  CHECK(daemon.get("/readyz").status == 200);
  CHECK(daemon.metric(R"(ff_reconciler_state{state="recovering"})") == 1);
  const auto seen = [&] { return std::pair(moved(db, id), daemon.state()); };
  REQUIRE(wait_until([&] {
    const auto [was_moved, state] = seen();
    if (state == "recovering") CHECK_FALSE(was_moved);
    return was_moved;
  }));
  // The server was up for a moment before it accepted this test's connection, and the daemon's grace counts
  // from whichever is later: its own look or the server's start.
  CHECK(Clock::system().now() - back > 2s);
  CHECK(wait_until([&] { return daemon.state() == "ready"; }));
  CHECK(lines_with(daemon.process().err(), "leases are not taken") == told + 1);
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a restart that is over before anybody looks starts the recovery grace as well") {
  PrivateServer server;
  migrate_database(server);
  RunningDaemon daemon({.conninfo = server.conninfo(kDatabase), .config = config("4s")});
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
  {
    auto db = connect(server);
    insert_due(db);  // moved at once or after the restart, which does not matter here
  }
  server.restart(PrivateServer::Stop::immediate);
  auto db = connect(server);
  const Uuid id = insert_due(db);
  const SteadyTime back = Clock::system().now();
  REQUIRE(wait_until([&] { return moved(db, id); }));
  CHECK(Clock::system().now() - back > 2s);
  CHECK(daemon.process().err_has("leases are not taken"));
  CHECK(daemon.stop() == 0);
}

TEST_CASE(
    "a fresh server gets the grace even when the daemon never saw it away, and a tick by hand ignores it") {
  PrivateServer server;
  migrate_database(server);
  server.restart();
  auto db = connect(server);
  const Uuid id = insert_due(db);
  RunningDaemon daemon({.conninfo = server.conninfo(kDatabase), .config = config("1h")});
  REQUIRE(wait_until([&] { return daemon.state() == "recovering"; }));
  CHECK_FALSE(moved(db, id));
  const Ended tick = run_binary({"tick", "attempt_timeout", "--partitions", "0-3"},
                                {{"FF_DATABASE_URL", server.conninfo(kDatabase)}});
  CHECK(tick.code == 0);
  CHECK(moved(db, id));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a server that turns read-only makes the daemon idle, with one line, until it takes writes again") {
  PrivateServer server;
  migrate_database(server);
  RunningDaemon daemon({.conninfo = server.conninfo(kDatabase), .config = config("0s")});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  auto db = connect(server);
  db.execute("ALTER SYSTEM SET default_transaction_read_only = on");
  db.execute("SELECT pg_reload_conf()");
  // Noticed at the latest when the monitor checks again.
  REQUIRE(wait_until([&] { return daemon.state() == "read_only"; }));
  CHECK(daemon.get("/readyz").status == 503);
  CHECK(daemon.get("/livez").status == 200);
  CHECK(daemon.metric("ff_reconciler_db_writable") == 0);
  const double connects = daemon.metric(R"(ff_reconciler_db_connects_total{result="failure"})");
  REQUIRE(wait_until(
      [&] { return daemon.metric(R"(ff_reconciler_db_connects_total{result="failure"})") >= connects + 3; }));
  CHECK(lines_with(daemon.process().err(), "database is read_only") == 1);

  db.execute("SET default_transaction_read_only = off");
  db.execute("ALTER SYSTEM RESET default_transaction_read_only");
  db.execute("SELECT pg_reload_conf()");
  CHECK(wait_until([&] { return daemon.ready(); }));
  const Uuid id = insert_due(db);
  CHECK(wait_until([&] { return moved(db, id); }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a database without the schema keeps the daemon unready, and the daemon never migrates it") {
  Database database{empty_database()};
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("0s")});
  REQUIRE(wait_until([&] { return daemon.state() == "schema_outdated"; }));
  const auto readyz = daemon.get("/readyz");
  CHECK(readyz.status == 503);
  CHECK(!Json::parse(readyz.body)["reasons"].empty());
  CHECK(daemon.get("/livez").status == 200);
  CHECK(lines_with(daemon.process().err(), "the schema is not what the reconcilers need") == 1);
  auto db = database.connect();
  CHECK(db.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'").empty());
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a server that refuses who we are is tried again and complained about, and never ends the daemon") {
  Database database;
  RunningDaemon daemon(
      {.conninfo = database.conninfo() + " user=nobody_of_this_name", .config = config("0s")});
  REQUIRE(wait_until([&] { return daemon.state() == "unreachable"; }));
  REQUIRE(
      wait_until([&] { return daemon.metric(R"(ff_reconciler_db_connects_total{result="failure"})") >= 3; }));
  CHECK(lines_with(daemon.process().err(), "the database refuses the login") == 1);
  CHECK(daemon.process().err_has("critical"));
  CHECK(daemon.get("/livez").status == 200);
  auto db = database.connect();
  db.execute("CREATE ROLE nobody_of_this_name SUPERUSER LOGIN");
  CHECK(wait_until([&] { return daemon.ready(); }));
  CHECK(daemon.stop() == 0);
  db.execute("DROP ROLE nobody_of_this_name");
}

TEST_CASE(
    "a daemon that is given a single session works over it and takes what it is refused for no outage") {
  Database database;
  auto db = database.connect();
  db.execute("CREATE ROLE lonely LOGIN CONNECTION LIMIT 1");
  const Ended grants =
      run_binary({"migrate", "grants", "--role", "lonely"}, {{"FF_DATABASE_URL", database.conninfo()}});
  db.execute_script(grants.out);
  {
    RunningDaemon daemon({.conninfo = database.conninfo() + " user=lonely", .config = config("0s")});
    REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
    // Who listens may have had the session first.
    const auto told = lines_with(daemon.process().err(), "database is unreachable");
    const auto refused = [&] {
      return daemon.metric(R"(ff_reconciler_db_connects_total{result="failure"})");
    };
    const double before = refused();
    // Longer than from one check of the database to the next.
    db.execute_script(
        "CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_catalog.pg_sleep(3); RETURN NEW; END';"
        "CREATE TRIGGER takes_time BEFORE UPDATE ON ff_exec_core FOR EACH ROW EXECUTE FUNCTION take_time()");
    const Uuid id = insert_due(db);
    CHECK(wait_until([&] { return moved(db, id); }));
    CHECK(refused() > before);
    CHECK(daemon.state() == "ready");
    CHECK(lines_with(daemon.process().err(), "database is unreachable") == told);
    CHECK(daemon.metric(R"(ff_reconciler_db_errors_total{class="53"})") > 0);
    CHECK(daemon.stop() == 0);
  }
  db.execute_script("DROP OWNED BY lonely; DROP ROLE lonely");
}

TEST_CASE("leases that lapse while the server starts anew between two scans are left to their workers") {
  PrivateServer server;
  migrate_database(server);
  RunningDaemon daemon({.conninfo = server.conninfo(kDatabase), .config = config("3s")});
  for (int i = 0; i < 4; ++i) {
    REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
    Uuid id;
    std::int64_t lapses = 0;
    {
      auto db = connect(server);
      lapses = now_ms(db) + 300;
      id = insert_core(db, {.partition = {2}, .policy = max_retries(3)});
      insert_attempt(db, {.partition = {2}, .execution = id, .lease_expires_at_ms = lapses});
    }
    // So that it notices nothing while the server is down, and has a tick to do at once when it is back.
    ::kill(daemon.process().pid(), SIGSTOP);
    server.restart(PrivateServer::Stop::immediate);
    auto db = connect(server);
    REQUIRE(wait_until([&] { return now_ms(db) > lapses; }));
    ::kill(daemon.process().pid(), SIGCONT);
    REQUIRE(wait_until([&] { return moved(db, id); }));
    CHECK(db.execute(
                "SELECT max(occurred_at_ms) >= extract(epoch FROM pg_postmaster_start_time()) * 1000 + 2900"
                "  FROM ff_lease_event")
              .one()
              .get<bool>(0));
  }
}

TEST_CASE("who listens moves to another server with the pool, though the one before lives and takes writes") {
  PrivateServer one;
  PrivateServer other;
  migrate_database(one);
  migrate_database(other);
  const TemporaryDirectory directory;
  const auto host = directory.path() / "server";  // as a name that is moved from one to the other
  std::filesystem::create_directory_symlink(one.socket_directory(), host);
  RunningDaemon daemon(
      {.conninfo = one.conninfo(kDatabase) + " host=" + host.string(), .config = config("1h")});
  auto before = connect(one);
  auto after = connect(other);
  const auto listening = [](pg::Connection& db) {
    return number(db,
                  "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'LISTEN ff\\_%'",
                  pg::Params::of(std::string(kDatabase)));
  };
  const auto why = [&] {
    const Json reasons = Json::parse(daemon.get("/readyz").body)["reasons"];
    return reasons.empty() ? std::string() : reasons.front().get<std::string>();
  };
  REQUIRE(wait_until([&] { return daemon.state() == "recovering" && listening(before) == 1; }));
  std::filesystem::remove(host);
  std::filesystem::create_directory_symlink(other.socket_directory(), host);
  before.execute(
      "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
      " WHERE datname = $1 AND pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN ff\\_%'",
      pg::Params::of(std::string(kDatabase)));
  REQUIRE(wait_until([&] { return why().find("is another than before") != std::string::npos; }));
  CHECK_THAT(why(), Catch::StartsWith(host.string()));
  CHECK(wait_until([&] { return listening(after) == 1; }));
  CHECK(daemon.process().err_has("the server is another than before"));
  CHECK(wait_until([&] {
    return number(before,
                  "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()",
                  pg::Params::of(std::string(kDatabase))) == 0;
  }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a table that is gone makes the daemon unready with the first tick that needs it") {
  PrivateServer server;
  migrate_database(server);
  RunningDaemon daemon({.conninfo = server.conninfo(kDatabase), .config = config("0s")});
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
  auto db = connect(server);
  db.execute("ALTER TABLE ff_attempt RENAME TO gone");
  REQUIRE(wait_until([&] { return daemon.state() == "schema_outdated"; }));
  CHECK(daemon.get("/readyz").status == 503);
  CHECK(daemon.process().err_has("ff_attempt"));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("after a table was locked for longer than the grace no lease is taken until workers could renew") {
  Database database;
  auto db = database.connect();
  auto other = database.connect();
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("2s")});
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
  const std::string mode = GENERATE("ACCESS EXCLUSIVE", "SHARE");
  const Uuid id = insert_core(db, {.partition = {2}, .policy = max_retries(3)});
  insert_attempt(db, {.partition = {2}, .execution = id, .lease_expires_at_ms = now_ms(db) + 1000});
  other.execute_script("BEGIN; LOCK TABLE ff_attempt IN " + mode + " MODE");
  const std::int64_t locked = now_ms(db);
  REQUIRE(wait_until([&] { return daemon.state() == "recovering"; }));
  CHECK(daemon.get("/readyz").status == 200);
  CHECK_THAT(daemon.get("/readyz").body, Catch::Contains("ff_attempt was locked: leases are not taken"));
  REQUIRE(wait_until([&] { return now_ms(db) >= locked + 5000; }));
  other.execute_script("COMMIT");
  const SteadyTime gone = Clock::system().now();
  REQUIRE(wait_until([&] { return moved(db, id); }));
  CHECK(Clock::system().now() - gone >= 2s);
  CHECK(wait_until([&] { return daemon.state() == "ready"; }));
  CHECK(daemon.stop() == 0);
}
