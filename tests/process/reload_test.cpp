// SIGHUP: what changes in place, what takes a restart, and what a bad file does.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

std::string config(const std::string& attempt_timeout, const std::string& more = {}) {
  return "partitions: 0-3\nrecovery_grace: 0s\nreconcilers:\n  lease_expiry: {enabled: false}\n  "
         "attempt_timeout: {" +
         attempt_timeout + "}\n" + more;
}

void reload(RunningDaemon& daemon, const std::string& wanted) {
  daemon.rewrite_config(wanted);
  const auto lines = [&] {
    const std::string log = daemon.process().err();
    std::size_t count = 0;
    for (auto at = log.find("configuration"); at != std::string::npos;
         at = log.find("configuration", at + 1)) {
      if (log.compare(at, 22, "configuration reloaded") == 0 ||
          log.compare(at, 26, "configuration not reloaded") == 0)
        ++count;
    }
    return count;
  };
  const auto before = lines();
  daemon.process().signal(SIGHUP);
  REQUIRE(wait_until([&] { return lines() > before; }));
}

Uuid lapsed_of(pg::Connection& db, const Json& raw_fields = Json::object()) {
  const Uuid id = insert_core(db, {.partition = {1}, .policy = max_retries(9), .raw_fields = raw_fields});
  insert_attempt(db, {.partition = {1}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  return id;
}

bool moved(pg::Connection& db, const Uuid& id) {
  return core(db, id)["lifecycle_phase"] == "runnable";
}

/// As /proc shows it, in a mask whose lowest bit is that signal's.
bool catches_hangup(pid_t pid) {
  constexpr std::string_view kCaught = "SigCgt:";
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kCaught)) return std::stoull(line.substr(kCaught.size()), nullptr, 16) % 2 == 1;
  return false;
}

double ticks(RunningDaemon& daemon) {
  return daemon.metric(R"(ff_reconciler_ticks_total{reconciler="attempt_timeout",result="success"})");
}

}  // namespace

TEST_CASE("an interval, a filter and enabled change in place") {
  Database database;
  auto db = database.connect();
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("interval: 1h")});
  REQUIRE(wait_until([&] { return ticks(daemon) >= 1; }));

  SECTION("a shorter interval holds at once") {
    const double before = ticks(daemon);
    const double hash = daemon.metric("ff_reconciler_config_hash");
    reload(daemon, config("interval: 20ms"));
    CHECK(wait_until([&] { return ticks(daemon) >= before + 5; }));
    CHECK(daemon.metric("ff_reconciler_config_last_reload_successful") == 1);
    CHECK(daemon.metric("ff_reconciler_config_hash") != hash);
    reload(daemon, config("interval: 1h"));
    CHECK(daemon.metric("ff_reconciler_config_hash") == hash);
  }
  SECTION("a filter decides whose leases are taken") {
    reload(daemon, config("interval: 20ms, filter: {namespace: ours}"));
    const Uuid theirs = lapsed_of(db, origin("theirs", "i-1"));
    const Uuid ours = lapsed_of(db, origin("ours", "i-1"));
    REQUIRE(wait_until([&] { return moved(db, ours); }));
    const double before = ticks(daemon);
    REQUIRE(wait_until([&] { return ticks(daemon) >= before + 3; }));
    CHECK_FALSE(moved(db, theirs));
    reload(daemon, config("interval: 20ms"));
    CHECK(wait_until([&] { return moved(db, theirs); }));
  }
  SECTION("a reconciler is switched off and on") {
    reload(daemon, config("interval: 20ms"));
    REQUIRE(wait_until([&] { return moved(db, lapsed_of(db)) || ticks(daemon) > 3; }));
    reload(daemon, config("enabled: false, interval: 20ms"));
    // A tick that had been let in before may still end; two equal counts so far apart show that it is over.
    REQUIRE(wait_until([&] {
      const double seen = ticks(daemon);
      std::this_thread::sleep_for(500ms);
      return ticks(daemon) == seen;
    }));
    const Uuid id = lapsed_of(db);
    const double before = ticks(daemon);
    reload(daemon, config("enabled: false, interval: 10ms"));
    CHECK(ticks(daemon) == before);
    CHECK_FALSE(moved(db, id));
    reload(daemon, config("interval: 20ms"));
    CHECK(wait_until([&] { return moved(db, id); }));
  }
  CHECK(daemon.stop() == 0);
}

TEST_CASE("the log level changes in place") {
  Database database;
  auto db = database.connect();
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("interval: 20ms")});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  daemon.rewrite_config(config("interval: 20ms", "log: {level: error}\n"));
  daemon.process().signal(SIGHUP);
  REQUIRE(wait_until([&] {  // at level error a successful reload is not logged
    const Uuid id = lapsed_of(db);
    const std::string log = daemon.process().err();
    return wait_until([&] { return moved(db, id); }) &&
           daemon.metric("ff_reconciler_config_last_reload_successful") == 1 && daemon.process().err() == log;
  }));
  reload(daemon, config("interval: 20ms", "log: {level: info}\n"));
  const Uuid id = lapsed_of(db);
  REQUIRE(wait_until([&] { return moved(db, id); }));
  CHECK(wait_until(
      [&] { return daemon.process().err().rfind("retried=1") > daemon.process().err().rfind("reloaded"); }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a bad file changes nothing, and is logged with all that is wrong") {
  Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("interval: 20ms")});
  REQUIRE(wait_until([&] { return ticks(daemon) >= 1; }));
  reload(daemon, "partitions: 9-3\nthreads: many\nreconcilers: {attempt_timeout: {enabled: false}}\n");
  CHECK(daemon.process().err_has("not reloaded"));
  CHECK(daemon.process().err_has("config.yaml:1: partitions"));
  CHECK(daemon.process().err_has("config.yaml:2: threads"));
  CHECK(daemon.metric("ff_reconciler_config_last_reload_successful") == 0);
  const double before = ticks(daemon);
  CHECK(wait_until([&] { return ticks(daemon) >= before + 3; }));
  reload(daemon, config("interval: 30ms"));
  CHECK(daemon.metric("ff_reconciler_config_last_reload_successful") == 1);
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a file whose hosts and addresses differ in number changes nothing either") {
  Database database;
  const auto at = [](const std::string& conninfo) {
    return "database: {url: \"" + conninfo + "\"}\n" + config("interval: 20ms");
  };
  RunningDaemon daemon({.conninfo = "", .config = at(database.conninfo())});
  REQUIRE(wait_until([&] { return ticks(daemon) >= 1; }));
  reload(daemon, at("host=a,b hostaddr=127.0.0.1,127.0.0.1,127.0.0.1"));
  CHECK(daemon.process().err_has("not reloaded"));
  const double before = ticks(daemon);
  CHECK(wait_until([&] { return ticks(daemon) >= before + 3; }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("what takes a restart is named in a warning and keeps its value") {
  Database database;
  auto db = database.connect();
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("interval: 20ms")});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  const double pool = daemon.metric("ff_reconciler_db_connections_max");
  std::string wanted = config("interval: 20ms", "database: {pool_size: 21}\nthreads: 2\n");
  wanted.replace(wanted.find("0-3"), 3, "5-6");
  reload(daemon, wanted);
  CHECK(daemon.process().err_has("database.pool_size has changed, which takes a restart"));
  CHECK(daemon.process().err_has("threads has changed, which takes a restart"));
  CHECK(daemon.process().err_has("partitions has changed, which takes a restart"));
  CHECK_FALSE(daemon.process().err_has("http.listen has changed"));
  CHECK(daemon.metric("ff_reconciler_db_connections_max") == pool);
  const Uuid id = lapsed_of(db);
  CHECK(wait_until([&] { return moved(db, id); }));
  CHECK(daemon.stop() == 0);
}

// A pipe holds the start up at its first step.
TEST_CASE("a reload that is asked for while the daemon starts is done once it has") {
  const std::string http = "http: {listen: \"127.0.0.1:0\"}\n";
  Database database;
  auto db = database.connect();
  const Uuid id = lapsed_of(db);
  const TemporaryDirectory directory;
  const auto file = directory.path() / "config.yaml";
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  const int pipe = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(pipe >= 0);
  Process daemon({FF_BINARY, "run", "--config", file.string()}, {{"FF_DATABASE_URL", database.conninfo()}});
  REQUIRE(wait_until([&] { return catches_hangup(daemon.pid()); }));
  daemon.signal(SIGHUP);
  const std::string old = config("enabled: false", http);
  const std::string now = config("interval: 20ms", http);
  std::filesystem::rename(directory.write("new.yaml", now), file);
  REQUIRE(::write(pipe, old.data(), old.size()) == static_cast<ssize_t>(old.size()));
  ::close(pipe);
  CHECK(wait_until([&] { return daemon.err_has("configuration reloaded"); }));
  CHECK(wait_until([&] { return moved(db, id); }));
  daemon.signal(SIGTERM);
  CHECK(daemon.wait() == 0);
}
