// `status --url`: what a running daemon says of itself.
#include <algorithm>
#include <catch2/catch.hpp>

#include "reconcile/family/registry.hpp"
#include "support/database.hpp"
#include "support/http_exchange.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using Catch::Matchers::Contains;
using daemon::HttpReply;

namespace {

using Words = std::vector<std::string>;

const Json& line_of(const Json& status, const std::string& reconciler) {
  for (const Json& line : status["reconcilers"])
    if (line["reconciler"] == reconciler) return line;
  throw std::runtime_error("no line of " + reconciler);
}

}  // namespace

TEST_CASE("status --url shows a daemon's own view, with every reconciler, whether it is on or has run") {
  const Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = "recovery_grace: 0s\nreconcilers: {lease_expiry: {enabled: false}, "
                                  "budget_reset: {interval: 1h}}\n"});
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
  REQUIRE(wait_until([&] {
    if (!daemon.ready()) return false;
    const Json seen = Json::parse(daemon.get("/status").body);
    return !line_of(seen, "delayed_promoter")["due"].is_null() &&
           !line_of(seen, "budget_reset")["due"].is_null();
  }));

  const Ended text = run_binary({"status", "--url", url});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::StartsWith("daemon    ready, started ") && Contains("lease_expiry (off)") &&
                           Contains("outbox_retention (off)") && Contains("delayed_promoter ") &&
                           Contains("connections in use"));
  const Ended json = run_binary({"status", "--url", url, "--json"});
  CHECK(json.code == 0);
  const Json status = Json::parse(json.out);
  CHECK(status["reconcilers"].size() == reconcile::registry().size());
  const Json& off = line_of(status, "lease_expiry");
  CHECK(off["enabled"] == false);
  for (const char* key : {"due", "oldest_due_ms", "next_due_ms", "next_due_known_until_ms", "running",
                          "last_tick_ms", "last_success_ms"})
    CHECK(off[key] == nullptr);
  CHECK(line_of(status, "delayed_promoter")["enabled"] == true);
  CHECK(line_of(status, "delayed_promoter")["due"] == 0);
  CHECK(line_of(status, "delayed_promoter")["due_capped"] == false);
  CHECK(line_of(status, "budget_reset")["next_due_known_until_ms"].get<std::int64_t>() >
        status["started_at_ms"].get<std::int64_t>() + 3'600'000);
  CHECK_THAT(text.out, Contains("none for 1 h 59 m"));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("an answer that is no daemon's takes nobody's stack, and is shown as nothing but text") {
  const std::string nested = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& its :
       {nested,
        R"({"reconcilers":[{"reconciler":"x","quarantined":1,"quarantine":[{"key":)" + nested + "}]}]}",
        std::string(R"({"reconcilers":[{"quarantined":1e300}]})")}) {
    const RunningServer server(daemon::Routes{{"/status", [&its] {
                                                 return HttpReply{200, "application/json", its};
                                               }}});
    const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
    for (const Words& line : {Words{"status", "--url", url}, Words{"status", "--url", url, "--json"},
                              Words{"quarantine", "--url", url}}) {
      CAPTURE(line, its.substr(0, 80));
      const Ended told = run_binary(line);
      CHECK(told.code == 1);
      CHECK_THAT(told.err, Contains("that is no daemon of this version"));
    }
  }
  const RunningServer server(
      daemon::Routes{{"/livez", [] {
                        return HttpReply{503, "text/plain", "\x1b]0;x\a\nff-reconcilerd: all is well"};
                      }}});
  const Ended health = run_binary({"healthcheck", "--address", "127.0.0.1:" + std::to_string(server.port())});
  CHECK(health.code == 1);
  CHECK(std::ranges::count(health.err, '\n') == 1);
  CHECK(health.err.find('\x1b') == std::string::npos);
}

TEST_CASE("a line to paste is made of names that there are, whatever answers") {
  const RunningServer server(daemon::Routes{
      {"/status", [] {
         return HttpReply{200, "application/json",
                          R"({"reconcilers":[{"reconciler":"lease_expiry","quarantined":2,"quarantine":[
      {"partition":1,"key":["k"],"tries":1,"next_try_ms":1,"message":"m","execution":"'; rm -rf / #"}]},
      {"reconciler":"; rm -rf /","quarantined":1,"quarantine":[
      {"partition":1,"key":["k"],"tries":1,"next_try_ms":1,"message":"m","execution":null}]}]})"};
       }}});
  const Ended told = run_binary({"quarantine", "--url", "http://127.0.0.1:" + std::to_string(server.port())});
  CHECK(told.code == 0);
  CHECK_THAT(told.out, Contains("failed once") && !Contains("->"));
}

TEST_CASE("status --url dates the end of a pause that is of another day") {
  const Database database;
  auto db = database.connect();
  db.execute(
      "INSERT INTO ff_reconciler_pause (reconciler, until_ms, paused_at_ms, paused_by, reason)"
      " VALUES ('lease_expiry', 4102444800000, 5, 'me', 'a test')");
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = "recovery_grace: 0s\n"});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
  CHECK(wait_until([&] {
    return run_binary({"status", "--url", url}).out.find("until 2100-01-01 00:00:00 UTC, in ") !=
           std::string::npos;
  }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a schema version that is not for the daemon's role to read is none, and said so") {
  const Database database;
  auto db = database.connect();
  // FlowFabric's own schema has no ledger of ours, and no grant for its own.
  db.execute_script("DROP TABLE ff_reconciler_migration; CREATE ROLE reads_no_version LOGIN");
  const Ended grants = run_binary({"migrate", "grants", "--role", "reads_no_version"},
                                  {{"FF_DATABASE_URL", database.conninfo()}});
  db.execute_script(grants.out);
  const std::string conninfo = database.conninfo() + " user=reads_no_version";
  {
    RunningDaemon daemon({.conninfo = conninfo, .config = "recovery_grace: 0s\n"});
    REQUIRE(wait_until([&] { return daemon.ready(); }));
    const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
    CHECK(Json::parse(daemon.get("/status").body)["schema_version"].is_null());
    CHECK_THAT(run_binary({"status", "--url", url}).out,
               Contains("schema    version not for the daemon's role to read\n"));
    CHECK(daemon.stop() == 0);
  }
  db.execute_script("DROP OWNED BY reads_no_version; DROP ROLE reads_no_version");
}

TEST_CASE("status --url says when nothing answers, and takes no database beside it") {
  const Ended nobody = run_binary({"status", "--url", "http://127.0.0.1:1"});
  CHECK(nobody.code == 69);
  CHECK_THAT(nobody.err, Catch::StartsWith("ff-reconcilerd: "));
  const Ended both = run_binary({"status", "--url", "http://127.0.0.1:1", "--database-url", "host=nowhere"});
  CHECK(both.code == 64);
  CHECK_THAT(both.err, Contains("one of the two"));
}

TEST_CASE("status --url takes a URL of any daemon, and says of one that is none what is wrong with it") {
  RunningDaemon daemon({.conninfo = "host=127.0.0.1 port=1"});
  const std::string port = std::to_string(daemon.port());
  for (const std::string& url : {"HTTP://localhost:" + port + "/status", "127.0.0.1:" + port + "/"}) {
    CAPTURE(url);
    CHECK_THAT(run_binary({"status", "--url", url}).out, Catch::StartsWith("daemon    unreachable"));
  }
  CHECK(daemon.stop() == 0);
  const Ended unknown = run_binary({"status", "--url", "http://name.invalid"});
  CHECK(unknown.code == 69);
  CHECK_THAT(unknown.err, Contains("no answer from http://name.invalid:9464/status: "));
  const Ended tls = run_binary({"status", "--url", "https://db1:9464"});
  CHECK(tls.code == 64);
  CHECK_THAT(tls.err, Contains("--url: a daemon has no TLS: write http, not https (allowed: http://"));
}

TEST_CASE("status --url of a daemon without its database is a problem, with the reason") {
  RunningDaemon daemon({.conninfo = "host=127.0.0.1 port=1"});
  const Ended text = run_binary({"status", "--url", "http://127.0.0.1:" + std::to_string(daemon.port())});
  CHECK(text.code == 1);
  CHECK_THAT(text.out, Contains("delayed_promoter") && !Contains("daemon    ready") &&
                           Contains("schema    version not known\n"));
}

TEST_CASE("a tick that waits for a lock is seen to run since when, and what it has moved so far") {
  const Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = "recovery_grace: 0s\n"});
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  auto holder = database.connect();
  holder.execute("BEGIN");
  holder.execute("LOCK TABLE ff_exec_core IN ACCESS EXCLUSIVE MODE");
  Json status;
  // Again and again: a tick gives up a lock that it does not get, and the next one begins.
  REQUIRE(wait_until([&] {
    status = Json::parse(daemon.get("/status").body);
    return line_of(status, "delayed_promoter")["running"].is_object();
  }));
  const Json& running = line_of(status, "delayed_promoter")["running"];
  CHECK(running["processed"] == 0);
  CHECK(running["since_ms"] >= status["started_at_ms"]);
  CHECK(wait_until([&] {
    const std::string text = run_binary({"status", "--url", url}).out;
    return text.find("a tick is running, begun ") != std::string::npos &&
           text.find(": 0 rows moved so far") != std::string::npos;
  }));
  CHECK(wait_until([&] {
    const std::string its =
        "ff_reconciler_running_since_timestamp_seconds{reconciler=\"delayed_promoter\"} 1";
    return daemon.get("/metrics").body.find(its) != std::string::npos;
  }));
  holder.execute("ROLLBACK");
  CHECK(wait_until([&] {
    const Json later = Json::parse(daemon.get("/status").body);
    return line_of(later, "delayed_promoter")["running"].is_null() &&
           !line_of(later, "delayed_promoter")["due"].is_null();
  }));
  CHECK(daemon.stop() == 0);
}
