// quota_concurrency: a quota's count of those at work is never above its admissions for long, and never below for us.
#include <catch2/catch.hpp>

#include "pg/quota_stage.hpp"
#include "pg/transaction.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

struct Stage : QuotaStage {
  TickReport tick() {
    EngineFixture engine(database, "quota_concurrency");
    TickReport report = engine->tick();
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    return report;
  }
};

}  // namespace

TEST_CASE("quota_concurrency lowers a count to its admissions, and raises none") {
  Stage t;
  t.policy("above", 5);
  t.guard("above", 30'000);
  t.guard("above", -30'000);  // may still be released
  t.policy("nobody", 3);
  t.policy("as many", 1);
  t.guard("as many", 30'000);
  t.policy("below", 1);  // admissions without a cap are not counted
  t.guard("below", 30'000);
  t.guard("below", 30'000);
  t.policy("nought", 0);
  t.policy("negative", -2);
  // Its namesake's admissions are not its own.
  t.policy("twin", 2);
  t.policy("twin", 1, 60, 4);
  t.guard("twin", 30'000, 60'000, 4);
  t.policy("endless", Stage::kMost);
  t.guard_until("endless", Stage::kMost);
  const auto before = snapshot(t.db);
  CHECK(outcomes(t.tick()) == "corrected=4");
  CHECK(t.active("above") == 2);
  CHECK(t.active("nobody") == 0);
  CHECK(t.active("twin") == 0);
  CHECK(t.active("endless") == 1);
  CHECK(diff(before, snapshot(t.db)).size() == 8);
  CHECK(row(t.db,
            "SELECT updated_at_ms FROM ff_quota_policy WHERE quota_policy_id = 'above'")["updated_at_ms"] >=
        t.now);
  CHECK(t.tick().scanned == 0);
}

TEST_CASE(
    "quota_concurrency deletes admissions a minute after their window, and counts those that are left") {
  Stage t;
  t.policy("quota", 4);
  for (const std::int64_t expires_in : {30'000, -50'000, -61'000, -3'600'000}) t.guard("quota", expires_in);
  t.guard("of nobody", -61'000);  // an admission without a cap needs no policy
  t.guard("of nobody", -50'000);
  CHECK(outcomes(t.tick()) == "corrected=1 guards_expired=1");
  CHECK(t.rows("ff_quota_admitted", "quota") == 2);
  CHECK(t.rows("ff_quota_admitted", "of nobody") == 1);
  CHECK(t.active("quota") == 2);
}

TEST_CASE(
    "quota_concurrency corrects the count of a quota with ten thousands of admissions in several turns") {
  Stage t;
  t.policy("quota", 12'000);
  t.db.execute(
      "INSERT INTO ff_quota_admitted SELECT 3, 'quota', i::text, 0, $1 - i FROM generate_series(1, 12000) i",
      pg::Params::of(t.now - 61'000));
  CHECK(outcomes(t.tick()) == "corrected=1 guards_expired=2000");
  CHECK(t.active("quota") == 2000);
  CHECK(outcomes(t.tick()) == "corrected=1");
  CHECK(t.active("quota") == 0);
}

TEST_CASE("quota_concurrency counts an admission that commits before it has the lock") {
  Stage t;
  t.policy("quota", 5);
  t.guard("quota", 30'000);
  TickReport report;
  const auto tick = [&] { report = t.tick(); };
  StalledAct lock(t.database, tick, "locked");
  t.guard("quota", 60'000);
  t.db.execute("UPDATE ff_quota_policy SET active_concurrency = 6");
  lock.finish();
  CHECK(report.processed == 1);
  CHECK(t.active("quota") == 2);
}

TEST_CASE("quota_concurrency counts an admission whose release is under way, which then takes its one off") {
  Stage t;
  t.policy("quota", 5);
  t.guard("quota", 30'000);
  t.guard("quota", 40'000);
  auto other = t.database.connect();
  pg::Transaction release(other);
  release.execute("DELETE FROM ff_quota_admitted WHERE expires_at_ms = $1", pg::Params::of(t.now + 30'000));
  CHECK(outcomes(t.tick()) == "corrected=1");
  CHECK(t.active("quota") == 2);
  release.execute("UPDATE ff_quota_policy SET active_concurrency = greatest(active_concurrency - 1, 0)");
  release.commit();
  CHECK(t.active("quota") == 1);
  CHECK(t.rows("ff_quota_admitted", "quota") == 1);
  CHECK(t.tick().scanned == 0);
}

TEST_CASE(
    "quota_concurrency writes nothing where the count was released, or the admission renewed, before its "
    "lock") {
  Stage t;
  t.policy("released", 2);
  t.guard("released", 30'000);
  t.policy("renewed", 1);
  t.guard("renewed", -61'000);
  EngineFixture engine(t.database, "quota_concurrency");
  std::vector<std::string> before;
  const TickReport report = engine->tick(stepping_in([&] {
    t.db.execute("UPDATE ff_quota_policy SET active_concurrency = 1");
    t.db.execute("UPDATE ff_quota_admitted SET expires_at_ms = $1 WHERE quota_policy_id = 'renewed'",
                 pg::Params::of(t.now + 60'000));
    before = snapshot(t.db);
  }));
  CHECK(report.processed == 0);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 2}});
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("quota_concurrency counts an old admission that somebody holds") {
  Stage t;
  t.policy("quota", 3);
  t.guard("quota", -61'000);
  t.guard("quota", -62'000);
  auto other = t.database.connect();
  pg::Transaction admission(other);
  admission.execute("SELECT FROM ff_quota_admitted WHERE expires_at_ms = $1 FOR UPDATE",
                    pg::Params::of(t.now - 61'000));
  CHECK(outcomes(t.tick()) == "corrected=1");
  CHECK(t.active("quota") == 1);
  CHECK(t.rows("ff_quota_admitted", "quota") == 1);
  admission.rollback();
  CHECK(outcomes(t.tick()) == "corrected=1");
  CHECK(t.active("quota") == 0);
}

TEST_CASE("quota_concurrency looks after the partitions of quotas, whatever those of executions") {
  Stage t;
  t.db.execute("UPDATE ff_partition_config SET num_quota_partitions = 5");
  t.policy("last", 1, 60, 4);
  t.policy("beyond", 1, 60, 5);
  EngineFixture engine(t.database, "quota_concurrency", {.partitions = {{200}}});
  CHECK(engine->tick().processed == 1);
  CHECK(t.active("last", 4) == 0);
  CHECK(t.active("beyond", 5) == 1);
}
