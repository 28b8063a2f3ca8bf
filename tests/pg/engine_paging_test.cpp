// Rows that cannot or must not be moved hide nothing behind them.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

const char* either() {
  return GENERATE("attempt_timeout", "lease_expiry");
}

std::int64_t leases_left(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL");
}

/// Two hours pass when it is asked for the `at`th time.
class LeapingClock final : public Clock {
 public:
  explicit LeapingClock(int at) : at_(at) {}
  SteadyTime now() const override {
    const bool leapt = ++asked_ >= at_;
    return Clock::system().now() + std::chrono::hours{leapt ? 2 : 0};
  }
  UnixMillis wall() const override { return unix_millis(0); }

 private:
  const int at_;
  mutable int asked_ = 0;
};

}  // namespace

TEST_CASE("a tick moves everything that is due, page by page and partition by partition") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 95, .partitions = {{3}}});
  insert_many_lapsed(db, {.count = 20, .partitions = {{4}}});  // its last page is full
  insert_many_lapsed(db, {.count = 12, .partitions = partition_range({5}, {15})});
  insert_lapsed(db, {.partition = {0}});
  EngineFixture engine(database, either(), {.batch_size = GENERATE(1, 10, 1000)});
  const TickReport report = engine->tick();
  CHECK(report.scanned == 128);
  CHECK(report.processed == 128);
  CHECK_FALSE(report.more);
  CHECK(leases_left(db) == 0);
  CHECK(lease_events(db).size() == 128);
}

TEST_CASE("a scan that had to page says that it has not seen what comes next") {
  const Database database;
  auto db = database.connect();
  EngineFixture engine(database, either());
  insert_many_lapsed(db, {.count = 3, .partitions = {{3}}});
  CHECK_FALSE(engine->tick().paged);
  insert_many_lapsed(db, {.count = 4, .partitions = {{3}}});
  CHECK(engine->tick().paged);
}

TEST_CASE("rows that fell due at the same moment are all met, each once") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 33, .partitions = {{3}}});
  db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 1700000000000");
  EngineFixture engine(database, either(), {.batch_size = 10});
  const TickReport report = engine->tick();
  CHECK(report.scanned == 33);
  CHECK(report.processed == 33);
}

TEST_CASE("of rows that fell due at the same moment, those that are locked hide none of the others") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  insert_many_lapsed(db, {.count = 60, .partitions = {{3}}});
  // The moment is met in the middle of a page, and ends in the middle of one.
  db.execute(
      "UPDATE ff_attempt SET lease_expires_at_ms = 1700000000000 WHERE (partition_key, execution_id) IN"
      " (SELECT partition_key, execution_id FROM ff_attempt ORDER BY lease_expires_at_ms OFFSET 5 LIMIT 48)");
  db.execute(
      "UPDATE ff_attempt SET worker_id = 'held' WHERE (partition_key, execution_id) IN"
      " (SELECT partition_key, execution_id FROM ff_attempt WHERE lease_expires_at_ms = 1700000000000"
      " ORDER BY execution_id LIMIT 16)");
  EngineFixture engine(database, either(), {.batch_size = GENERATE(1, 7, 10, 1000)});
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_attempt WHERE worker_id = 'held' FOR UPDATE");
  const bool dry = GENERATE(false, true);
  const TickReport report = engine->tick({.dry_run = dry});
  CHECK(report.scanned == 60);
  CHECK(report.processed == 44);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 16}});
  CHECK(leases_left(db) == (dry ? 60 : 16));
}

TEST_CASE("what was read when the time was over is worth a batch still, so that a slow server gets on") {
  const Database database;
  auto db = database.connect();
  insert_many_lapsed(db, {.count = 30, .partitions = {{3}}});
  // It is asked at the start, for the rows that stand still, around the scan because of the deadline and around its one
  // statement, for the decision to read the page, and before and after reading it.
  const LeapingClock clock(9);
  EngineFixture engine(database, either(), {.batch_size = 10, .clock = &clock});
  const TickReport report = engine->tick({.deadline = Clock::system().now() + std::chrono::hours{1}});
  CHECK(report.scanned == 10);
  CHECK(report.processed == 10);
  CHECK(report.more);
}

TEST_CASE("more locked rows than fit a batch do not hide the free rows behind them") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  insert_many_lapsed(db,
                     {.count = 35, .partitions = {{3}}, .worker_id = "held", .first_lapsed_ago_ms = 90'000});
  insert_many_lapsed(db, {.count = 15, .partitions = {{3}}});
  EngineFixture engine(database, either(), {.batch_size = 10});
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_attempt WHERE worker_id = 'held' FOR UPDATE");
  const TickReport report = engine->tick();
  CHECK(report.scanned == 50);
  CHECK(report.processed == 15);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 35}});
  CHECK_FALSE(report.more);
  CHECK(number(db, "SELECT count(*) FROM ff_attempt WHERE worker_id = 'held' AND lease_epoch = 1") == 35);
  holding.rollback();
  CHECK(engine->tick().processed == 35);
}

TEST_CASE("three thousand foreign rows in front do not starve the one that the filter asks for") {
  const Database database;
  auto db = database.connect();
  const std::vector<Json> foreign{Json::object(),
                                  {{"namespace", nullptr}, {"tags", nullptr}},
                                  {{"namespace", "mine2"}, {"tags", {{"cairn.instance_id", "i-12"}}}},
                                  {{"namespace", {"mine"}}, {"tags", {{"other", "i-1"}}}},
                                  {{"tags", "i-1"}},
                                  {{"tags", {{"cairn.instance_id", nullptr}}}}};
  const auto filter =
      GENERATE(for_namespace("mine"), for_tag("i-1"), for_both("mine", {"cairn.instance_id", "i-1"}));
  for (const Json& raw_fields : foreign)
    insert_many_lapsed(db, {.count = 500, .partitions = {{3}}, .raw_fields = raw_fields});
  const Uuid mine = insert_lapsed(db, {.partition = {3}, .raw_fields = origin("mine", "i-1")});
  EngineFixture engine(database, either(), {.filter = filter});
  const TickReport report = engine->tick();
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
  CHECK(attempt(db, mine)["lease_expires_at_ms"].is_null());
  CHECK(leases_left(db) == 3000);
}

TEST_CASE("a filter for namespace and tag takes a row only where both fit") {
  const Database database;
  auto db = database.connect();
  const auto add = [&](const char* name_space, const Json& tag) {
    return insert_lapsed(
        db, {.partition = {3}, .raw_fields = {{"namespace", name_space}, {"tags", {{"app", tag}}}}});
  };
  const Uuid both = add("a", "1");
  add("a", "2");
  add("b", "1");
  add("a", 1);  // the number, not the text
  add("a", Json::array({"1"}));
  EngineFixture engine(database, either(), {.filter = for_both("a", {"app", "1"})});
  CHECK(engine->tick().processed == 1);
  CHECK(attempt(db, both)["lease_expires_at_ms"].is_null());
  CHECK(leases_left(db) == 4);
}

TEST_CASE("names in a filter are values and never part of the statement") {
  const Database database;
  auto db = database.connect();
  const std::string odd = R"(a'; DROP TABLE "ff_attempt" -- \ {} $1 %s é)";
  insert_lapsed(db, {.partition = {3}, .raw_fields = {{"namespace", odd}, {"tags", {{odd, odd}}}}});
  insert_lapsed(db, {.partition = {3}, .raw_fields = origin("a", "1")});
  EngineFixture engine(database, either(), {.filter = for_both(odd, {odd, odd})});
  CHECK(engine->tick().processed == 1);
  CHECK(leases_left(db) == 1);
}
