// Transactions stay short on a slow server.
#include <algorithm>
#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr int kBatch = 100;

/// How many rows each transaction moved, in the order of the transactions, of the events behind `after`.
std::vector<std::int64_t> rows_by_transaction(pg::Connection& db, std::int64_t after) {
  std::vector<std::int64_t> rows;
  const auto found = db.execute(
      "SELECT count(*) FROM ff_lease_event WHERE event_id > $1 GROUP BY xmin ORDER BY min(event_id)",
      pg::Params::of(after));
  for (const pg::Row row : found) rows.push_back(row.get<std::int64_t>(0));
  return rows;
}

}  // namespace

TEST_CASE("transactions shrink on a slow server and grow back, and no row is left behind") {
  const Database database;
  auto db = database.connect();
  db.execute_script(
      "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$"
      " BEGIN PERFORM pg_sleep(0.005); RETURN NEW; END $$;"
      " CREATE TRIGGER dawdle BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION dawdle()");
  EngineFixture engine(database, "attempt_timeout",
                       {.partitions = {{3}}, .batch_size = kBatch, .clock = &Clock::system()});

  insert_many_lapsed(db, {.count = 3 * kBatch, .partitions = {{3}}});
  CHECK(engine->tick().processed == 3 * kBatch);
  const auto slow = rows_by_transaction(db, 0);
  REQUIRE(slow.size() > 3);
  CHECK(slow.front() == kBatch);  // 500 ms
  CHECK(*std::max_element(slow.begin() + 1, slow.end()) <=
        kBatch / 4);  // as five times less would have fitted

  db.execute_script("DROP TRIGGER dawdle ON ff_attempt");
  const auto seen = number(db, "SELECT max(event_id) FROM ff_lease_event");
  insert_many_lapsed(db, {.count = 5 * kBatch, .partitions = {{3}}});
  CHECK(engine->tick().processed == 5 * kBatch);
  const auto quick = rows_by_transaction(db, seen);
  CHECK(quick.front() <= kBatch / 4);
  CHECK(*std::max_element(quick.begin(), quick.end()) >= 2 * quick.front());
}
