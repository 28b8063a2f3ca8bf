// `log.actions`: a line for each execution that was ended and each row that was deleted.
#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using Catch::Matchers::Contains;

namespace {

const std::string kConfig =
    "partitions: 0-3\nrecovery_grace: 0s\nreconcilers: {lease_expiry: {enabled: false}}\n";

Uuid lapsed(pg::Connection& db, int retries) {
  const Uuid id = insert_core(db, {.partition = {1}, .policy = max_retries(retries)});
  insert_attempt(db, {.partition = {1}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  return id;
}

/// The objects in the lines that have one; whatever stands before it is the log's.
std::vector<Json> actions(const std::string& log) {
  std::vector<Json> all;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find("{\""); at != std::string::npos && line.find("\"action\":") != line.npos)
      all.push_back(Json::parse(line.substr(at)));
  return all;
}

std::string name_of(const Uuid& id) {
  return "{fp:1}:" + to_string(id);
}

}  // namespace

TEST_CASE("the daemon writes one line for an execution that it has ended, in either format, at any level") {
  const std::string format = GENERATE("text", "json");
  Database database;
  auto db = database.connect();
  const Uuid id = lapsed(db, 0);
  const Uuid retried = lapsed(db, 5);
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = kConfig + "log: {actions: true, level: error, format: " + format + "}\n"});
  REQUIRE(wait_until([&] { return !actions(daemon.process().err()).empty(); }));
  REQUIRE(wait_until([&] { return core(db, retried)["lifecycle_phase"] == "runnable"; }));
  const pid_t pid = daemon.process().pid();
  CHECK(daemon.stop() == 0);
  const auto told = actions(daemon.process().err());
  REQUIRE(told.size() == 1);
  Json line = told.front();
  CHECK(line["due_at_ms"].get<std::int64_t>() < line["at_ms"].get<std::int64_t>());
  CHECK(line["tick"] >= 1);
  CHECK_FALSE(line["host"].get<std::string>().empty());
  for (const char* seen : {"due_at_ms", "at_ms", "tick", "host"}) line.erase(seen);
  if (format == "json") {
    CHECK(line["message"] == "action");
    CHECK(line["level"] == "info");
    for (const char* seen : {"time_ms", "level", "message"}) line.erase(seen);
  }
  CHECK(line == Json{{"action", "ended"},
                     {"execution", name_of(id)},
                     {"reconciler", "attempt_timeout"},
                     {"outcome", "expired"},
                     {"reason", "its lease lapsed and no retry was left"},
                     {"committed", true},
                     {"partition", 1},
                     {"key", {{"execution_id", to_string(id)}, {"attempt_index", 0}}},
                     {"pid", pid}});
}

TEST_CASE("without log.actions nothing is said of an execution that was ended, and a reload turns it on") {
  Database database;
  auto db = database.connect();
  const Uuid first = lapsed(db, 0);
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kConfig});
  const auto ended = [&](const Uuid& id) { return core(db, id)["lifecycle_phase"] == "terminal"; };
  REQUIRE(wait_until([&] { return ended(first); }));
  daemon.rewrite_config(kConfig + "log: {actions: true}\n");
  daemon.process().signal(SIGHUP);
  REQUIRE(wait_until([&] { return daemon.process().err_has("configuration reloaded"); }));
  const Uuid second = lapsed(db, 0);
  REQUIRE(wait_until([&] { return actions(daemon.process().err()).size() == 1; }));
  CHECK(actions(daemon.process().err()).front()["execution"] == name_of(second));
}

TEST_CASE("a tick by hand writes the lines to its standard error, and a worker's name forges none") {
  Database database;
  auto db = database.connect();
  insert(db, "ff_worker_registry",
         {{"partition_key", 1},
          {"namespace", "n"},
          {"worker_instance_id", "w\n{\"action\":\"forged\"}\x1b[2J"},
          {"worker_id", "w"},
          {"lanes", Json::array()},
          {"capabilities_csv", ""},
          {"last_heartbeat_ms", 1},
          {"liveness_ttl_ms", 1},
          {"registered_at_ms", 1}});
  const Ended done = run_binary({"tick", "worker_registry_ttl"}, {{"FF_DATABASE_URL", database.conninfo()},
                                                                  {"FF_RECONCILER_LOG_ACTIONS", "true"}});
  CHECK(done.code == 0);
  CHECK_THAT(done.err, !Contains("\x1b"));
  const auto told = actions(done.err);
  REQUIRE(told.size() == 1);
  CHECK(told.front()["action"] == "deleted");
  CHECK(told.front()["outcome"] == "swept");
  CHECK(told.front()["execution"].is_null());
  CHECK(told.front()["tick"].is_null());
  CHECK(told.front()["key"]["worker_instance_id"] == "w\n{\"action\":\"forged\"}\x1b[2J");
}
