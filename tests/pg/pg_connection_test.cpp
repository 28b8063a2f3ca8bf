// One session: deadlines, interrupts, errors, prepared statements.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "pg/pg_session.hpp"
#include "pg/server.hpp"
#include "pg/transaction.hpp"
#include "support/log_capture.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kSleep = "SELECT pg_sleep(30)";

}  // namespace

TEST_CASE("a statement that is not answered in time ends with a timeout and takes the connection with it") {
  const Database database;
  auto db = database.connect();
  CHECK(is_prompt([&] {
    const auto error = error_of([&] { db.execute(kSleep, {}, Clock::system().now() + 50ms); });
    CHECK(error.kind() == pg::Error::Kind::timeout);
    CHECK(error.timed_out());
    CHECK(error.query() == kSleep);
  }));
  CHECK(db.lost());
  CHECK_FALSE(db.idle());
  CHECK(error_of([&] { db.execute("SELECT 1"); }).connection_lost());
}

TEST_CASE("an interrupt ends a running statement promptly, here and on the server") {
  const Database database;
  auto watcher = database.connect();
  pg::Interrupt interrupt;
  auto db = database.connector().connect(Clock::system().now() + 10s, &interrupt);
  std::thread raiser([&] {
    await_running(watcher, kSleep, 1);
    interrupt.raise();
  });
  CHECK(is_prompt([&] {
    const auto error = error_of([&] { db.execute(kSleep); });
    CHECK(error.interrupted());
    CHECK_FALSE(error.timed_out());
    CHECK(error.error_class() == "internal");
  }));
  raiser.join();
  CHECK(db.lost());
  CHECK(is_prompt([&] { await_running(watcher, kSleep, 0); }));
  // It stays raised.
  CHECK(
      error_of([&] { database.connector().connect(Clock::system().now() + 10s, &interrupt); }).interrupted());
}

TEST_CASE("an error of the server tells its code and statement and leaves the connection usable") {
  const Database database;
  auto db = database.connect();
  const auto error = error_of([&] { db.execute("SELECT 1 / $1", pg::Params::of(0)); });
  CHECK(error.kind() == pg::Error::Kind::server);
  CHECK(error.sqlstate() == "22012");
  CHECK(error.query() == "SELECT 1 / $1");
  CHECK(error.may_be_one_row());
  CHECK(error.error_class() == "22");
  CHECK_FALSE(error.connection_lost());
  CHECK(db.idle());
  CHECK(error_of([&] { db.execute("SELEC"); }).sqlstate() == "42601");
  CHECK(error_of([&] { db.execute_script("SELECT 1; SELECT 1 / 0; SELECT 2"); }).sqlstate() == "22012");
  CHECK(db.idle());
  CHECK(db.execute_script("SELECT 1; SELECT 2").one().get<std::int32_t>(0) == 2);
}

TEST_CASE("a session that the server ends is lost") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  other.execute("SELECT pg_terminate_backend($1, 5000)", pg::Params::of(pid_of(db)));
  const auto error = error_of([&] { db.execute("SELECT 1"); });
  CHECK(error.connection_lost());
  CHECK_FALSE(error.may_be_one_row());
  CHECK(db.lost());
}

TEST_CASE("a session that the server ends under a statement tells why, and not that the server crashed") {
  const Database database;
  auto admin = database.connect();
  auto holder = database.connect();
  auto db = database.connect();
  admin.execute("CREATE TABLE t (n int)");
  pg::Transaction holding(holder);
  holding.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE");
  const auto pid = pid_of(db);
  // What waits, in each of the ways in which a statement is sent.
  const std::function<void()> wait = GENERATE_REF(
      std::function<void()>([&] { db.execute("SELECT n FROM t"); }),
      std::function<void()>([&] { db.execute_prepared("SELECT n FROM t WHERE n = $1", pg::Params::of(1)); }),
      std::function<void()>([&] { db.execute_script("SELECT n FROM t"); }));
  std::thread ender([&] {
    const bool it_waits = test::wait_until([&] {
      return test::number(admin, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1",
                          pg::Params::of(pid)) > 0;
    });
    if (it_waits) admin.execute("SELECT pg_terminate_backend($1, 5000)", pg::Params::of(pid));
  });
  const auto error = error_of(wait);
  ender.join();
  CHECK(error.kind() == pg::Error::Kind::connection);
  CHECK(error.sqlstate() == "57P01");
  CHECK(error.error_class() == "57");
  CHECK_THAT(error.what(), Catch::StartsWith("terminating connection due to administrator command"));
  CHECK_FALSE(error.query().empty());
  CHECK(db.lost());
}

TEST_CASE("an interrupt is obeyed though the whole server hangs") {
  testserver::PrivateServer server;
  pg::Interrupt interrupt;
  auto db = pg::Connector({.conninfo = server.conninfo()}).connect(Clock::system().now() + 10s, &interrupt);
  ::kill(*server.pid(), SIGSTOP);  // who would take the request to cancel
  std::thread raiser([&] {
    std::this_thread::sleep_for(100ms);
    interrupt.raise();
  });
  CHECK(is_prompt([&] { CHECK(error_of([&] { db.execute(kSleep); }).interrupted()); }));
  raiser.join();
  ::kill(*server.pid(), SIGCONT);
}

TEST_CASE("what a row holds is no part of an error's message") {
  const test::LogCapture log(spdlog::level::debug);
  const Database database;
  auto db = database.connect();
  db.execute("CREATE TABLE t (n int PRIMARY KEY, payload text, CHECK (n > 0))");
  const auto error = error_of([&] { db.execute("INSERT INTO t VALUES (0, 'a customer''s')"); });
  CHECK_THAT(error.what(), Catch::Contains("23514") && !Catch::Contains("customer"));
  CHECK_THAT(log.lines().back(), Catch::StartsWith("debug ") && Catch::Contains("a customer's"));
}

TEST_CASE("a statement is prepared once per session and reused") {
  const Database database;
  auto db = database.connect();
  const auto sql = "SELECT $1 + 1";
  for (int i = 0; i < 3; ++i)
    CHECK(db.execute_prepared(sql, pg::Params::of(i)).one().get<std::int32_t>(0) == i + 1);
  db.execute_prepared("SELECT $1 + 2", pg::Params::of(1));
  const auto prepared =
      db.execute("SELECT statement, generic_plans + custom_plans FROM pg_prepared_statements ORDER BY 1");
  REQUIRE(prepared.size() == 2);
  CHECK(prepared[0].get<std::string>(0) == sql);
  CHECK(prepared[0].get<std::int64_t>(1) == 3);
}

TEST_CASE("a prepared statement's name tells its text, whatever else the session has prepared") {
  const Database database;
  auto one = database.connect();
  auto two = database.connect();
  const auto sql = "SELECT $1 + 1";
  one.execute_prepared(sql, pg::Params::of(1));
  two.execute_prepared("SELECT $1 + 2", pg::Params::of(1));
  const auto named = [](pg::Connection& db, const std::string& text) {
    const auto name =
        db.execute("SELECT name FROM pg_prepared_statements WHERE statement = $1", pg::Params::of(text));
    return name.one().get<std::string>(0);
  };
  CHECK(named(one, sql) != named(two, "SELECT $1 + 2"));
  two.execute_prepared(sql, pg::Params::of(1));
  CHECK(named(one, sql) == named(two, sql));
}

TEST_CASE("a function that raises 26000 or 42P05 does not stop a session from preparing") {
  const Database database;
  auto db = database.connect();
  db.execute_script(
      "CREATE FUNCTION raises(code text) RETURNS integer LANGUAGE plpgsql AS "
      "'BEGIN RAISE EXCEPTION USING ERRCODE = code; END'");
  for (const char* code : {"26000", "42P05"}) {
    const auto error =
        error_of([&] { db.execute_prepared("SELECT public.raises($1)", pg::Params::of(code)); });
    CHECK(error.sqlstate() == code);
    CHECK_FALSE(error.retryable());
  }
  db.execute_prepared("SELECT $1 + 1", pg::Params::of(1));
  CHECK(test::number(db, "SELECT count(*) FROM pg_prepared_statements") == 2);
}

TEST_CASE("a session whose prepared statements get lost goes on without") {
  const Database database;
  auto db = database.connect();
  db.execute_prepared("SELECT $1 + 1", pg::Params::of(1));
  db.execute("DEALLOCATE ALL");  // as a pooler that hands the session to others
  const auto error = error_of([&] { db.execute_prepared("SELECT $1 + 1", pg::Params::of(1)); });
  CHECK(error.retryable());
  CHECK(db.execute_prepared("SELECT $1 + 1", pg::Params::of(1)).one().get<std::int32_t>(0) == 2);
  CHECK(test::number(db, "SELECT count(*) FROM pg_prepared_statements") == 0);
}

TEST_CASE("a connection gives back a statement for one that it sends more often") {
  const Database database;
  auto db = database.connect();
  const auto kept = [&] { return test::number(db, "SELECT count(*) FROM pg_prepared_statements"); };
  const auto send = [&](std::size_t i) {
    const std::string text = "SELECT $1::integer + " + std::to_string(i);
    CHECK(db.execute_prepared(text, pg::Params::of(1)).one().get<int>(0) == static_cast<int>(i) + 1);
    return db.has_prepared(text);
  };
  const std::size_t most = pg::Connection::kMostPrepared;
  for (std::size_t i = 0; i < most; ++i) CHECK(send(i));
  CHECK_FALSE(send(most));
  CHECK(send(0));
  CHECK(send(most));
  CHECK(send(0));
  CHECK(kept() == static_cast<std::int64_t>(most));
  CHECK(db.prepared() == most);
  CHECK_FALSE(send(1));
  CHECK(send(1));

  SECTION("and prepares no more where the server does not know their names, as behind a pooler") {
    db.execute_script("DEALLOCATE ALL");
    for (std::size_t i = 0; i < 3; ++i) send(1000 + i % 2);
    CHECK(db.prepared() == most + 1);
    CHECK(kept() == 0);
    CHECK(db.idle());
  }
}

TEST_CASE("several statements go in one round trip, and end with the first that fails") {
  const Database database;
  auto db = database.connect();
  db.execute("CREATE TABLE t (n int)");
  const auto one = pg::Params::of(1);
  const auto two = pg::Params::of(2);
  const auto deadline = db.default_deadline();
  const auto both = db.execute_all(
      {{"INSERT INTO t VALUES ($1)", one}, {"SELECT $1::int + 1", two, pg::Plan::generic}}, deadline);
  REQUIRE(both.size() == 2);
  CHECK(both[0].affected() == 1);
  CHECK(both[1].one().get<int>(0) == 3);

  const auto error = error_of([&] {
    db.execute_all({{"INSERT INTO t VALUES ($1)", one},
                    {"SELECT 1 / 0"},
                    {"SELECT $1::int + 7", two, pg::Plan::generic}},
                   deadline);
  });
  CHECK(error.sqlstate() == "22012");
  CHECK(error.query() == "SELECT 1 / 0");
  CHECK(db.idle());
  CHECK(test::number(db, "SELECT count(*) FROM t") == 1);
  CHECK_FALSE(db.has_prepared("SELECT $1::int + 7"));
  CHECK(db.execute_prepared("SELECT $1::int + 7", two).one().get<int>(0) == 9);
}

TEST_CASE("what fails only as a statement by itself is committed is its error, and the session goes on") {
  const Database database;
  auto db = database.connect();
  db.execute("CREATE TABLE t (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
  const std::string insert = "INSERT INTO t VALUES ($1)";
  const auto one = pg::Params::of(1);
  const auto two = pg::Params::of(2);
  db.execute(insert, one);
  const auto check = [&](const pg::Error& error) {
    CHECK(error.kind() == pg::Error::Kind::server);
    CHECK(error.sqlstate() == "23505");
    CHECK(error.query() == insert);
    CHECK(db.idle());
    CHECK(test::number(db, "SELECT count(*) FROM t") == 1);
  };
  check(error_of([&] { db.execute(insert, one); }));
  check(error_of([&] { db.execute_prepared(insert, one); }));
  CHECK(db.has_prepared(insert));
  const std::vector<pg::Call> both{{insert, two}, {insert, one}};
  check(error_of([&] { db.execute_all(both, db.default_deadline()); }));
  db.execute_prepared(insert, two);
  CHECK(test::number(db, "SELECT count(*) FROM t") == 2);
}

TEST_CASE("a statement by itself has the time that the connection gives it, whatever a role's settings are") {
  const Database database;
  auto db = database.connect();
  db.execute_script("ALTER DATABASE " + database.name() + " SET statement_timeout = '2s'");
  pg::ConnectOptions options = database.connector().options();
  options.relation = "ff_exec_core";
  const auto connect = [&](Milliseconds statement_timeout) {
    options.statement_timeout = statement_timeout;
    return pg::Connector(options).connect(Clock::system().now() + 10s);
  };
  auto patient = connect(20s);
  const std::string slow = "SELECT current_setting('statement_timeout') FROM pg_sleep(2.5)";
  const std::vector<pg::Call> both{{slow}, {slow, {}, pg::Plan::generic}};
  for (const pg::Result& result : patient.execute_all(both, patient.default_deadline()))
    CHECK(result.one().get<std::string>(0) == "20s");
  // For this transaction only, as a pooler's other clients need it.
  CHECK(patient.execute_script("SHOW statement_timeout").one().get<std::string>(0) == "2s");

  auto hasty = connect(50ms);
  CHECK(is_prompt([&] { CHECK(error_of([&] { hasty.execute(kSleep); }).canceled()); }));
  CHECK(hasty.idle());
}

TEST_CASE("a narrower statement goes in the place of one that is not worth a plan yet") {
  const Database database;
  auto db = database.connect();
  const auto one = pg::Params::of(1);
  const std::string wide = "SELECT $1::int + 1, 'wide'";
  const std::string narrow = "SELECT $1::int + 1, 'narrow'";
  const auto answer = [&](std::string_view narrower) {
    const auto results = db.execute_all(
        {{.sql = wide, .params = one, .plan = pg::Plan::generic, .narrower = std::string(narrower)}},
        db.default_deadline());
    CHECK(results.front().one().get<int>(0) == 2);
    return results.front().one().get<std::string>(1);
  };
  for (int time = 1; time < pg::Connection::kWorthAPlan; ++time) CHECK(answer(narrow) == "narrow");
  CHECK_FALSE(db.has_prepared(wide));
  CHECK(answer(narrow) == "wide");
  CHECK(db.has_prepared(wide));
  CHECK(answer(narrow) == "wide");
  CHECK(answer({}) == "wide");
  CHECK_FALSE(db.has_prepared(narrow));

  SECTION("and always behind a pooler, where nothing stays prepared") {
    db.execute_script("DEALLOCATE ALL");
    CHECK_THROWS_AS(answer(narrow), pg::Error);
    for (int time = 0; time < 2 * pg::Connection::kWorthAPlan; ++time) CHECK(answer(narrow) == "narrow");
  }
}

TEST_CASE("a server tells its time, its start, its version and whether it takes writes") {
  const Database database;
  auto db = database.connect();
  const auto info = pg::server_info(db);
  CHECK(info.writable);
  CHECK(info.version >= 150000);
  CHECK(info.started_at < info.now);
  CHECK(std::abs(count(info.now) - test::now_ms(db)) < 60'000);
  CHECK(pg::server_info(db).started_at == info.started_at);
  CHECK_THAT(pg::libpq_version(), Catch::Matches("1[5-9][.][0-9]+"));
  db.execute("SET default_transaction_read_only = on");
  CHECK_FALSE(pg::server_info(db).writable);
}

TEST_CASE("the detail of an error, which may hold a row, is told to whoever debugs and to nobody else") {
  const Database database;
  auto db = database.connect();
  db.execute_script(
      "CREATE TABLE t (n int PRIMARY KEY, payload text NOT NULL); CREATE UNIQUE INDEX ON t (payload)");
  const auto what = [&](spdlog::level::level_enum least) {
    const test::LogCapture log(least);
    db.execute("INSERT INTO t VALUES (1, 'a secret') ON CONFLICT DO NOTHING");
    const auto error = error_of([&] { db.execute("INSERT INTO t VALUES (2, 'a secret')"); });
    CHECK(error.sqlstate() == "23505");
    CHECK_THAT(error.what(), !Catch::Contains("a secret"));
    return log.lines();
  };
  CHECK(what(spdlog::level::info).empty());
  const auto debugged = what(spdlog::level::debug);
  REQUIRE(debugged.size() == 1);
  CHECK_THAT(debugged.front(), Catch::Contains("a secret"));
}
