// One transaction: its begin, its limits, its end, and what is known of a commit that was cut short.
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "pg/pg_session.hpp"
#include "pg/pool.hpp"
#include "pg/transaction.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

TEST_CASE("a session that is silent in a transaction for long is ended by its server") {
  const Database database;
  auto db = database.connect();
  const pg::Transaction transaction(db);
  CHECK(db.execute("SHOW idle_in_transaction_session_timeout").one().get<std::string>(0) == "10s");
}

TEST_CASE("what runs for a client that is gone is ended by its server within seconds") {
  const Database database;
  auto watcher = database.connect();
  pg::Pool pool(database.connector(), 1, 5s);
  auto gone = std::async(std::launch::async, [&] {
    auto connection = pool.acquire();
    pg::Transaction transaction(*connection);
    transaction.execute("SELECT pg_sleep(30)");
  });
  await_running(watcher, "SELECT pg_sleep(30)", 1);
  pool.abandon_all();
  CHECK_THROWS_AS(gone.get(), pg::Error);
  const auto running = [&] {
    return test::number(
        watcher,
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = "
        "'active' AND pid <> pg_backend_pid()");
  };
  CHECK(running() == 1);
  CHECK(test::wait_until([&] { return running() == 0; }, 6s));
}

TEST_CASE("a transaction that is not committed is rolled back when it ends") {
  const Database database;
  auto db = database.connect();
  db.execute("CREATE TABLE t (n int)");
  {
    pg::Transaction transaction(db);
    transaction.execute("INSERT INTO t VALUES (1)");
    CHECK_FALSE(db.idle());
  }
  CHECK(db.idle());
  CHECK(test::number(db, "SELECT count(*) FROM t") == 0);
  pg::Transaction transaction(db);
  transaction.execute("INSERT INTO t VALUES (1)");
  transaction.commit();
  CHECK(test::number(db, "SELECT count(*) FROM t") == 1);
}

TEST_CASE("a transaction sets its limits for itself only") {
  const Database database;
  pg::ConnectOptions options = database.connector().options();
  options.statement_timeout = 4s;
  auto db = pg::Connector(options).connect(Clock::system().now() + 10s);
  const auto show =
      "SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),"
      " current_setting('jit'), current_setting('plan_cache_mode'),"
      " current_setting('transaction_isolation'))";
  const auto before = db.execute(show).one().get<std::string>(0);
  {
    pg::Transaction transaction(db, {.plan = pg::Plan::generic});
    CHECK(transaction.execute(show).one().get<std::string>(0) ==
          "4s 1s off force_generic_plan read committed");
  }
  {
    pg::Transaction transaction(db);
    CHECK(transaction.execute(show).one().get<std::string>(0) == "4s 1s off auto read committed");
    transaction.commit();
  }
  CHECK(db.execute(show).one().get<std::string>(0) == before);
}

TEST_CASE(
    "a transaction locks the partition that it reads alone, whatever settings a database has for plans") {
  const Database database;
  auto db = database.connect();
  const std::vector<std::string> ways{"enable_indexscan", "enable_indexonlyscan", "enable_nestloop",
                                      "enable_partition_pruning"};
  for (const std::string& way : ways)
    db.execute_script("ALTER DATABASE " + database.name() + " SET " + way + " = off");
  auto session = database.connect();
  const auto locked = [&] {
    return test::number(session,
                        "SELECT count(*) FROM pg_locks l JOIN pg_inherits i ON i.inhrelid = l.relation WHERE "
                        "l.pid = pg_backend_pid() AND i.inhparent = 'ff_exec_core'::regclass");
  };
  const auto read = "SELECT FROM ff_exec_core WHERE partition_key = 3";
  session.execute_script(std::string("BEGIN; ") + read);
  CHECK(locked() == Database::kFanOut);
  session.execute_script("ROLLBACK");
  pg::Transaction transaction(session);
  transaction.execute(read);
  CHECK(locked() == 1);
  for (const std::string& way : ways) {
    CAPTURE(way);
    CHECK(transaction.execute("SHOW " + way).one().get<std::string>(0) == "on");
  }
}

TEST_CASE("commit of a transaction that had failed says so instead of pretending") {
  const Database database;
  auto db = database.connect();
  pg::Transaction transaction(db);
  CHECK_THROWS_AS(transaction.execute("SELECT 1 / 0"), pg::Error);
  const auto error = error_of([&] { transaction.commit(); });
  CHECK(error.sqlstate() == "25P02");
  CHECK_FALSE(error.outcome_unknown());
  CHECK(db.idle());
}

TEST_CASE("a commit whose session is killed has an unknown outcome") {
  const Database database;
  auto db = database.connect();
  db.execute_script(
      "CREATE TABLE t (n int); CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(30); RETURN NULL; END $$; "
      "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON t INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "
      "die()");
  pg::Transaction transaction(db);
  transaction.execute("INSERT INTO t VALUES (1)");
  const auto error = error_of([&] { transaction.commit(); });
  CHECK(error.outcome_unknown());
  CHECK(error.connection_lost());
  CHECK(error.sqlstate() == "57P01");
  CHECK_FALSE(error.retryable());
  CHECK(db.lost());
}

TEST_CASE("a commit that is interrupted has an unknown outcome") {
  const Database database;
  auto watcher = database.connect();
  pg::Interrupt interrupt;
  auto db = database.connector().connect(Clock::system().now() + 10s, &interrupt);
  db.execute_script(
      "CREATE TABLE t (n int); CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "PERFORM pg_sleep(30); RETURN NULL; END $$; "
      "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON t INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "
      "wait()");
  pg::Transaction transaction(db);
  transaction.execute("INSERT INTO t VALUES (1)");
  std::thread raiser([&] {
    await_running(watcher, "COMMIT", 1);
    interrupt.raise();
  });
  CHECK(is_prompt([&] { CHECK(error_of([&] { transaction.commit(); }).outcome_unknown()); }));
  raiser.join();
}

TEST_CASE("a transaction begins with its first statement, and one without a statement never") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const auto pid = pid_of(db);
  const auto state = [&] {
    return other.execute("SELECT state FROM pg_stat_activity WHERE pid = $1", pg::Params::of(pid))
        .one()
        .get<std::string>(0);
  };
  {
    pg::Transaction empty(db);
    CHECK_FALSE(db.idle());
    CHECK(state() == "idle");
    empty.commit();
    CHECK(db.idle());
  }
  pg::Transaction transaction(db);
  transaction.execute("SELECT 1");
  CHECK(state() == "idle in transaction");
  transaction.commit();
  CHECK(state() == "idle");
}

TEST_CASE("a transaction whose session is lost ends quietly") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  {
    pg::Transaction transaction(db);
    other.execute("SELECT pg_terminate_backend($1, 5000)", pg::Params::of(pid_of(db)));
  }
  CHECK_FALSE(db.idle());
}
