// What `check-db` looks at beside the schema (check_db_test): who is connected, what they hold, and what the server leaves
// undone.
#include <catch2/catch.hpp>
#include <future>

#include "check/replicas.hpp"
#include "check/server.hpp"
#include "check/sessions.hpp"
#include "check/tables.hpp"
#include "check_db_lines.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using Catch::Matchers::Contains;
using check::Line;
using check::Lines;
using check::Verdict;
using namespace std::chrono_literals;

namespace {

/// Statistics and dead rows of attempts stay as they are.
pg::Connection without_autovacuum(const Database& database) {
  auto db = database.connect();
  db.execute_script(
      "ALTER TABLE ff_attempt_p0 SET (autovacuum_enabled = off);"
      "ALTER TABLE ff_attempt_p1 SET (autovacuum_enabled = off)");
  return db;
}

}  // namespace

TEST_CASE("locks that the server has no room for are a problem, and the number that it says is enough") {
  const Database database;
  auto db = database.connect();
  check_fine(check::lock_table(db, 4, 100));
  const Line line = faulty(check::lock_table(db, 100, 10'000), Verdict::problem);
  CHECK_THAT(line.text, Contains("100 connections of up to 10000 locks each"));
  CHECK_THAT(line.next, Contains("ALTER SYSTEM SET max_locks_per_transaction = "));
}

TEST_CASE("a notification that gets lost is a warning") {
  const Database database;
  const Database another{empty_database()};
  pg::Listener listener(database.connect());
  auto db = database.connect();
  check_fine(check::notifications(listener, db, 10s, 10));
  auto elsewhere = another.connect();  // as behind a pooler, its notification goes to nobody
  CHECK_THAT(faulty(check::notifications(listener, elsewhere, 100ms, 10), Verdict::warning).next,
             Contains("pool_mode = session"));
}

TEST_CASE("a transaction that is open for long is a warning that names who has it") {
  const Database database;
  auto db = database.connect();
  check_fine(check::long_transactions(db, 60s));
  auto other = database.connect();
  other.execute_script("SET application_name = 'report'; BEGIN; SELECT txid_current()");
  const auto pid = std::to_string(other.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0));
  const Line line = faulty(check::long_transactions(db, -1ms), Verdict::warning);
  CHECK_THAT(line.text, Contains("pid " + pid + " (report), idle in transaction"));
  check_fine(check::oldest_snapshot(db, 1'000'000));
  db.execute_script(line.next);
  REQUIRE_THROWS(other.execute("SELECT 1"));
  check_fine(check::long_transactions(db, 60s));
}

TEST_CASE("a role that may not see how old the transactions of others are is told what to grant") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  other.execute_script("BEGIN; SELECT txid_current()");
  db.execute_script("CREATE ROLE sees_little; SET ROLE sees_little");
  const Lines lines = check::long_transactions(db, -1ms);
  REQUIRE_FALSE(lines.empty());
  CHECK(lines.back().verdict == Verdict::skipped);
  CHECK(lines.back().next == "GRANT pg_read_all_stats TO sees_little;");
  db.execute_script("RESET ROLE; " + lines.back().next + " SET ROLE sees_little");
  CHECK(check::long_transactions(db, -1ms).back().verdict == Verdict::warning);
  db.execute_script("RESET ROLE; DROP ROLE sees_little");
}

TEST_CASE("who holds back VACUUM by many transactions is a warning, and what it says ends that") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  other.execute_script("SET application_name = 'report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
  for (int i = 0; i < 5; ++i) db.execute("SELECT txid_current()");
  check_fine(check::oldest_snapshot(db, 1000));
  const Line line = faulty(check::oldest_snapshot(db, 4), Verdict::warning);
  CHECK_THAT(line.text, Contains("(report) holds back VACUUM by "));
  db.execute_script(line.next);
  REQUIRE_THROWS(other.execute("SELECT 1"));
  check_fine(check::oldest_snapshot(db, 4));
}

TEST_CASE("autovacuum that is off for the whole server is a warning, and what it says switches it on") {
  const Database database;
  auto db = database.connect();
  const std::string setting = GENERATE("autovacuum", "track_counts");
  CAPTURE(setting);
  const auto until = [&](const std::string& value) {
    return wait_until([&] {  // the server takes a changed setting over when its processes come to it
      return db.execute("SELECT current_setting($1)", pg::Params::of(setting)).one().get<std::string>(0) ==
             value;
    });
  };
  check_fine(check::autovacuum(db));
  db.execute("ALTER SYSTEM SET " + setting + " = off");
  db.execute("SELECT pg_reload_conf()");
  REQUIRE(until("off"));
  const Line line = faulty(check::autovacuum(db), Verdict::warning);
  CHECK_THAT(line.text, Catch::StartsWith(setting + " is off for the whole server"));
  for (std::size_t at = 0; at < line.next.size();) {  // ALTER SYSTEM wants to be alone
    const std::size_t end = line.next.find(';', at);
    db.execute(line.next.substr(at, end - at));
    at = end + 1;
  }
  REQUIRE(until("on"));
  check_fine(check::autovacuum(db));
}

TEST_CASE("a table without autovacuum is a warning, and what it says switches it on") {
  const Database database;
  auto db = database.connect();
  const Lines on_server = check::autovacuum(db);  // the tests' own server may have it off
  db.execute("ALTER TABLE ff_attempt_p2 SET (autovacuum_enabled = off)");
  const Lines lines = check::autovacuum(db);
  CHECK_THAT(lines.back().text, Contains("public.ff_attempt_p2 has autovacuum_enabled off"));
  CHECK(lines.back().verdict == Verdict::warning);
  db.execute_script(lines.back().next);
  CHECK(check::autovacuum(db).size() == on_server.size());
}

TEST_CASE("what a crash of the server would empty is a warning, and what it says makes it last") {
  const Database database;
  auto db = database.connect();
  const auto seen = [&] { return check::schema(db, migrate::inspect(db)); };
  db.execute_script("ALTER TABLE ff_attempt_p1 SET UNLOGGED; ALTER TABLE ff_attempt_p2 SET UNLOGGED");
  const Line children = faulty(seen(), Verdict::warning);
  CHECK_THAT(children.text, Catch::StartsWith("2 of the hash children of public.ff_attempt are unlogged: "));
  db.execute_script(children.next);
  check_fine(seen());
  db.execute("ALTER TABLE ff_lease_event SET UNLOGGED");
  const Line table = faulty(seen(), Verdict::warning);
  CHECK_THAT(table.text, Catch::StartsWith("public.ff_lease_event is unlogged: "));
  db.execute_script(table.next);
  check_fine(seen());
}

TEST_CASE("a table of which most is dead is a warning") {
  const Database database;
  auto db = without_autovacuum(database);
  insert_many_lapsed(db, {.count = 100});
  db.execute("SELECT pg_stat_force_next_flush()");
  check_fine(check::dead_rows(db, 10));
  db.execute("DELETE FROM ff_attempt");
  db.execute("SELECT pg_stat_force_next_flush()");
  const Line line = faulty(check::dead_rows(db, 10), Verdict::warning);
  CHECK_THAT(line.text, Contains("public.ff_attempt has 100 dead rows beside 0 live ones"));
  check_fine(check::dead_rows(db, 1000));
}

TEST_CASE("a table that has grown tenfold since it was analysed is a warning, and is none once it is again") {
  const Database database;
  auto db = without_autovacuum(database);
  insert_many_lapsed(db, {.count = 2});
  db.execute("ANALYZE ff_attempt");
  db.execute("SELECT pg_stat_force_next_flush()");
  check_fine(check::statistics(db, 10));
  insert_many_lapsed(db, {.count = 200});
  db.execute("SELECT pg_stat_force_next_flush()");
  const Line line = faulty(check::statistics(db, 10), Verdict::warning);
  CHECK_THAT(line.text, Contains("of the hash children of public.ff_attempt as they were before"));
  CHECK(line.next == "ANALYZE public.ff_attempt;");
  check_fine(check::statistics(db, 1000));
  db.execute(line.next);
  check_fine(check::statistics(db, 10));
}

TEST_CASE("the partitions that no daemon seen looks after are named, and daemons of several versions") {
  const Database database;
  auto db = database.connect();
  CHECK_THAT(faulty(check::replicas(check::replicas(db), 256), Verdict::warning).text,
             Contains("no daemon is seen"));
  std::vector<pg::Connection> sessions;
  const auto join = [&](const PartitionChoice& choice, const std::string& version = "1.2.3") {
    sessions.push_back(database.connect());
    sessions.back().execute("SELECT set_config('application_name', $1, false)",
                            pg::Params::of(check::session_name(version, choice)));
    return check::replicas(check::replicas(db), 256).back();
  };
  CHECK_THAT(join(parse_partitions("0-63,200")).text, Contains("partitions 64-199,201-255"));
  CHECK_THAT(join(PartitionShard{1, 2}).text,
             Contains("partitions 64,66,68") && Contains(",198,202,") && Contains(",254"));
  CHECK(join(AllPartitions{}).verdict == Verdict::fine);
  CHECK_THAT(join(AllPartitions{}, "1.2.4").text, Contains("of several versions: 1.2.3, 1.2.4"));
}

TEST_CASE("sessions that only rest are no daemon, unless it is not for the role to see that they do") {
  const Database database;
  auto db = database.connect();
  auto session = database.connect();
  session.execute("SELECT set_config('application_name', $1, false)",
                  pg::Params::of(check::session_name("1.2.3", AllPartitions{})));
  CHECK(check::replicas(db).size() == 1);
  CHECK(check::replicas(db, 0ms).empty());
  auto another = database.connect();  // of two sessions one is at work
  another.execute_script("SET application_name = 'ff-reconcilerd 1.2.3 all'; SELECT 1");
  auto working = std::async(std::launch::async, [&] { another.execute("SELECT pg_sleep(2)"); });
  REQUIRE(wait_until([&] { return !check::replicas(db, 0ms).empty(); }));
  CHECK(check::replicas(db, 0ms).at(0).sessions == 2);
  working.get();
  CHECK(check::replicas(db, 0ms).empty());
  db.execute_script("CREATE ROLE sees_no_times; SET ROLE sees_no_times");
  CHECK(check::replicas(db, 0ms).size() == 1);
  db.execute_script("RESET ROLE; DROP ROLE sees_no_times");
}

TEST_CASE("a list of partitions that is too long for a session's name is not mistaken for a shorter one") {
  const Database database;
  auto db = database.connect();
  auto session = database.connect();
  const std::string name =
      check::session_name("1.2.3", parse_partitions("0-63,66,68,70-99,101,103,105,107,109,111,113-255"));
  CHECK(name.size() <= 63);
  session.execute("SELECT set_config('application_name', $1, false)", pg::Params::of(name));
  const Line last = check::replicas(check::replicas(db), 256).back();
  CHECK(last.verdict == Verdict::warning);
  CHECK_THAT(last.text, Contains("names more than its session's name can hold"));
}

TEST_CASE("a connection that needs no TLS is fine without") {
  const Database database;
  auto db = database.connect();
  check_fine(check::encryption(db, "prefer"));
}

TEST_CASE(
    "a table that workers write is found locked, all of it or a child, by whoever has it or waits for it") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  CHECK_FALSE(check::locked_to_workers(db));
  const auto found_under = [&](const std::string& lock) {
    other.execute_script("BEGIN; LOCK TABLE " + lock);
    const auto found = check::locked_to_workers(db);
    other.execute_script("ROLLBACK");
    return found ? found->name + (found->all ? ", all of it" : "") : "";
  };
  CHECK(found_under("ff_attempt") == "ff_attempt, all of it");
  CHECK(found_under("ff_attempt IN SHARE MODE") == "ff_attempt, all of it");
  CHECK(found_under("ff_attempt_p1, ff_exec_core_p0") == "ff_attempt");
  CHECK(found_under("ff_attempt_p1, ff_worker_registry") == "ff_worker_registry, all of it");
  CHECK(found_under("ff_attempt IN ROW EXCLUSIVE MODE").empty());
  CHECK(found_under("ff_attempt IN SHARE UPDATE EXCLUSIVE MODE").empty());
  CHECK(found_under("ff_budget_policy").empty());

  db.execute_script("BEGIN; LOCK TABLE ff_lease_event IN ROW EXCLUSIVE MODE");
  auto waits = std::async(std::launch::async,
                          [&] { other.execute_script("BEGIN; LOCK TABLE ff_lease_event; ROLLBACK"); });
  auto third = database.connect();
  CHECK(wait_until([&] { return check::locked_to_workers(third).has_value(); }));
  db.execute_script("ROLLBACK");
  waits.get();
}
