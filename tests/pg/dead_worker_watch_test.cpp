// What a daemon remembers from look to look of who has died: whose leases dead_worker ends then, and when.
#include <catch2/catch.hpp>

#include "support/dead_worker_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Skip;
using reconcile::TickReport;
using Stage = DeadWorkerStage;

namespace {

constexpr std::int64_t kTtl = Stage::kTtl;

}  // namespace

TEST_CASE("a daemon knows ahead when a worker dies, and ends its leases then") {
  Stage stage;
  stage.add_worker("w", kNow);
  const Uuid execution = stage.add_lease("w");
  stage.watch_through(0s, 29s);
  const TickReport before = stage.watch(30s);
  CHECK(before.processed == 0);
  CHECK(before.next_due == unix_millis(kNow + kTtl + 1));
  CHECK(outcomes(stage.watch(30'001ms)) == "lease_ended=1");
  CHECK(stage.is_ended(execution));
}

TEST_CASE("at the moment a worker would die a daemon asks what it has done since the last scan") {
  Stage stage;
  stage.add_worker("w", kNow);
  stage.add_worker("other", kNow + 20'000);
  const Uuid execution = stage.add_lease("w");
  stage.watch_through(0s, 30s);
  SECTION("nothing") {
    CHECK(stage.at_the_moment() == "lease_ended=1");
    CHECK(stage.is_ended(execution));
    CHECK(stage.next_due == unix_millis(kNow + 20'000 + kTtl + 1));
  }
  SECTION("it has sent a heartbeat") {
    stage.beat("w", kNow + 30'000);
    CHECK(stage.at_the_moment().empty());
    CHECK(stage.next_due == unix_millis(kNow + 20'000 + kTtl + 1));
  }
  SECTION("it has registered in another namespace") {
    stage.add_worker("w", kNow + 30'000, "b");
    CHECK(stage.at_the_moment().empty());
  }
  SECTION("it has renewed a lease, in whatever partition") {
    stage.renew(stage.add_lease("w", {{"namespace", "b"}}, {200}));
    CHECK(stage.at_the_moment().empty());
  }
  SECTION("it was swept, which is no sign of life") {
    stage.remove_worker("w", "ttl_swept", kNow + 30'000);
    CHECK(stage.at_the_moment() == "lease_ended=1");
  }
  SECTION("of another nothing, until the next scan") {
    const Uuid its = stage.add_lease("other");
    stage.remove_worker("other", "marked_dead", kNow + 30'000);
    CHECK(stage.at_the_moment() == "lease_ended=1");
    CHECK_FALSE(stage.is_ended(its));
    stage.watch(31s);
    CHECK(stage.is_ended(its));
  }
}

TEST_CASE("who was swept and registers again in another namespace just in time is not dead") {
  Stage stage;
  stage.add_worker("w", kNow);
  const Uuid execution = stage.add_lease("w");
  stage.watch_through(0s, 10s);
  stage.renew(execution);
  stage.watch_through(11s, 30s);
  stage.remove_worker("w", "ttl_swept", kNow + 30'500);
  stage.watch_through(31s, 41s);
  CHECK(attempt(stage.db, execution)["raw_fields"].contains("ended_by") == false);
  SECTION("it does") {
    stage.add_worker("w", kNow + 41'000, "b");
    CHECK(stage.at_the_moment().empty());
  }
  SECTION("it does not") {
    CHECK(stage.at_the_moment() == "lease_ended=1");
  }
}

TEST_CASE("a daemon that has just begun gives a worker its time to live, whatever its clock says") {
  Stage stage;
  stage.add_worker("behind", kNow - 90'000);
  const Uuid execution = stage.add_lease("behind");
  stage.watch_through(0s, 30s);
  CHECK_FALSE(stage.is_ended(execution));
  SECTION("and another while its heartbeats change") {
    stage.beat("behind", kNow - 80'000);
    stage.watch_through(31s, 59s);
    CHECK_FALSE(stage.is_ended(execution));
    stage.watch_through(60s, 62s);
  }
  SECTION("and another while its leases are renewed, in whatever partition") {
    const Uuid other = stage.add_lease("behind", {{"namespace", "b"}}, {200});
    stage.watch_through(31s, 59s);
    CHECK_FALSE(stage.is_ended(execution));
    stage.renew(other);
    stage.watch_through(60s, 88s);
    CHECK_FALSE(stage.is_ended(execution));
    stage.watch_through(89s, 92s);
  }
  SECTION("and no more") {
    stage.watch(31s);
  }
  CHECK(stage.is_ended(execution));
}

TEST_CASE("a daemon believes at once who is marked dead, and a sweep once its signs have stood still") {
  Stage stage;
  stage.add_worker("marked", kNow);
  stage.add_worker("swept", kNow - kTtl);
  const Uuid marked = stage.add_lease("marked");
  const Uuid swept = stage.add_lease("swept");
  stage.watch_through(0s, 2s);
  stage.remove_worker("marked", "marked_dead", kNow + 500);
  stage.remove_worker("swept", "ttl_swept", kNow + 500);
  CHECK(outcomes(stage.watch(3s)) == "lease_ended=1");
  CHECK(stage.is_ended(marked));
  stage.watch_through(4s, 29s);
  CHECK_FALSE(stage.is_ended(swept));
  stage.watch_through(30s, 31s);
  CHECK(stage.is_ended(swept));
}

TEST_CASE("who is dead and done with in some partitions is found again in others") {
  Stage stage;
  stage.add_worker("w", kNow);
  const Uuid its = stage.add_lease("w");
  const Uuid elsewhere = stage.add_lease("w", {{"namespace", "a"}}, {200});
  stage.watch_through(0s, 2s);
  stage.remove_worker("w", "marked_dead", kNow + 500);
  CHECK(outcomes(stage.watch(3s)) == "lease_ended=1");
  CHECK(stage.is_ended(its));
  CHECK_FALSE(stage.is_ended(elsewhere));
  reconcile::Scope scope = stage.engine->scope();
  scope.partitions = partition_range({192}, {207});
  stage.engine->set_scope(scope);
  CHECK(outcomes(stage.watch(4s)) == "lease_ended=1");
  CHECK(stage.is_ended(elsewhere));
}

TEST_CASE("who has renewed after its sweep, or registered again, is left to lapse") {
  Stage stage;
  stage.add_worker("renewed", kNow - kTtl);
  stage.add_worker("again", kNow - kTtl);
  const Uuid renewed = stage.add_lease("renewed");
  const Uuid again = stage.add_lease("again");
  stage.watch_through(0s, 2s);
  stage.remove_worker("renewed", "ttl_swept", kNow);
  stage.remove_worker("again", "ttl_swept", kNow);
  stage.renew(renewed);
  stage.add_worker("again", kNow + 2'500);
  for (Milliseconds at = 3s; at <= 90s; at += 1s) {
    stage.beat("again", kNow + at.count());
    stage.watch(at);
  }
  CHECK_FALSE(stage.is_ended(renewed));
  CHECK_FALSE(stage.is_ended(again));
}

TEST_CASE("a lease that somebody holds when its worker is dead is ended by a later look") {
  Stage stage;
  stage.add_worker("w", kNow - 2 * kTtl);
  const Uuid execution = stage.add_lease("w");
  const Uuid free = stage.add_lease("w");
  stage.watch(0s);
  auto holder = stage.database.connect();
  pg::Transaction transaction(holder);
  transaction.execute("SELECT FROM ff_attempt WHERE execution_id = $1 FOR UPDATE", pg::Params::of(execution));
  CHECK(stage.watch(31s).skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(stage.is_ended(free));
  transaction.rollback();
  CHECK(outcomes(stage.watch(32s)) == "lease_ended=1");
  CHECK(stage.is_ended(execution));
}
