// `pause` and `resume`: what they stop, on which replicas, and where it is seen.
#include <catch2/catch.hpp>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

const std::string kQuick =
    "partitions: 0-3\nrecovery_grace: 0s\nreconcilers:\n  lease_expiry: {interval: 50ms, batch_size: 1}\n"
    "  delayed_promoter: {interval: 50ms}\n";

Environment at(const Database& database) {
  return {{"FF_DATABASE_URL", database.conninfo()}};
}

Uuid lapsed(pg::Connection& db) {
  const Uuid id = insert_core(db, {.partition = {1}, .policy = max_retries(9)});
  insert_attempt(db, {.partition = {1}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  return id;
}

Uuid delay_over(pg::Connection& db) {
  return insert_core(db, {.partition = {2}, .state = delayed(), .deadline_at_ms = now_ms(db) - 1000});
}

// With a single reconciler, whose plans are looked at quickly.
std::string check_db(const Environment& environment) {
  static const TemporaryDirectory directory;
  std::string config = "partitions: 0-3\nreconcilers:\n";
  for (const char* name :
       {"delayed_promoter", "attempt_timeout", "execution_deadline", "suspension_timeout", "lease_expiry",
        "dependency", "edge_cancel_dispatcher", "edge_cancel_reconciler", "budget_reset",
        "worker_registry_ttl", "grant_expiry", "index_repair", "quota_concurrency"})
    config += "  " + std::string(name) + ": {enabled: false}\n";
  return run_binary({"check-db", "--config", directory.write("small.yaml", config)}, environment).out;
}

bool claimable(pg::Connection& db, const Uuid& id) {
  return core(db, id)["eligibility_state"] == "eligible_now";
}

bool paused(RunningDaemon& daemon, const std::string& name = "lease_expiry") {
  return daemon.metric("ff_reconciler_paused{reconciler=\"" + name + "\"}") == 1;
}

std::string shown(const Uuid& id) {
  return "{fp:1}:" + to_string(id);
}

}  // namespace

TEST_CASE(
    "pause stops a reconciler on every replica within 6 s and leaves the others, resume lets it go on") {
  const Database database;
  auto db = database.connect();
  RunningDaemon first({.conninfo = database.conninfo(), .config = kQuick});
  RunningDaemon second({.conninfo = database.conninfo(), .config = kQuick});
  const Uuid before = lapsed(db);
  REQUIRE(wait_until([&] { return first.ready() && second.ready() && claimable(db, before); }));

  const Ended done =
      run_binary({"pause", "lease_expiry", "--reason", "index rebuild", "--for", "2h"}, at(database));
  CHECK(done.err.empty());
  REQUIRE(done.code == 0);
  CHECK_THAT(done.out, Contains("lease_expiry paused by ") && Contains("(in 2 h): index rebuild") &&
                           Contains("-> ff-reconcilerd resume lease_expiry"));
  CHECK(wait_until([&] { return paused(first) && paused(second); }, 6s));
  CHECK_FALSE(paused(first, "delayed_promoter"));
  const Uuid held = lapsed(db);
  const Uuid other = delay_over(db);
  REQUIRE(wait_until([&] { return claimable(db, other); }));
  CHECK_FALSE(claimable(db, held));
  CHECK(first.process().err_has("lease_expiry paused by "));
  const Json status = Json::parse(second.get("/status").body);
  REQUIRE(status["pauses"].size() == 1);
  CHECK(status["pauses"][0]["reconciler"] == "lease_expiry");
  CHECK(status["pauses"][0]["reason"] == "index rebuild");
  CHECK(status["pauses"][0]["next"] == "ff-reconcilerd resume lease_expiry");

  CHECK_THAT(run_binary({"explain", shown(held)}, at(database)).out,
             Contains("lease_expiry is paused, by ") && Contains("-> ff-reconcilerd resume lease_expiry"));
  const Ended of_database = run_binary({"status"}, at(database));
  CHECK(of_database.code == 0);
  CHECK_THAT(of_database.out, Contains("lease_expiry (paused)") && Contains("index rebuild"));
  CHECK_THAT(check_db(at(database)), Contains("-> ff-reconcilerd resume lease_expiry"));

  const Ended lifted = run_binary({"resume", "lease_expiry"}, at(database));
  CHECK(lifted.out == "lease_expiry: the pause is lifted\n");
  CHECK(wait_until([&] { return claimable(db, held); }));
  CHECK(wait_until([&] { return !paused(first) && !paused(second); }, 6s));
  CHECK(run_binary({"resume", "lease_expiry"}, at(database)).out == "lease_expiry was not paused by name\n");
}

TEST_CASE("work on a backlog stops within the time that is promised") {
  const Database database;
  auto db = database.connect();
  db.execute_script(
      "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN PERFORM pg_catalog.pg_sleep(0.05); RETURN NEW; END$$;"
      "CREATE TRIGGER slow BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION slow()");
  for (int i = 0; i < 200; ++i) lapsed(db);
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kQuick});
  const auto left = [&] {
    return row(db, "SELECT count(*) AS n FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL")["n"]
        .get<int>();
  };
  REQUIRE(wait_until([&] { return left() < 200; }));
  REQUIRE(run_binary({"pause", "lease_expiry", "--reason", "storm"}, at(database)).code == 0);
  const auto in_use = [&] { return daemon.metric(R"(ff_reconciler_db_connections{state="in_use"})"); };
  REQUIRE(wait_until([&] { return paused(daemon) && in_use() == 0; }, 6s));
  const int then = left();
  CHECK(then > 0);
  const Uuid other = delay_over(db);
  REQUIRE(wait_until([&] { return claimable(db, other); }));
  CHECK(left() == then);
}

TEST_CASE("a batch that is under way when its reconciler is paused is not committed, nor is another begun") {
  const Database database;
  auto db = database.connect();
  db.execute_script(
      "CREATE TABLE gate (); CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN WHILE NOT EXISTS (SELECT FROM public.gate) LOOP PERFORM pg_catalog.pg_sleep(0.01); END LOOP;"
      " RETURN NEW; END$$;"
      "CREATE TRIGGER wait_at_gate BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION wait_at_gate()");
  const std::vector<Uuid> leases{lapsed(db), lapsed(db)};
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kQuick});
  REQUIRE(wait_until([&] {
    return row(db,
               "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
               " AND wait_event = 'PgSleep'")["n"] == 1;
  }));
  REQUIRE(run_binary({"pause", "lease_expiry", "--reason", "storm"}, at(database)).code == 0);
  REQUIRE(wait_until([&] { return paused(daemon); }));
  db.execute("INSERT INTO gate DEFAULT VALUES");
  const auto in_use = [&] { return daemon.metric(R"(ff_reconciler_db_connections{state="in_use"})"); };
  REQUIRE(wait_until([&] { return in_use() == 0; }));
  for (const Uuid& id : leases) CHECK_FALSE(claimable(db, id));
  REQUIRE(run_binary({"resume", "lease_expiry"}, at(database)).code == 0);
  for (const Uuid& id : leases) CHECK(wait_until([&] { return claimable(db, id); }));
}

TEST_CASE("where all are paused and one by name, too, both are to be lifted") {
  const Database database;
  auto db = database.connect();
  REQUIRE(run_binary({"pause", "lease_expiry", "--reason", "one"}, at(database)).code == 0);
  const Ended all = run_binary({"pause", "all", "--reason", "each"}, at(database));
  CHECK_THAT(all.out, Contains("all reconcilers paused by ") &&
                          Contains("lease_expiry is still paused by name") &&
                          Contains("-> ff-reconcilerd resume lease_expiry"));
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kQuick});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  CHECK(paused(daemon, "delayed_promoter"));  // known before it was ready, and so before the first act
  const Uuid lease = lapsed(db);

  const Ended by_hand = run_binary({"tick", "lease_expiry"}, at(database));
  CHECK(by_hand.code == 0);
  CHECK_THAT(by_hand.err, Contains("lease_expiry: paused with all, ") && Contains("lease_expiry: paused, "));
  CHECK(claimable(db, lease));

  const Ended one = run_binary({"resume", "lease_expiry"}, at(database));
  CHECK_THAT(one.out, Contains("still paused with all") && Contains("-> ff-reconcilerd resume all"));
  REQUIRE(run_binary({"pause", "lease_expiry", "--reason", "one"}, at(database)).code == 0);
  const Ended rest = run_binary({"resume", "all"}, at(database));
  CHECK_THAT(rest.out, Contains("all reconcilers: the pause is lifted") &&
                           Contains("lease_expiry is still paused by name"));
  REQUIRE(wait_until([&] { return !paused(daemon, "delayed_promoter"); }, 6s));
  CHECK(paused(daemon));
  const Uuid other = delay_over(db);
  CHECK(wait_until([&] { return claimable(db, other); }));
}

TEST_CASE("a pause that ends by itself lets the reconciler go on") {
  const Database database;
  auto db = database.connect();
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kQuick});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  REQUIRE(run_binary({"pause", "lease_expiry", "--reason", "short", "--for", "2s"}, at(database)).code == 0);
  REQUIRE(wait_until([&] { return paused(daemon); }));
  const Uuid id = lapsed(db);
  CHECK(wait_until([&] { return claimable(db, id); }));
}

TEST_CASE(
    "of a row that was written by hand for no reconciler nobody is told to resume what resume refuses") {
  const Database database;
  auto db = database.connect();
  db.execute("INSERT INTO ff_reconciler_pause VALUES ('zzz_not', 'anna', 'a slip', 1, NULL)");
  CHECK(run_binary({"resume", "zzz_not"}, at(database)).code == 64);
  const auto next = "delete its row from ff_reconciler_pause";
  CHECK_THAT(run_binary({"status"}, at(database)).out, Contains(next) && !Contains("resume zzz_not"));
  CHECK(Json::parse(run_binary({"status", "--json"}, at(database)).out)["pauses"][0]["next"] == next);
  CHECK_THAT(check_db(at(database)), Contains(next) && !Contains("resume zzz_not"));
  CHECK_THAT(run_binary({"resume", "all"}, at(database)).out, Contains(next) && !Contains("resume zzz_not"));
}

TEST_CASE("without the table pause ends with 1 and the command that makes it, and the daemon runs") {
  const Database database;
  auto db = database.connect();
  db.execute_script(
      "DROP TABLE ff_reconciler_pause; DELETE FROM ff_reconciler_migration WHERE name = 'own_pause'");
  for (const auto& words : {std::vector<std::string>{"pause", "all", "--reason", "x"}, {"resume", "all"}}) {
    const Ended refused = run_binary(words, at(database));
    CHECK(refused.code == 1);
    CHECK(refused.out.empty());
    CHECK_THAT(refused.err, Contains("ff_reconciler_pause is missing") && Contains("migrate up"));
  }
  CHECK(run_binary({"status"}, at(database)).code == 0);
  CHECK(run_binary({"tick", "lease_expiry"}, at(database)).err.empty());
  CHECK_THAT(check_db(at(database)), Contains("nothing can be paused"));
  const Ended status = run_binary({"migrate", "status"}, at(database));
  CHECK(status.code == 0);
  CHECK_THAT(status.out, Contains("pending: 0011 own_pause") && Contains("the reconcilers can run on it"));
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kQuick});
  const Uuid id = lapsed(db);
  CHECK(wait_until([&] { return claimable(db, id); }));
  CHECK_FALSE(daemon.process().err_has("pause"));

  CHECK(run_binary({"migrate", "up"}, at(database)).code == 0);
  CHECK(run_binary({"pause", "all", "--reason", "x"}, at(database)).code == 0);
  CHECK(wait_until([&] { return paused(daemon); }, 6s));
}

TEST_CASE("a role that may not read the table runs, says so once, and is told what to grant") {
  const Database database;
  auto db = database.connect();
  const std::string role = "blind_" + database.name();
  db.execute_script("CREATE ROLE " + role + " LOGIN");
  const Ended grants = run_binary({"migrate", "grants", "--role", role}, at(database));
  CHECK_THAT(grants.out,
             Contains("GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE public.ff_reconciler_pause TO " + role));
  db.execute_script(grants.out + "REVOKE ALL ON ff_reconciler_pause FROM " + role);
  const std::string conninfo = database.conninfo() + " user=" + role;
  const Environment as_role{{"FF_DATABASE_URL", conninfo}};
  {
    RunningDaemon daemon({.conninfo = conninfo, .config = kQuick});
    const Uuid id = lapsed(db);
    CHECK(wait_until([&] { return claimable(db, id); }));
    CHECK(daemon.process().err_has("this role may not read ff_reconciler_pause"));
    const Json unread = Json::parse(daemon.get("/status").body)["pauses_unread"];
    CHECK_THAT(unread.get<std::string>(), Contains("this role may not read ff_reconciler_pause"));
    CHECK(daemon.metric("ff_reconciler_pauses_unread") == 1);
    CHECK_THAT(daemon.get("/").body, Contains("What is paused cannot be read"));
    const Uuid waiting = insert_core(db, {.partition = {1}, .policy = max_retries(9)});
    insert_attempt(db,
                   {.partition = {1}, .execution = waiting, .lease_expires_at_ms = now_ms(db) + 3'600'000});
    CHECK_THAT(run_binary({"explain", shown(waiting)}, as_role).out, Contains("paused is not known"));

    const Ended half = run_binary({"pause", "all", "--reason", "x"}, at(database));
    CHECK(half.code == 1);
    CHECK_THAT(half.out,
               Contains("all reconcilers paused by ") && Contains("no other replica begins an act"));
    CHECK_THAT(half.err, Contains("replicas that connect as " + role + " do not see the pause and go on") &&
                             Contains("GRANT SELECT ON TABLE public.ff_reconciler_pause TO " + role + ";\n"));
    CHECK_FALSE(paused(daemon));
    db.execute_script("GRANT SELECT ON ff_reconciler_pause TO " + role);
    CHECK(wait_until([&] { return paused(daemon); }, 6s));
    CHECK(Json::parse(daemon.get("/status").body)["pauses_unread"].is_null());
    CHECK(run_binary({"pause", "all", "--reason", "x"}, at(database)).code == 0);
    REQUIRE(run_binary({"resume", "all"}, at(database)).code == 0);
    db.execute_script("REVOKE ALL ON ff_reconciler_pause FROM " + role);
  }
  CHECK(run_binary({"status"}, as_role).code == 0);
  CHECK(run_binary({"tick", "lease_expiry"}, as_role).code == 0);
  CHECK_THAT(check_db(as_role), Contains("GRANT SELECT ON TABLE public.ff_reconciler_pause TO " + role));
  CHECK(run_binary({"pause", "all", "--reason", "x"}, as_role).code == 1);
  db.execute_script("GRANT SELECT ON ff_reconciler_pause TO " + role);
  const Ended refused = run_binary({"pause", "all", "--reason", "x"}, as_role);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Contains("permission denied") && Contains("migrate grants"));
  db.execute_script("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

TEST_CASE("pause refuses what it cannot mean") {
  const Environment nowhere{{"FF_DATABASE_URL", "host=/nonexistent dbname=x user=y"}};
  const auto refused = [&](const std::vector<std::string>& more, const std::string& says) {
    std::vector<std::string> words{"pause"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended done = run_binary(words, nowhere);
    CAPTURE(done.err);
    CHECK(done.code == 64);
    CHECK_THAT(done.err, Contains(says));
  };
  refused({"all"}, "--reason is missing");
  refused({"all", "--reason", " "}, "--reason is missing");
  refused({"all", "--reason", "two\nlines"}, "no line of at most 500 bytes");
  refused({"nobody", "--reason", "x"}, "there is no reconciler");
  refused({"lease_expirey", "--reason", "x"},
          "\"lease_expirey\": did you mean lease_expiry? (allowed: all, ");
  refused({"all", "lease_expiry", "--reason", "x"}, "all or names, not both");
  refused({"all", "--reason", "x", "--for", "2"}, "no duration from 1s");
  refused({"all", "--reason", "x", "--until", "tomorrow"}, "2026-11-24T06:00Z");
  refused({"all", "--reason", "x", "--for", "2h", "--until", "2026-11-24T06:00Z"}, "not both");
  const Database database;
  CHECK(run_binary({"pause", "all", "--reason", "x", "--until", "2020-01-01T00:00Z"}, at(database)).code ==
        64);
}
