// Batches of the same few partitions share one plan, which is given back behind them.
#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// Notes, at each update of an attempt, how many statements name a partition in their text, and how often they have
/// been run with one plan.
void watch_plans(pg::Connection& db) {
  db.execute_script(R"sql(
    CREATE TABLE watched (statements bigint, runs bigint);
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO watched SELECT count(*), coalesce(max(generic_plans), 0) FROM pg_prepared_statements
       WHERE statement LIKE '%partition\_key = %::smallint%';
      RETURN NULL;
    END $$;
    CREATE TRIGGER watch AFTER UPDATE ON ff_attempt FOR EACH STATEMENT EXECUTE FUNCTION watch())sql");
}

std::int64_t kept_by(pg::Pool& pool) {
  auto connection = pool.acquire();
  return number(*connection,
                "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%::smallint%'");
}

}  // namespace

TEST_CASE("several batches of some partitions are planned once") {
  const Database database;
  auto db = database.connect();
  watch_plans(db);
  insert_many_lapsed(db, {.count = 100, .partitions = {{3}, {4}}});
  EngineFixture engine(database, "attempt_timeout", {.partitions = {{3}, {4}}, .batch_size = 10});
  CHECK(engine->tick().processed == 100);
  CHECK(number(db, "SELECT max(runs) FROM watched") >= 8);
  CHECK(number(db, "SELECT max(statements) FROM watched") <= 4);  // page, act, what forbids it, still_due
  CHECK(kept_by(engine.pool()) == 0);
}

TEST_CASE("a single batch needs no plan that is kept") {
  const Database database;
  auto db = database.connect();
  watch_plans(db);
  insert_many_lapsed(db, {.count = 100, .partitions = {{3}, {4}}});
  EngineFixture engine(database, "attempt_timeout", {.partitions = {{3}, {4}}});
  CHECK(engine->tick().processed == 100);
  CHECK(number(db, "SELECT max(statements) FROM watched") == 0);
}

TEST_CASE("a batch that is halved is planned once") {
  const Database database;
  auto db = database.connect();
  watch_plans(db);
  insert_many_lapsed(db, {.count = 64, .partitions = {{3}}});
  db.execute_script(
      "CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'spoiled'; END $$;"
      "UPDATE ff_attempt SET worker_id = 'poison' WHERE ctid = (SELECT min(ctid) FROM ff_attempt);"
      "CREATE TRIGGER stumble BEFORE UPDATE ON ff_attempt FOR EACH ROW WHEN (OLD.worker_id = 'poison')"
      " EXECUTE FUNCTION stumble(); DELETE FROM watched");
  EngineFixture engine(database, "attempt_timeout");
  CHECK(engine->tick().processed == 63);
  CHECK(number(db, "SELECT max(runs) FROM watched") >= 5);
  CHECK(number(db, "SELECT max(statements) FROM watched") == 2);  // act, what forbids it
  CHECK(kept_by(engine.pool()) == 0);
}
