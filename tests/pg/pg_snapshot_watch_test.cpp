// Whether anything was written to the server since some moment.
#include <catch2/catch.hpp>

#include "pg/snapshot_watch.hpp"
#include "pg/transaction.hpp"
#include "support/database.hpp"
#include "support/manual_clock.hpp"

using namespace ff;
using namespace std::chrono_literals;

namespace {

struct Stage {
  Stage() {
    db.execute("CREATE TABLE thing (id int)");
    db.execute("INSERT INTO thing VALUES (1)");
  }
  /// Since a second ago, when nobody asked.
  bool nothing_new() {
    const SteadyTime before = clock.now();
    clock.advance(1s);
    return watch.nothing_written_since(before);
  }

  const test::Database database;
  pg::Connection db = database.connect();
  test::ManualClock clock;
  pg::Pool pool{database.connector(), 2, 5s};
  pg::SnapshotWatch watch{pool, clock};
};

}  // namespace

TEST_CASE("while nobody writes, nothing is new, and the first look knows of nothing before it") {
  Stage stage;
  CHECK_FALSE(stage.nothing_new());
  CHECK(stage.nothing_new());
  stage.db.execute("SELECT * FROM thing");
  CHECK(stage.nothing_new());
}

TEST_CASE("what was written in between is new once") {
  Stage stage;
  stage.nothing_new();
  SECTION("a row") {
    stage.db.execute("INSERT INTO thing VALUES (2)");
  }
  SECTION("a row that is given back") {
    pg::Transaction transaction(stage.db);
    transaction.execute("INSERT INTO thing VALUES (2)");
    transaction.rollback();
  }
  SECTION("a row lock, which is free again") {
    pg::Transaction transaction(stage.db);
    transaction.execute("SELECT * FROM thing FOR UPDATE");
    transaction.rollback();
  }
  SECTION("a row of another database") {
    test::Database().connect().execute("CREATE TABLE other (id int)");
  }
  CHECK_FALSE(stage.nothing_new());
  CHECK(stage.nothing_new());
}

TEST_CASE("what was written before a look and is committed behind it is new then") {
  Stage stage;
  pg::Transaction late(stage.db);
  late.execute("INSERT INTO thing VALUES (2)");
  stage.nothing_new();
  CHECK(stage.nothing_new());
  SECTION("by the transaction that was the only one") {
    late.commit();
  }
  SECTION("while another one stays open") {
    pg::Connection connection = stage.database.connect();
    pg::Transaction other(connection);
    other.execute("INSERT INTO thing VALUES (3)");
    stage.nothing_new();
    stage.nothing_new();
    late.commit();
    CHECK_FALSE(stage.nothing_new());
    other.rollback();
  }
  CHECK_FALSE(stage.nothing_new());
  CHECK(stage.nothing_new());
}

TEST_CASE(
    "an equal snapshot of another session says nothing: there may have been a crash, or another server") {
  Stage stage;
  stage.nothing_new();
  CHECK(stage.nothing_new());
  stage.pool.discard_all();
  CHECK_FALSE(stage.nothing_new());
  CHECK(stage.nothing_new());
}

TEST_CASE("where the server does not answer, anything may be new") {
  const Stage stage;
  pg::Pool none(stage.database.connector(), 1, 500ms);
  const auto taken = none.acquire();
  pg::SnapshotWatch watch(none, stage.clock);
  CHECK_FALSE(watch.nothing_written_since(stage.clock.now()));
}
