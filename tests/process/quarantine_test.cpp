// `quarantine`: the rows that a running daemon has in quarantine, for people and for machines.
#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <sstream>

#include "support/database.hpp"
#include "support/flow.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using Catch::Matchers::Contains;

namespace {

std::set<std::string> keys(const Json& object) {
  std::set<std::string> all;
  for (const auto& [key, value] : object.items()) all.insert(key);
  return all;
}

}  // namespace

TEST_CASE(
    "quarantine shows each row that a daemon has in quarantine, why, and the line that tries it again") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_core(db, {.partition = {3}, .policy = max_retries(3)});
  db.execute("UPDATE ff_exec_core SET payload = 'geheim', result = 'geheim'");
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION E'not this\none' USING DETAIL = 'geheim', ERRCODE = '22012'; END$$;"
      "CREATE TRIGGER poison BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION poison()");
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = "recovery_grace: 0s\nreconcilers: {lease_expiry: {interval: 50ms}}\n"});
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
  Ended done;
  REQUIRE(wait_until([&] {
    done = run_binary({"quarantine", "--url", url, "--json"});
    return done.code == 0 && !done.out.empty();
  }));
  const Json row = Json::parse(done.out);
  CHECK(keys(row) == std::set<std::string>{"reconciler", "partition", "key", "execution", "sqlstate",
                                           "message", "tries", "next_try_ms"});
  const std::string execution = "{fp:3}:" + to_string(id);
  CHECK(row["reconciler"] == "lease_expiry");
  CHECK(row["partition"] == 3);
  CHECK(row["key"] == Json{{"execution_id", to_string(id)}, {"attempt_index", 0}});
  CHECK(row["execution"] == execution);
  CHECK(row["sqlstate"] == "22012");
  CHECK_THAT(row["message"].get<std::string>(), Contains("not this one"));
  CHECK(row["tries"] >= 1);
  CHECK(row["next_try_ms"].get<std::int64_t>() > now_ms(db) - 60'000);

  const Ended text = run_binary({"quarantine", "--url", url + "/"});
  CHECK(text.code == 0);
  const std::string line = "-> ff-reconcilerd tick lease_expiry --execution '" + execution + "'\n";
  CHECK_THAT(text.out, Contains("failed ") && Contains("22012") && Contains(line));
  const auto explained = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"explain", execution});
    return run_binary(more, {{"FF_DATABASE_URL", database.conninfo()}});
  };
  CHECK_THAT(explained({"--url", url}).out, Contains("would fail: ") &&
                                                Contains("in quarantine after failing ") &&
                                                Contains(", next try ") && !Contains("geheim"));
  const Ended unasked = explained({"--url", "http://127.0.0.1:1"});
  CHECK_THAT(unasked.out, Contains("would fail: ") && !Contains("in quarantine"));
  CHECK_THAT(unasked.err, Contains("what is in quarantine is not known: "));
  for (const std::string& said : {done.out, text.out, daemon.get("/status").body})
    CHECK_THAT(said, !Contains("geheim"));

  CHECK(daemon.stop() == 0);  // its acts and what locks the table's children would wait for each other
  db.execute("DROP TRIGGER poison ON ff_attempt");
  CHECK(run_binary({"tick", "lease_expiry", "--execution", execution},
                   {{"FF_DATABASE_URL", database.conninfo()}})
            .code == 0);
  CHECK(core(db, id)["lifecycle_phase"] == "runnable");
}

TEST_CASE("quarantine names the execution whose end cannot be passed on, and so does who waits for it") {
  const Database database;
  auto db = database.connect();
  const FanIn made = insert_fan_in(
      db, 1,
      {.policy = {{"kind", "all_of"}}, .success = std::numeric_limits<std::int32_t>::max(), .running = 1});
  const std::int64_t event = end_upstream(db, made, 0);
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = "recovery_grace: 0s\n"});
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
  Ended done;
  REQUIRE(wait_until([&] {
    done = run_binary({"quarantine", "--url", url, "--json"});
    return done.code == 0 && !done.out.empty();
  }));
  const std::string upstream = "{fp:3}:" + to_string(made.upstreams[0]);
  const Json row = Json::parse(done.out);
  CHECK(row["key"] == Json{{"event_id", event}});
  CHECK(row["execution"] == upstream);
  CHECK_THAT(run_binary({"quarantine", "--url", url}).out,
             Contains("-> ff-reconcilerd tick dependency --execution '" + upstream + "'\n"));
  CHECK_THAT(run_binary({"explain", "{fp:3}:" + to_string(made.downstream), "--url", url},
                        {{"FF_DATABASE_URL", database.conninfo()}})
                 .out,
             Contains("dependency fails on it"));
  CHECK(daemon.process().err_has(upstream));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a row due since the least of all numbers is shown wherever another one is") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_core(db, {.partition = {3}, .policy = max_retries(3)});
  insert_attempt(
      db,
      {.partition = {3}, .execution = id, .lease_expires_at_ms = std::numeric_limits<std::int64_t>::min()});
  db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no'; END$$;"
      "CREATE TRIGGER poison BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION poison()");
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = "recovery_grace: 0s\nreconcilers: {lease_expiry: {interval: 50ms}}\n"});
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.port());
  REQUIRE(wait_until([&] { return !run_binary({"quarantine", "--url", url, "--json"}).out.empty(); }));
  const std::string execution = "{fp:3}:" + to_string(id);
  const Environment environment{{"FF_DATABASE_URL", database.conninfo()}};
  for (const auto& command : std::vector<std::vector<std::string>>{{"quarantine", "--url", url},
                                                                   {"status", "--url", url},
                                                                   {"status", "--url", url, "--json"},
                                                                   {"status"},
                                                                   {"status", "--json"},
                                                                   {"explain", execution},
                                                                   {"explain", execution, "--json"},
                                                                   {"audit"}}) {
    CAPTURE(command);
    const Ended shown = run_binary(command, environment);
    CAPTURE(shown.err);
    CHECK(shown.code <= 1);  // 1: there is something to see to
    CHECK_THAT(shown.out, Contains("lease"));
  }
  CHECK(daemon.get("/").status == 200);
  CHECK(daemon.get("/metrics").status == 200);
  CHECK(daemon.get("/status").status == 200);
  CHECK(daemon.stop() == 0);
}

TEST_CASE("quarantine says that there is none, and ends with 69 where no daemon answers") {
  RunningDaemon daemon({.conninfo = "host=/nonexistent dbname=x user=y", .config = "partitions: 0-3\n"});
  const std::string address = "127.0.0.1:" + std::to_string(daemon.port());
  const Ended none = run_binary({"quarantine"}, {{"FF_RECONCILER_HTTP_LISTEN", address}});
  CHECK(none.code == 0);
  CHECK(none.out == "no row is in quarantine\n");
  CHECK(run_binary({"quarantine", "--json", "--url", address}).out.empty());
  CHECK(daemon.stop() == 0);
  const Ended away = run_binary({"quarantine", "--url", "http://" + address});
  CHECK(away.code == 69);
  CHECK_THAT(away.err, Contains(address));
  CHECK(run_binary({"quarantine", "--url", "here:there"}).code == 64);
}
