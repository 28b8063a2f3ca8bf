// What a tick makes of a server that fails it, and that a later tick completes the work.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

/// Runs `body` at the update of an attempt of the worker "trap".
void set_trap(pg::Connection& db, const std::string& body) {
  db.execute_script("CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body +
                    " RETURN NEW; END $$; "
                    "CREATE TRIGGER trap BEFORE UPDATE ON ff_attempt FOR EACH ROW "
                    "WHEN (OLD.worker_id = 'trap') EXECUTE FUNCTION trap()");
}
void insert_trap(pg::Connection& db, std::int64_t lapsed_ago_ms) {
  insert_lapsed(db, {.partition = {3}},
                {.worker_id = "trap", .lease_expires_at_ms = now_ms(db) - lapsed_ago_ms});
}

std::int64_t leases_taken(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NULL");
}
std::int64_t leases_left(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL");
}

}  // namespace

TEST_CASE("a session that is killed in the middle of a tick costs that batch only until the next tick") {
  const auto name = GENERATE("attempt_timeout", "lease_expiry");
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 15, .partitions = {{3}}, .first_lapsed_ago_ms = 90'000});
  insert_trap(db, 60'000);
  insert_many_lapsed(db, {.count = 14, .partitions = {{3}}, .first_lapsed_ago_ms = 30'000});
  set_trap(db, "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(30);");
  EngineFixture engine(database, name, {.batch_size = 10});

  const TickReport report = engine->tick();
  REQUIRE(report.failure);
  CHECK(report.failure->connection_lost());
  CHECK_FALSE(report.failure->outcome_unknown());
  CHECK(report.errors == decltype(report.errors){{"57", 1}});
  CHECK(report.processed == 10);
  CHECK(report.quarantined == 0);
  CHECK(leases_left(db) == 20);
  CHECK(lease_events(db).size() == 10);
  CHECK(engine.pool().state().idle == 0);
  CHECK(engine.pool().state().in_use == 0);

  db.execute("DROP TRIGGER trap ON ff_attempt");
  const TickReport next = engine->tick();
  CHECK_FALSE(next.failure);
  CHECK(next.processed == 20);
  CHECK(leases_left(db) == 0);
  CHECK(lease_events(db).size() == 30);
}

TEST_CASE("a row that takes longer than the statement timeout is found and left out") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 6, .partitions = {{3}}});
  insert_trap(db, 70'000);
  set_trap(db, "PERFORM pg_sleep(30);");
  EngineFixture engine(database, "lease_expiry", {.statement_timeout = Milliseconds{250}});
  const TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 6);
  CHECK(report.errors == decltype(report.errors){{"timeout", 1}});
  CHECK(report.quarantined == 1);
}

TEST_CASE("a table that somebody locks as a whole ends the tick instead of making everybody queue") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 4});
  EngineFixture engine(database, "lease_expiry", {.statement_timeout = Milliseconds{400}});
  pg::Transaction ddl(db);
  ddl.execute("LOCK TABLE ff_attempt IN ACCESS EXCLUSIVE MODE");
  const TickReport report = engine->tick();
  REQUIRE(report.failure);
  CHECK(report.failure->timed_out());
  CHECK(report.failure->sqlstate() == "55P03");
  CHECK(report.errors == decltype(report.errors){{"timeout", 1}});
  ddl.rollback();
  CHECK(engine->tick().processed == 4);
}

TEST_CASE("a tick that may not write any more leaves every row as it was, also one that it has acted on") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 14});
  EngineFixture engine(database, "attempt_timeout", {.batch_size = 4});
  // Asked before each batch and before its commit: so in the midst of the second, or in between.
  const int answers = GENERATE(0, 1, 4, 5);
  int asked = 0;
  const TickReport report = engine->tick({.may_write = [&] { return ++asked <= answers; }});
  CHECK_FALSE(report.failure);
  CHECK(report.more);
  CHECK(report.scanned == 14);
  CHECK(report.processed == leases_taken(db));
  CHECK(report.processed < 14);
  CHECK(lease_events(db).size() == static_cast<std::size_t>(report.processed));
  CHECK(report.quarantined == 0);
  CHECK(engine->tick().processed == 14 - report.processed);
}

TEST_CASE("a server that takes no writes any more fails the tick as not writable") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 4});
  const auto before = snapshot(db);
  EngineFixture engine(database, "attempt_timeout");
  engine.pool().acquire()->execute("SET default_transaction_read_only = on");
  const TickReport report = engine->tick();
  REQUIRE(report.failure);
  CHECK(report.failure->not_writable());
  CHECK(report.errors == decltype(report.errors){{"25", 1}});
  CHECK(report.scanned == 4);
  CHECK(report.processed == 0);
  CHECK(report.quarantined == 0);
  CHECK(diff(before, snapshot(db)).empty());
  engine.pool().discard_all();
  CHECK(engine->tick().processed == 4);
}

TEST_CASE("a batch that loses against another transaction is tried again at once") {
  const auto sqlstate = GENERATE("40P01", "40001");
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 5, .partitions = {{3}}});
  insert_trap(db, 60'000);
  // A sequence remembers across rollbacks.
  db.execute("CREATE SEQUENCE tries");
  set_trap(db, "IF nextval('tries') < 3 THEN RAISE EXCEPTION USING ERRCODE = '" + std::string(sqlstate) +
                   "'; END IF;");
  EngineFixture engine(database, "lease_expiry");
  const TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 6);
  CHECK(report.error_count() == 0);
  CHECK(lease_events(db).size() == 6);
}

TEST_CASE("when every row loses every time the tick fails and accuses no row") {
  const Database database;
  auto db = database.connect();
  for (int i = 0; i < 3; ++i) insert_trap(db, 60'000);
  set_trap(db, "RAISE EXCEPTION USING ERRCODE = '40P01';");
  EngineFixture engine(database, "lease_expiry");
  const TickReport report = engine->tick();
  REQUIRE(report.failure);
  CHECK(report.failure->retryable());
  CHECK(report.errors == decltype(report.errors){{"40", 1}});
  CHECK(report.quarantined == 0);
  CHECK(leases_left(db) == 3);
}

TEST_CASE("missing privileges fail the tick and accuse no row") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 5, .partitions = {{3}}});
  db.execute_script("CREATE ROLE reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
  {
    EngineFixture engine(database, "lease_expiry");
    engine.pool().acquire()->execute("SET ROLE reader");
    const TickReport report = engine->tick();
    REQUIRE(report.failure);
    CHECK(report.errors == decltype(report.errors){{"42", 1}});
    CHECK(report.quarantined == 0);
  }
  db.execute_script("DROP OWNED BY reader; DROP ROLE reader");
  CHECK(leases_left(db) == 5);
}

TEST_CASE("a tick without a server reports that as its failure") {
  const Database database;
  EngineFixture engine(database, "lease_expiry");
  const pg::Connector nowhere({.conninfo = "host=/nonexistent"});
  pg::Pool pool(nowhere, 1, Milliseconds{1000});
  reconcile::Engine lost(engine->reconciler(), engine->scope(), pool);
  const TickReport report = lost.tick();
  REQUIRE(report.failure);
  CHECK(report.failure->connection_lost());
  CHECK(report.errors == decltype(report.errors){{"connection", 1}});
  CHECK_THROWS_AS(lost.backlog(10), pg::Error);
}

TEST_CASE("the first batch for which there is room again is rolled back, and comes with a later tick") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 20, .partitions = {{3}}});
  EngineFixture engine(database, "lease_expiry", {.batch_size = 10});
  int asked = 0;
  const reconcile::TickOptions options{.found_room = [&] { return asked++ > 0; }};

  const TickReport report = engine->tick(options);
  CHECK_FALSE(report.failure);
  CHECK(report.more);
  CHECK(report.processed + leases_left(db) == 20);
  CHECK(leases_left(db) >= 10);
  const TickReport next = engine->tick(options);
  CHECK(report.processed + next.processed == 20);
  CHECK(leases_left(db) == 0);
}

TEST_CASE("what a trigger says of a full disk is of its row, and nobody is told of one") {
  const Database database;
  auto db = database.connect();
  insert_trap(db, 60'000);
  set_trap(db, "RAISE EXCEPTION 'no room' USING ERRCODE = '53100';");
  EngineFixture engine(database, "lease_expiry");
  int told = 0;
  const TickReport report = engine->tick({.met_full_disk = [&] { ++told; }});
  REQUIRE(report.failure);
  CHECK(report.failure->sqlstate() == "53100");
  CHECK(told == 0);
}
