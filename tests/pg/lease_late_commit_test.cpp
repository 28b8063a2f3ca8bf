// Whom an event waits for, and whom not.
#include <catch2/catch.hpp>
#include <future>

#include "metrics/metrics.hpp"
#include "migrate/migrate.hpp"
#include "pg/lease_stepped.hpp"
#include "support/log_capture.hpp"
#include "support/manual_clock.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

TEST_CASE("an INSERT that has drawn its id and not written yet is waited for") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  const auto first = outbox.add({});  // writes to the log that 32 more ids may be drawn
  Stepped ours(outbox.database, deaf, Clock::system(), first);
  outbox.db.execute_script(
      "CREATE FUNCTION wait_for_gate() RETURNS trigger LANGUAGE plpgsql AS"
      " 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END';"
      "CREATE TRIGGER gate BEFORE INSERT ON ff_lease_event FOR EACH ROW"
      " WHEN (new.lease_id = 'late') EXECUTE FUNCTION wait_for_gate()");
  pg::Connection gate = outbox.database.connect();
  gate.execute("SELECT pg_advisory_lock(1)");
  auto late = std::async(std::launch::async, [&] {
    pg::Connection session = outbox.database.connect();
    return Outbox::add(session, {.lease_id = "late"});
  });
  REQUIRE(wait_until([&] {
    return !outbox.db.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").empty();
  }));
  const auto high = outbox.add({});
  ours.pass();
  CHECK(ours.delivered.empty());
  gate.execute("SELECT pg_advisory_unlock(1)");
  const auto low = late.get();
  CHECK(low < high);
  ours.pass();
  CHECK(ours.delivered == std::vector{low, high});
}

TEST_CASE("strangers hold nothing up, whatever they write and read") {
  Outbox outbox;
  Outbox elsewhere;
  const auto oid = [](Outbox& of) {
    return of.db.execute("SELECT 'ff_lease_event'::regclass::oid::bigint").one().get<std::int64_t>(0);
  };
  REQUIRE(oid(outbox) == oid(elsewhere));
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  pg::Connection writing = outbox.database.connect();
  writing.execute_script("BEGIN; CREATE TABLE theirs (); SELECT pg_current_xact_id()");
  pg::Connection reading = outbox.database.connect();
  reading.execute_script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM ff_lease_event FOR SHARE");
  elsewhere.db.execute_script("BEGIN");
  elsewhere.add({});
  const auto id = outbox.add({});
  ours.pass();
  CHECK(ours.delivered == std::vector{id});
}

TEST_CASE("an event waits for an open transaction that drew a lower id, and for no longer") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN");
  const auto low = Outbox::add(late, {});
  const auto high = outbox.add({});
  for (int i = 0; i < 3; ++i) ours.pass();
  CHECK(ours.delivered.empty());
  late.execute_script("COMMIT");
  ours.pass();
  CHECK(ours.delivered == std::vector{low, high});
}

TEST_CASE("an event seen before a transaction began does not wait for it") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  pg::Connection first = outbox.database.connect();
  pg::Connection second = outbox.database.connect();
  first.execute_script("BEGIN");
  const auto lowest = Outbox::add(first, {});
  const auto early = outbox.add({});
  ours.pass();
  CHECK(ours.delivered.empty());
  second.execute_script("BEGIN");
  Outbox::add(second, {});
  outbox.add({});
  ours.pass();
  first.execute_script("COMMIT");
  ours.pass();
  CHECK(ours.delivered == std::vector{lowest, early});
  second.execute_script("ROLLBACK");
  ours.pass();
  CHECK(ours.delivered == outbox.ids());
}

TEST_CASE("an id that was rolled back holds nothing up, with its transaction or within one") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN");
  Outbox::add(late, {});
  late.execute_script("ROLLBACK; BEGIN; SAVEPOINT before");
  Outbox::add(late, {});
  late.execute_script("ROLLBACK TO before");
  const auto id = outbox.add({});
  ours.pass();
  CHECK(ours.delivered == std::vector{id});
}

TEST_CASE("a resumed subscription does not run ahead of a transaction that was open before it") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  const auto first = outbox.add({});
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN");
  const auto low = Outbox::add(late, {});
  const auto high = outbox.add({});
  Stepped ours(outbox.database, deaf, Clock::system(), first);
  ours.pass();
  late.execute_script("COMMIT");
  ours.pass();
  CHECK(ours.delivered == std::vector{low, high});
}

TEST_CASE("the transaction in the way is named in the log, and the hold is a metric") {
  Outbox outbox;
  metrics::Metrics metrics({});
  ManualClock clock;
  Stepped ours(outbox.database, metrics, clock);
  pg::Connection late = outbox.database.connect();
  late.execute_script("SET application_name = 'slow importer'; BEGIN");
  Outbox::add(late, {});
  const auto pid = late.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  outbox.add({});

  const LogCapture log;
  ours.pass();
  clock.advance(10s);
  ours.pass();
  CHECK(log.lines().empty());
  clock.advance(1s);
  ours.pass();
  ours.pass();

  REQUIRE(log.lines().size() == 1);
  const std::string said = log.lines().front();
  CAPTURE(said);
  CHECK_THAT(said, Catch::Contains("have been held back for 11.0 s"));
  CHECK_THAT(said,
             Catch::Contains("of pid " + std::to_string(pid) + " (application_name slow importer, database " +
                             outbox.database.name() + ", idle in transaction, "));
  CHECK_THAT(said, Catch::Contains(" s old) may still add one"));
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_held_back_seconds 11\n"));
  late.execute_script("COMMIT");
  ours.pass();
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_held_back_seconds 0\n"));
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_delivered_total 2\n"));
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_reconnects_total 0\n"));
}

TEST_CASE("an event of a transaction that gets prepared is waited for, before and after") {
  testserver::PrivateServer server({.settings = {{"max_prepared_transactions", "1"}}});
  const pg::Connector connector({.conninfo = server.conninfo()});
  pg::Connection db = connector.connect(in(10s));
  migrate::up(db, Database::kFanOut);
  lease::HistoryObserver deaf;
  ManualClock clock;
  Stepped ours(connector.connect(in(10s)), deaf, clock);
  pg::Connection late = connector.connect(in(10s));
  // PostgreSQL prepares no transaction that has notified: the trigger has to be silent.
  late.execute_script("SET session_replication_role = replica; BEGIN");
  const auto low = Outbox::add(late, {});
  const auto high = Outbox::add(db, {});
  ours.pass();
  late.execute_script("PREPARE TRANSACTION 'half done'");
  const LogCapture log;
  clock.advance(11s);
  ours.pass();
  ours.pass();
  CHECK(ours.delivered.empty());
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines().front(), Catch::Contains(" (prepared as half done in database postgres, "));
  db.execute_script("COMMIT PREPARED 'half done'");
  ours.pass();
  CHECK(ours.delivered == std::vector{low, high});
}

TEST_CASE("a transaction that stays open for a while delays its neighbours and loses none") {
  Outbox outbox;
  lease::History history(outbox.database.connector());
  auto subscription = history.subscribe({.after = after(0)});
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN");
  const auto low = Outbox::add(late, {});
  const auto high = outbox.add({});
  CHECK(take(subscription, 1, 1s).empty());
  late.execute_script("COMMIT");
  CHECK(take(subscription, 2) == std::vector{low, high});
}
