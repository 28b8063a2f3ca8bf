// A walk over executions in some phases goes by whole partitions, and reads no more than its rows a scan on the average.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/undating.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;

namespace {

/// Takes the deadline of runnable executions away, and walks through these in tens.
const Reconciler& undater() {
  static const Reconciler made = [] {
    Reconciler pair = undating(R"sql(
      SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
        FROM {runnable_by_lane} r
        JOIN {core_of:r} c ON true
       WHERE c.deadline_at_ms IS NOT NULL AND {filter:c})sql");
    pair.walk = {{"ff_exec_core", "execution_id", 10, "'runnable'"}};
    return pair;
  }();
  return made;
}

struct Stage {
  const Database database;
  pg::Connection db = database.connect();
  EngineFixture engine{database, undater()};

  /// Executions that are due, in two lanes, beside some that have ended.
  void add(int number, int count) {
    const auto partition = static_cast<std::int16_t>(number);
    for (int i = 0; i < count; ++i)
      insert_core(db, {.partition = {partition},
                       .state = runnable(),
                       .lane = i % 2 == 0 ? "a" : "b",
                       .deadline_at_ms = 1'700'000'000'000});
    for (int i = 0; i < 3; ++i) insert_core(db, {.partition = {partition}, .state = terminal()});
  }
  std::vector<std::int64_t> scans(int count) {
    std::vector<std::int64_t> moved;
    for (int i = 0; i < count; ++i) moved.push_back(engine->tick({.in_slices = true}).processed);
    return moved;
  }
};

}  // namespace

TEST_CASE("a walk over phases takes whole partitions, past what has ended, and then begins again") {
  Stage t;
  for (const int partition : {0, 2, 3, 7, 8, 15}) t.add(partition, 4);
  CHECK(t.scans(4) == std::vector<std::int64_t>{12, 8, 4, 0});
  t.add(0, 1);
  t.add(15, 1);
  CHECK(t.scans(2) == std::vector<std::int64_t>{0, 1});
  CHECK(t.scans(1) == std::vector<std::int64_t>{1});
}

TEST_CASE("what a large partition had too many, a walk over phases makes up for by reading nothing") {
  Stage t;
  t.add(1, 35);
  t.add(2, 3);
  t.add(4, 6);
  t.add(5, 3);
  CHECK(t.scans(5) == std::vector<std::int64_t>{35, 0, 0, 9, 3});
  const auto nothing = t.engine->tick({.in_slices = true});
  CHECK(nothing.complete);
  CHECK(nothing.database_time != UnixMillis{});
}

TEST_CASE("a scan by hand, and a count, are not kept to the slices of a walk over phases") {
  Stage t;
  t.add(1, 12);
  t.add(2, 12);
  t.add(3, 12);
  CHECK(t.scans(1) == std::vector<std::int64_t>{12});
  const auto some = t.engine->backlog(20);
  CHECK(some.due == 12);
  CHECK(some.capped);
  const auto all = t.engine->backlog(100);
  CHECK(all.due == 24);
  CHECK_FALSE(all.capped);
  CHECK(t.engine->tick().processed == 24);
}
