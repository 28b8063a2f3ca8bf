// quota_window: what is remembered of admissions goes once its quota is idle, and not before.
#include <catch2/catch.hpp>

#include "pg/quota_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

struct Stage : QuotaStage {
  static constexpr std::int64_t kDay = 24 * kHour;

  TickReport tick() {
    EngineFixture engine(database, "quota_window");
    TickReport report = engine->tick();
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    return report;
  }
  std::int64_t left(const std::string& policy) { return rows("ff_quota_window", policy); }
};

}  // namespace

TEST_CASE("quota_window is off unless asked for") {
  CHECK_FALSE(reconcile::find_reconciler("quota_window")->on_by_default);
}

TEST_CASE("quota_window deletes the rows of quotas that have been idle for a day and a minute") {
  Stage t;
  for (const char* name : {"idle", "in use", "without policy"}) {
    if (std::string_view(name) != "without policy") t.policy(name, 1);
    t.window(name, t.now - 10 * Stage::kDay);
    t.window(name, t.now - Stage::kDay - 70'000);
  }
  t.window("in use", t.now - Stage::kDay - 50'000);
  t.window("ahead", t.now + Stage::kDay);  // dated by a fast clock
  t.window("ahead", t.now - 10 * Stage::kDay);
  CHECK(outcomes(t.tick()) == "window_rows_deleted=4");
  CHECK(t.left("idle") == 0);
  CHECK(t.left("without policy") == 0);
  CHECK(t.left("in use") == 3);
  CHECK(t.left("ahead") == 2);
  CHECK(number(t.db, "SELECT count(*) FROM ff_quota_policy") == 2);
  CHECK(t.tick().scanned == 0);
}

TEST_CASE(
    "quota_window keeps the rows of a window that is longer than a day, by its policy or its admissions") {
  Stage t;
  for (const char* name : {"said", "guarded", "over", "endless", "for ever"})
    t.window(name, t.now - 2 * Stage::kDay);
  t.policy("said", 1, 3 * 86'400);
  t.policy("guarded", 1);
  t.guard("guarded", 60'000, 3 * Stage::kDay);
  t.policy("over", 1, 86'400 + 3600);
  t.guard("over", -60'000, Stage::kDay + Stage::kHour);
  t.policy("endless", 1, Stage::kMost);
  t.guard_until("for ever", Stage::kMost, Stage::kMost - 7);
  CHECK(outcomes(t.tick()) == "window_rows_deleted=1");
  CHECK(t.left("over") == 0);
}

TEST_CASE("quota_window takes a quota for idle only if it is so in all dimensions") {
  Stage t;
  for (const char* name : {"idle", "in use"})
    for (const char* dimension : {"a", "b", "c"})
      t.window(name, t.now - (std::string_view(name) == "in use" && *dimension == 'b' ? 1 : 3) * Stage::kDay,
               dimension);
  CHECK(outcomes(t.tick()) == "window_rows_deleted=3");
  CHECK(t.left("in use") == 3);
}

TEST_CASE("quota_window leaves a quota that is used again before it acts") {
  Stage t;
  t.window("woken", t.now - 3 * Stage::kDay);
  t.window("idle", t.now - 3 * Stage::kDay);
  EngineFixture engine(t.database, "quota_window");
  const TickReport report = engine->tick(stepping_in([&] { t.window("woken", t.now); }));
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(t.left("woken") == 2);
  CHECK(t.left("idle") == 0);
}

TEST_CASE("quota_window deletes thousands of rows of one quota in one tick") {
  Stage t;
  t.db.execute(
      "INSERT INTO ff_quota_window SELECT 3, 'quota', '', i, i::text FROM generate_series(1, 5000) i");
  CHECK(t.tick().processed == 5000);
  CHECK(t.left("quota") == 0);
}
