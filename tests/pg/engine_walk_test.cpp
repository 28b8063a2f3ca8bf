// A walk gets on however long its rows take to look at.
#include <algorithm>
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/log_capture.hpp"
#include "support/undating.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Reconciler;

namespace {

/// What has a deadline; who is of the lane "slow" takes so long to look at.
std::string scan_that_takes(const std::string& seconds_a_row, const std::string& seconds_if_slow) {
  return R"sql(
      SELECT c.partition_key, c.execution_id, c.deadline_at_ms + 0 AS due_at_ms
        FROM {schema}.ff_exec_core c
       WHERE {in_partitions:c} AND {in_slice:c} AND c.deadline_at_ms IS NOT NULL AND {filter:c}
         AND pg_sleep(CASE c.lane_id WHEN 'slow' THEN )sql" +
         seconds_if_slow + " ELSE " + seconds_a_row + " END)::text IS NOT NULL";
}

/// Takes deadlines away, in slices of 40 rows.
Reconciler undater(std::string_view scan) {
  Reconciler pair = undating(scan);
  pair.walk = {{"ff_exec_core", "execution_id", 40}};
  return pair;
}

struct Stage {
  Stage(const std::string& seconds_a_row, const std::string& seconds_if_slow, Milliseconds its_timeout)
      : timeout(its_timeout), scan(scan_that_takes(seconds_a_row, seconds_if_slow)) {}

  /// All of one moment, of which a scan shows a few and the page behind it all; or each of its own, for which a scan reads
  /// all of a slice.
  void add(const std::string& lane, int count, std::int64_t apart_ms = 0) {
    for (int i = 0; i < count; ++i)
      insert_core(db, {.partition = {1}, .lane = lane, .deadline_at_ms = 1'700'000'000'000 + i * apart_ms});
  }
  std::int64_t tick() {
    clock.shift += 5min;  // past any rest
    const auto report = engine->tick({.in_slices = true});
    if (report.failure) UNSCOPED_INFO(report.failure->what());
    return report.processed;
  }
  /// What ticks move, until that is so many.
  std::int64_t moved(std::int64_t wanted) {
    std::int64_t sum = 0;
    for (int ticks = 0; ticks < 60 && sum < wanted; ++ticks) sum += tick();
    return sum;
  }

  const Milliseconds timeout;
  const Database database;
  pg::Connection db = database.connect();
  const std::string scan;
  const Reconciler pair = undater(scan);
  ShiftedClock clock;
  EngineFixture engine{database, pair, {.statement_timeout = timeout, .clock = &clock}};
};

}  // namespace

TEST_CASE("slices get smaller while they take long to read") {
  Stage t("0.06", "0", 20s);
  t.add("a", 120, 1);
  CHECK(t.tick() == 40);
  CHECK(t.tick() == 20);
  CHECK(t.tick() == 10);
}

TEST_CASE("a slice that takes longer than statement_timeout is read in smaller ones") {
  Stage t("0.02", "0", 500ms);
  t.add("a", 40, GENERATE(0, 1));
  CHECK(t.tick() == 0);
  CHECK(t.moved(40) == 40);
}

TEST_CASE("a row that takes longer than statement_timeout is passed by, and those beside it are moved") {
  Stage t("0", "2", 500ms);
  t.add("a", 25);
  t.add("slow", 1);
  t.add("a", 25);
  const LogCapture log;
  const auto is_passed_by = [&] {
    const auto lines = log.lines();
    return std::ranges::any_of(lines, [](const std::string& line) {
      return line.find("what comes next in ff_exec_core takes longer to look at than statement_timeout") !=
             std::string::npos;
    });
  };
  CHECK(t.moved(50) == 50);
  // It may be the last one of all.
  for (int ticks = 0; ticks < 60 && !is_passed_by(); ++ticks) t.tick();
  CHECK(is_passed_by());
}
