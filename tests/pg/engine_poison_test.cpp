// A row that cannot be moved stands alone: its neighbours commit, and it is left out for a growing while.

#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/log_capture.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

/// Runs `body` at every update of an attempt of the worker "poison", or only when that is committed.
void add_trigger(pg::Connection& db, const std::string& body, bool at_commit = false) {
  db.execute_script("CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body +
                    " RETURN NEW; END $$");
  const std::string when = at_commit
                               ? "CONSTRAINT TRIGGER poison AFTER UPDATE ON ff_attempt INITIALLY DEFERRED"
                               : "TRIGGER poison BEFORE UPDATE ON ff_attempt";
  db.execute_script("CREATE " + when +
                    " FOR EACH ROW WHEN (OLD.worker_id = 'poison') EXECUTE FUNCTION poison()");
}

/// The same, and how often it has run is counted: see times_met().
void add_counted_trigger(pg::Connection& db, const std::string& body, bool at_commit = false) {
  db.execute_script("CREATE SEQUENCE met");
  add_trigger(db, "PERFORM nextval('met'); " + body, at_commit);
}

std::int64_t times_met(pg::Connection& db) {
  return number(db, "SELECT last_value * is_called::integer FROM met");
}

Uuid insert_poison(pg::Connection& db, std::int64_t lapsed_ago_ms, PartitionKey partition = {3}) {
  return insert_lapsed(db, {.partition = partition},
                       {.worker_id = "poison", .lease_expires_at_ms = now_ms(db) - lapsed_ago_ms});
}

std::int64_t leases_left(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL");
}

}  // namespace

TEST_CASE("one poison row among a thousand is found, and all the others are moved") {
  const auto name = GENERATE("attempt_timeout", "lease_expiry");
  const bool at_commit = GENERATE(false, true);
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION 'spoiled';", at_commit);
  insert_many_lapsed(db, {.count = 999, .partitions = {{3}}});
  const Uuid id = insert_poison(db, 59'500);
  const Json attempt_before = attempt(db, id);
  const Json core_before = core(db, id);
  EngineFixture engine(database, name);
  const LogCapture log;
  const TickReport report = engine->tick();
  CHECK(report.scanned == 1000);
  CHECK(report.processed == 999);
  CHECK(report.errors == decltype(report.errors){{"P0", 1}});
  CHECK(report.quarantined == 1);
  CHECK_FALSE(report.failure);
  CHECK(leases_left(db) == 1);
  CHECK(lease_events(db).size() == 999);
  CHECK(attempt(db, id) == attempt_before);
  CHECK(core(db, id) == core_before);

  REQUIRE(log.lines().size() == 1);
  const std::string line = log.lines()[0];
  CHECK(line.find(name) != line.npos);
  CHECK(line.find("partition_key=3 execution_id=" + to_string(id) + " attempt_index=0") != line.npos);
  CHECK(line.find("P0001") != line.npos);
  CHECK(line.find("spoiled") != line.npos);
}

TEST_CASE("a half that must hold the poison row is not tried as a whole") {
  const Database database;
  auto db = database.connect();
  add_counted_trigger(db, "RAISE EXCEPTION 'spoiled';");
  insert_many_lapsed(db, {.count = 63, .partitions = {{3}}});
  insert_poison(db, 10);  // the last of all, and so always in the second half
  EngineFixture engine(database, "attempt_timeout");
  const LogCapture log;
  CHECK(engine->tick().processed == 63);
  CHECK(times_met(db) == 2);  // with all the others, and alone
}

TEST_CASE("a row that has failed before is tried alone") {
  const Database database;
  auto db = database.connect();
  add_counted_trigger(db, "RAISE EXCEPTION 'spoiled';");
  insert_poison(db, 90'000);
  EngineFixture engine(database, "attempt_timeout");
  const LogCapture log;
  REQUIRE(engine->tick().quarantined == 1);
  insert_many_lapsed(db, {.count = 63, .partitions = {{3}}});
  engine.clock().advance(Milliseconds{5000});
  const TickReport report = engine->tick();
  CHECK(report.processed == 63);
  CHECK(report.errors == decltype(report.errors){{"P0", 1}});
  CHECK(times_met(db) == 2);
}

TEST_CASE("a row that takes too long is not given all that time in each half of its batch") {
  const Database database;
  auto db = database.connect();
  db.execute_script("CREATE SEQUENCE given; CREATE SEQUENCE times");
  add_trigger(db,
              "PERFORM setval('given', 1000 * extract(epoch FROM "
              "current_setting('statement_timeout')::interval)::bigint);"
              "PERFORM nextval('times'); PERFORM pg_sleep(600);");
  insert_many_lapsed(db, {.count = 4, .partitions = {{3}}});
  insert_poison(db, 90'000);
  EngineFixture engine(database, "attempt_timeout", {.statement_timeout = Milliseconds{3000}});
  const LogCapture log;
  const TickReport report = engine->tick();
  CHECK(report.processed == 4);
  CHECK(report.errors == decltype(report.errors){{"timeout", 1}});
  CHECK(number(db, "SELECT last_value FROM times") == 3);  // all, half of those but the last, alone
  CHECK(number(db, "SELECT last_value FROM given") == 2000);
  engine.clock().advance(Milliseconds{5000});
  CHECK(engine->tick().error_count() == 1);
  CHECK(number(db, "SELECT last_value FROM given") == 3000);
}

TEST_CASE("a stop ends the search for the rows at fault, and each answer on the way shows that it gets on") {
  const Database database;
  auto db = database.connect();
  add_counted_trigger(db, "RAISE EXCEPTION 'spoiled';");
  insert_many_lapsed(db, {.count = 30, .partitions = {{3}}});
  for (int i = 0; i < 30; ++i) insert_poison(db, 90'000 + i);
  EngineFixture engine(database, "attempt_timeout");
  std::stop_source stop;
  reconcile::Progress progress;
  TickReport report = engine->tick({.stop = stop.get_token(),
                                    .may_write =
                                        [&] {
                                          if (times_met(db) == 1) stop.request_stop();
                                          return true;
                                        },
                                    .progress = &progress});
  CHECK(report.more);
  CHECK(report.processed == 1);
  CHECK(report.quarantined == 0);
  CHECK(times_met(db) == 1);
  CHECK(progress.answered.load() == engine.clock().now());
  report = engine->tick();
  CHECK(report.quarantined == 30);
}

TEST_CASE("several poison rows over several partitions are each found") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "PERFORM 1 / 0;");
  insert_many_lapsed(db, {.count = 40});
  insert_lapsed(db, {.partition = {0}});
  for (const PartitionKey partition : Partitions{{0}, {3}, {3}, {9}}) insert_poison(db, 59'990, partition);
  EngineFixture engine(database, "lease_expiry");
  const TickReport report = engine->tick();
  CHECK(report.processed == 41);
  CHECK(report.errors == decltype(report.errors){{"22", 4}});
  CHECK(report.quarantined == 4);
}

TEST_CASE("a row that fails as the whole system might is set aside all the same, because the others do not") {
  const auto state = GENERATE(as<std::string>(), "08006", "0A000", "25006", "26000", "40001", "40P01",
                              "42501", "42703", "42883", "53400", "55000", "55P03", "57P01");
  CAPTURE(state);
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION USING ERRCODE = '" + state + "';");
  insert_many_lapsed(db, {.count = 40});
  for (int i = 0; i < 3; ++i) insert_poison(db, 90'000 + i);  // the oldest of all
  EngineFixture engine(database, "attempt_timeout");
  const LogCapture log;
  const TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 40);
  CHECK(report.error_count() == 3);
  CHECK(report.quarantined == 3);
  CHECK(log.lines().size() == 3);
}

TEST_CASE("the first rows of a batch are found however many they are, because its last does not fail") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION USING ERRCODE = '42501';");
  insert_many_lapsed(db, {.count = 40, .partitions = {{3}}});
  for (int i = 0; i < 128; ++i) insert_poison(db, 90'000 + i);
  EngineFixture engine(database, "attempt_timeout");
  const TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 40);
  CHECK(report.quarantined == 128);
}

TEST_CASE("a poison row is found also by a role whose sessions would end at an error") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION 'spoiled';");
  insert_many_lapsed(db, {.count = 40});
  insert_poison(db, 59'990);
  db.execute_script("ALTER DATABASE " + database.name() + " SET exit_on_error = on");
  EngineFixture engine(database, "attempt_timeout");
  const TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.processed == 40);
  CHECK(report.quarantined == 1);
}

TEST_CASE("when all rows fail alike it is no row's fault") {
  const Database database;
  auto db = database.connect();
  // A privilege that is missing, or, as a full queue of notifications is met, a limit at the end of the transaction.
  const auto [state, at_commit] = GENERATE(table<std::string, bool>({{"42501", false}, {"54000", true}}));
  add_counted_trigger(db, "RAISE EXCEPTION USING ERRCODE = '" + state + "';", at_commit);
  for (int i = 0; i < 300; ++i) insert_poison(db, 90'000 + i);
  EngineFixture engine(database, "attempt_timeout");
  const TickReport report = engine->tick();
  REQUIRE(report.failure);
  CHECK(report.failure->sqlstate() == state);
  CHECK(report.processed == 0);
  CHECK(report.quarantined == 0);
  CHECK(times_met(db) < 300);  // it gave up before it had tried each
}

TEST_CASE("a poison row is left out for 5 s, then twice as long each time, up to 10 min, and logged once") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION USING ERRCODE = '23514';");
  const Uuid id = insert_poison(db, 90'000);
  EngineFixture engine(database, "lease_expiry");
  const LogCapture log;
  CHECK(engine->tick().errors == decltype(TickReport::errors){{"23", 1}});
  for (const std::int64_t pause : {5, 10, 20, 40, 80, 160, 320, 600, 600, 600}) {
    CAPTURE(pause);
    engine.clock().advance(Milliseconds{pause * 1000 - 1});
    const TickReport early = engine->tick();
    CHECK(early.scanned == 1);
    CHECK(early.error_count() == 0);
    CHECK(early.skipped == std::map<Skip, std::int64_t>{{Skip::quarantined, 1}});
    engine.clock().advance(Milliseconds{1});
    CHECK(engine->tick().error_count() == 1);
  }
  CHECK(log.lines().size() == 1);

  // Once whatever was wrong with it is mended, it is moved and forgotten.
  db.execute("DROP TRIGGER poison ON ff_attempt");
  engine.clock().advance(Milliseconds{600'000});
  const TickReport mended = engine->tick();
  CHECK(mended.processed == 1);
  CHECK(mended.quarantined == 0);
  CHECK(attempt(db, id)["lease_epoch"] == 2);
}

TEST_CASE("rows in quarantine hide nothing behind them") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION 'spoiled';");
  for (int i = 0; i < 25; ++i) insert_poison(db, 90'000 + i);
  EngineFixture engine(database, "attempt_timeout", {.batch_size = 10});
  CHECK(engine->tick().errors.at("P0") == 25);
  insert_many_lapsed(db, {.count = 7, .partitions = {{3}}});
  const TickReport report = engine->tick();
  CHECK(report.processed == 7);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::quarantined, 25}});
  CHECK(report.error_count() == 0);
  CHECK(report.quarantined == 25);
}

TEST_CASE("a row in quarantine is tried at once by hand, and forgotten when it is moved") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION 'spoiled';");
  const Uuid id = insert_poison(db, 90'000);
  EngineFixture engine(database, "attempt_timeout");
  CHECK(engine->tick().error_count() == 1);
  CHECK(engine->tick_one({{3}, id}).error_count() == 1);
  db.execute("DROP TRIGGER poison ON ff_attempt");
  const TickReport by_hand = engine->tick_one({{3}, id});
  CHECK(by_hand.processed == 1);
  CHECK(by_hand.quarantined == 0);
}

TEST_CASE(
    "a row in quarantine that somebody else moves is forgotten by the next scan that shows all that is due") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION 'spoiled';");
  for (int i = 0; i < 25; ++i) insert_poison(db, 90'000 + i);
  const Uuid alone = insert_poison(db, 90'000, {7});
  EngineFixture engine(database, "attempt_timeout", {.batch_size = 10});
  CHECK(engine->tick().quarantined == 26);
  db.execute(
      "DELETE FROM ff_attempt WHERE execution_id IN "
      "(SELECT execution_id FROM ff_attempt WHERE partition_key = 3 LIMIT 20)");
  SECTION("not by a tick that has no time for it, nor by one that does not scan") {
    CHECK(engine->tick({.deadline = engine.clock().now()}).quarantined == 26);
    CHECK(engine->tick({.scan = false}).quarantined == 26);
  }
  CHECK(engine->tick().quarantined == 6);
  db.execute("DELETE FROM ff_attempt WHERE execution_id = $1", pg::Params::of(alone));
  CHECK(engine->tick().quarantined == 5);
}

TEST_CASE("another engine tries a poison row of its own accord") {
  const Database database;
  auto db = database.connect();
  add_trigger(db, "RAISE EXCEPTION 'spoiled';");
  insert_poison(db, 90'000);
  EngineFixture first(database, "attempt_timeout");
  EngineFixture second(database, "attempt_timeout");
  CHECK(first->tick().error_count() == 1);
  CHECK(second->tick().error_count() == 1);
}
