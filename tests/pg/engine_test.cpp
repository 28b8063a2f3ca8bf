// What one tick does and reports, whichever reconciler it runs.
#include <catch2/catch.hpp>

#include <limits>
#include <numeric>
#include <stop_token>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickOptions;
using reconcile::TickReport;

namespace {

const char* either() {
  return GENERATE("attempt_timeout", "lease_expiry");
}

/// The moves of a report, one line each, in an order of their own.
std::vector<std::string> lines(const TickReport& report) {
  std::vector<std::string> all;
  for (const auto& move : report.moves) {
    std::string line = std::to_string(move.key.partition.value);
    for (const auto& column : move.key.columns) line += " " + column;
    all.push_back(line + " " + move.outcome + " " + std::to_string(count(move.due_at)));
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("a second tick finds nothing left to do and changes nothing") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 200, .policy = max_retries(1)});
  insert_many_lapsed(db, {.count = 50, .partitions = {{5}}});
  EngineFixture engine(database, either());
  CHECK(engine->tick().processed == 250);
  const auto after_first = snapshot(db);
  const TickReport second = engine->tick();
  CHECK(second.scanned == 0);
  CHECK(second.processed == 0);
  CHECK_FALSE(second.oldest_due);
  CHECK(diff(after_first, snapshot(db)).empty());
}

TEST_CASE("a tick takes only rows of its own partitions") {
  const Database database;
  auto db = database.connect();
  insert_lapsed(db, {.partition = {16}});
  insert_many_lapsed(db, {.count = 5, .partitions = {{200}}});
  const auto before = snapshot(db);
  const char* name = either();
  EngineFixture engine(database, name);
  CHECK(engine->tick().scanned == 0);
  CHECK(diff(before, snapshot(db)).empty());
  EngineFixture wide(database, name, {.partitions = partition_range({0}, {255})});
  CHECK(wide->tick().processed == 6);
}

TEST_CASE("a dry run lists what the next run then does and writes nothing") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 30, .policy = max_retries(1)});
  insert_many_lapsed(db, {.count = 40, .partitions = {{5}}});  // a partition that is paged through
  insert_lapsed(db, {.partition = {7}}, {.lease_expires_at_ms = now_ms(db) + 60'000});
  const auto before = snapshot(db);
  EngineFixture engine(database, either(), {.batch_size = 10});

  const TickReport dry = engine->tick({.dry_run = true, .list_moves = true});
  CHECK(dry.processed == 70);
  CHECK_FALSE(dry.more);
  CHECK(diff(before, snapshot(db)).empty());

  const TickReport real = engine->tick({.list_moves = true});
  CHECK(lines(dry).size() == 70);
  CHECK(lines(dry) == lines(real));
  CHECK(dry.outcomes == real.outcomes);
  CHECK(dry.scanned == real.scanned);
}

TEST_CASE("moves are listed only where they are asked for") {
  const Database database;
  auto db = database.connect();
  insert_lapsed(db, {.partition = {3}});
  EngineFixture engine(database, either());
  CHECK(engine->tick().moves.empty());
}

TEST_CASE("a report tells the oldest due time and how late each row was") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = now - 5'000});
  insert_lapsed(db, {.partition = {2}}, {.lease_expires_at_ms = now - 90'000});
  insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = now - 10'000});
  EngineFixture engine(database, either());
  const TickReport report = engine->tick();
  CHECK(report.oldest_due == unix_millis(now - 90'000));
  CHECK(report.oldest_due_in == std::map<PartitionKey, UnixMillis>{{{1}, unix_millis(now - 5'000)},
                                                                   {{2}, unix_millis(now - 90'000)},
                                                                   {{3}, unix_millis(now - 10'000)}});
  CHECK(engine->tick().oldest_due_in.empty());
  REQUIRE(report.lateness.rows() == 3);
  const auto least = report.lateness.rows_by_lateness().begin()->first.count();
  CHECK(least >= 4'900);  // kept to a sixty-fourth
  CHECK(least < 9'900);
  CHECK(report.lateness.worst().count() >= 88'500);
  CHECK(report.lateness.worst().count() < 95'000);
  CHECK(report.lateness.sum().count() >= 105'000);
  CHECK(count(report.database_time) >= now);
}

TEST_CASE("a report tells when the next row may be taken, beside due ones and alone") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = now + 90'000});
  insert_lapsed(db, {.partition = {2}}, {.lease_expires_at_ms = now - 1'000});
  insert_lapsed(db, {.partition = {2}}, {.lease_expires_at_ms = now + 60'000});
  EngineFixture engine(database, either());
  const TickOptions ahead{.scan_ahead = std::chrono::minutes{5}};
  CHECK(engine->tick(ahead).next_due == unix_millis(now + 60'001));
  CHECK(engine->tick(ahead).next_due == unix_millis(now + 60'001));
  // Farther than it was asked to look it sees nothing.
  CHECK_FALSE(engine->tick({.scan_ahead = std::chrono::seconds{30}}).next_due);
  CHECK_FALSE(engine->tick().next_due);
  CHECK(engine->backlog(10).next_due);
  db.execute("DELETE FROM ff_attempt");
  CHECK_FALSE(engine->tick(ahead).next_due);
}

TEST_CASE("a backlog tells until when nothing falls due, unless a partition has so much that it hides that") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  EngineFixture engine(database, either());
  const auto nothing = engine->backlog(10);
  CHECK_FALSE(nothing.next_due);
  CHECK(nothing.known_until == nothing.database_time + std::chrono::hours{24});
  for (int i = 0; i < 3; ++i) insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = now - 1'000});
  CHECK(engine->backlog(10).known_until);
  insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = now - 1'000});
  CHECK_FALSE(engine->backlog(10).known_until);
}

TEST_CASE(
    "the progress of a tick rises with what it has found and moved, and stands still for what others hold") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  for (int i = 0; i < 7; ++i) insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = now - 1'000});
  insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = now + 60'000});
  EngineFixture engine(database, either());
  reconcile::Progress progress;
  std::vector<std::int64_t> seen;
  const TickReport report = engine->tick({.may_write =
                                              [&] {
                                                seen.push_back(progress.processed);
                                                return true;
                                              },
                                          .progress = &progress});
  CHECK(report.processed == 7);
  CHECK(progress.scanned == 7);
  CHECK(progress.processed == 7);
  REQUIRE_FALSE(seen.empty());
  CHECK(seen.front() == 0);
}

TEST_CASE("a tick that comes to none of its backlog tells the oldest due time all the same") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  for (int i = 0; i < 9; ++i) insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = now - 9'000 + i});
  EngineFixture engine(database, either());
  const TickReport report = engine->tick({.may_write = [] { return false; }});
  CHECK(report.more);
  CHECK(report.processed == 0);
  CHECK(report.oldest_due == unix_millis(now - 9'000));
}

TEST_CASE("an act by a clock that was set meanwhile is rolled back") {
  const Database database;
  auto db = database.connect();
  insert_lapsed(db);
  EngineFixture engine(database, either());
  std::vector<UnixMillis> told;
  const std::size_t believed = GENERATE(0, 1, 2);
  const TickReport report = engine->tick({.may_write = [&] { return told.size() <= believed; },
                                          .told_time =
                                              [&](const reconcile::TimeReading& reading) {
                                                CHECK(reading.sent <= reading.answered);
                                                told.push_back(reading.said);
                                              }});
  CHECK(told.size() == (believed == 0 ? 1 : 2));
  CHECK(std::ranges::is_sorted(told));
  CHECK(report.processed == (believed == 2 ? 1 : 0));
  CHECK(report.more == (believed < 2));
  CHECK(lease_events(db).size() == (believed == 2 ? 1U : 0U));
}

TEST_CASE("a lease that never ends, or ended before all time, is an ordinary row") {
  const Database database;
  auto db = database.connect();
  insert_lapsed(db, {.partition = {1}}, {.lease_expires_at_ms = std::numeric_limits<std::int64_t>::max()});
  insert_lapsed(db, {.partition = {2}}, {.lease_expires_at_ms = -1});
  insert_lapsed(db, {.partition = {2}}, {.lease_expires_at_ms = 0});
  EngineFixture engine(database, either());
  const TickReport report = engine->tick({.scan_ahead = std::chrono::hours{24}});
  CHECK(report.processed == 2);
  CHECK(report.error_count() == 0);
  CHECK_FALSE(report.next_due);  // one in the past would mean one run after the other, without a pause
}

TEST_CASE("a tick that has no time left looks at nothing more and says so") {
  const Database database;
  auto db = database.connect();
  const bool many = GENERATE(true, false);
  insert_many_lapsed(db, {.count = 10, .partitions = many ? Partitions{{3}} : sixteen_partitions()});
  const auto before = snapshot(db);
  EngineFixture engine(database, either());
  std::stop_source stop;
  TickOptions options;
  if (GENERATE(true, false)) {
    options.deadline = engine.clock().now() - Milliseconds{1};
  } else {
    stop.request_stop();
    options.stop = stop.get_token();
  }
  const TickReport report = engine->tick(options);
  CHECK(report.more);
  CHECK(report.processed == 0);
  CHECK_FALSE(report.failure);
  CHECK(diff(before, snapshot(db)).empty());

  const TickReport next = engine->tick();
  CHECK_FALSE(next.more);
  CHECK(next.processed == 10);
}

TEST_CASE("a tick whose time runs out on the way keeps what it has done and asks to go on") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 30, .partitions = {{3}}});
  std::stop_source stop;
  const WatchingClock clock([&] {
    if (number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NULL") > 0)
      stop.request_stop();
  });
  EngineFixture engine(database, either(), {.batch_size = 10, .clock = &clock});
  const TickReport report = engine->tick({.stop = stop.get_token()});
  CHECK(report.more);
  CHECK(report.processed > 0);
  CHECK(report.processed < 30);
  CHECK(number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NULL") == report.processed);
}

TEST_CASE("tick_one takes the one execution that it is given, though others are due as well") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  insert_many_lapsed(db, {.count = 5, .partitions = {{3}}});
  EngineFixture engine(database, either());
  const TickReport report = engine->tick_one({{3}, id}, {.list_moves = true});
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  REQUIRE(report.moves.size() == 1);
  CHECK(report.moves[0].key == attempt_key({3}, id));
  CHECK(report.oldest_due == report.moves[0].due_at);
  CHECK(number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NULL") == 1);
}

TEST_CASE("tick_one on a dry run says what it would do and writes nothing") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  const auto before = snapshot(db);
  EngineFixture engine(database, either());
  CHECK(engine->tick_one({{3}, id}, {.dry_run = true}).processed == 1);
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("tick_one reports a row that is not due as no longer due") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = now_ms(db) + 60'000});
  const auto before = snapshot(db);
  EngineFixture engine(database, either());
  const TickReport report = engine->tick_one({{3}, id});
  CHECK(report.scanned == 0);
  CHECK(report.processed == 0);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("tick_one finds nothing of an execution that is unknown, elsewhere, or without a lease") {
  const Database database;
  auto db = database.connect();
  const Uuid elsewhere = insert_lapsed(db, {.partition = {4}});
  const Uuid without_lease = insert_core(db, {.partition = {3}});
  insert_attempt(db, {.partition = {3}, .execution = without_lease});
  const auto before = snapshot(db);
  EngineFixture engine(database, either());
  for (const Uuid& id : {new_uuid(), elsewhere, without_lease}) {
    const TickReport report = engine->tick_one({{3}, id});
    CHECK(report.scanned == 0);
    CHECK(report.processed == 0);
    CHECK(report.skipped.empty());
    CHECK_FALSE(report.failure);
  }
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("tick_one takes every lapsed attempt of its execution") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .attempt_index = 1});
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 2000});
  EngineFixture engine(database, either());
  CHECK(engine->tick_one({{3}, id}).processed == 2);
}

TEST_CASE("tick_one heeds the filter") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .raw_fields = origin("a", "1")});
  const char* name = either();
  EngineFixture other(database, name, {.filter = for_namespace("b")});
  CHECK(other->tick_one({{3}, id}).processed == 0);
  EngineFixture same(database, name, {.filter = for_namespace("a")});
  CHECK(same->tick_one({{3}, id}).processed == 1);
}

TEST_CASE("the backlog counts what is due, up to a cap, and changes nothing") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  EngineFixture engine(database, either());
  CHECK(engine->backlog(100).due == 0);
  CHECK_FALSE(engine->backlog(100).oldest_due);

  insert_many_lapsed(db, {.count = 40});
  insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = now - 900'000});
  insert_lapsed(db, {.partition = {200}});
  insert_lapsed(db, {.partition = {4}}, {.lease_expires_at_ms = now + 60'000});
  const auto before = snapshot(db);
  const auto backlog = engine->backlog(100);
  CHECK(backlog.due == 41);
  CHECK_FALSE(backlog.capped);
  CHECK(backlog.oldest_due == unix_millis(now - 900'000));
  CHECK(count(backlog.database_time) >= now);
  CHECK(engine->backlog(10).due == 10);
  CHECK(engine->backlog(10).capped);
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("a new scope holds for the ticks to come") {
  const Database database;
  auto db = database.connect();
  insert_lapsed(db, {.partition = {3}});
  insert_lapsed(db, {.partition = {4}});
  EngineFixture engine(database, either(), {.partitions = {{3}}});
  CHECK(engine->tick().processed == 1);
  reconcile::Scope scope = engine->scope();
  scope.partitions = {{4}};
  engine->set_scope(scope);
  CHECK(engine->tick().processed == 1);
}
