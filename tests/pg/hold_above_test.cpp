// hold_above: what is more than that is not moved before an operator has released it.
#include <catch2/catch.hpp>

#include "release_watch.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Skip;
using reconcile::TickOptions;
using reconcile::TickReport;

namespace {

const TickOptions kScan{.scan_ahead = Milliseconds{60'000}};
const TickOptions kForeseen{.scan = false};

TickOptions releasing_since(UnixMillis begun) {
  return {.released = [=](UnixMillis since) { return since == begun; }};
}

bool is_held(const TickReport& report) {
  return report.hold && !report.hold->released;
}

/// Deadlines that pass, by a clock that the test moves together with the engine's.
struct Stage : StillStage {
  Stage() : StillStage(*reconcile::find_reconciler("execution_deadline")) {}

  void add(int rows, std::int64_t deadline_at_ms = kNow - 5000, PartitionKey partition = {3}) {
    for (int i = 0; i < rows; ++i)
      insert_core(db, {.partition = partition, .deadline_at_ms = deadline_at_ms});
  }
  std::int64_t ended() {
    return number(db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'terminal'");
  }
};

EngineOptions limited(std::int64_t rows) {
  return {.settings = {{"hold_above", rows}}};
}

}  // namespace

TEST_CASE("one due row more than hold_above holds all of them, one less lets all go") {
  Stage t;
  t.add(1, kNow - 5000, {1});
  t.add(2, kNow - 9000, {2});
  t.add(1, kNow + 1);
  const auto before = snapshot(t.db);
  EngineFixture engine(t.database, "execution_deadline", limited(2));
  const TickReport report = engine->tick();
  REQUIRE(report.hold);
  CHECK(*report.hold == reconcile::Hold{.above = 2, .since = unix_millis(kNow), .released = false});
  CHECK(report.processed == 0);
  CHECK(report.scanned == 3);
  CHECK(report.oldest_due == unix_millis(kNow - 9000));
  CHECK(report.complete);
  CHECK_FALSE(report.more);
  CHECK(diff(before, snapshot(t.db)).empty());
  EngineFixture wider(t.database, "execution_deadline", limited(3));
  const TickReport moved = wider->tick();
  CHECK(moved.processed == 3);
  CHECK_FALSE(moved.hold);
}

TEST_CASE("what is due in other groups counts as well where each scan reads some of them only") {
  Stage t;
  const Partitions partitions = partition_range({0}, {31});
  const reconcile::Groups groups(partitions);
  for (const PartitionKey each : {groups.all()[0].front(), groups.all()[1].front()})
    t.add(2, kNow - 5000, each);
  reconcile::Reconciler pair = *reconcile::find_reconciler("execution_deadline");
  pair.groups_a_scan = 1;
  const TickOptions one_of_many{.in_slices = true};
  EngineOptions options = limited(3);
  options.partitions = partitions;
  EngineFixture engine(t.database, pair, options);
  for (int i = 0; i < 2; ++i) CHECK(is_held(engine->tick(one_of_many)));
  options = limited(4);
  options.partitions = partitions;
  EngineFixture wider(t.database, pair, options);
  CHECK(wider->tick(one_of_many).processed == 2);
  CHECK(wider->tick(one_of_many).processed == 2);
}

TEST_CASE("without hold_above nothing is held, and with a dry run or a named execution neither") {
  Stage t;
  t.add(9);
  const Uuid named = insert_core(t.db, {.partition = {4}, .deadline_at_ms = kNow - 1});
  EngineFixture engine(t.database, "execution_deadline", limited(2));
  CHECK(engine->tick({.dry_run = true}).processed == 10);
  CHECK(t.ended() == 0);
  CHECK(engine->tick_one({{4}, named}).processed == 1);
  CHECK(t.ended() == 1);
  CHECK(is_held(engine->tick()));
  EngineFixture unlimited(t.database, "execution_deadline");
  CHECK(unlimited->tick().processed == 9);
}

TEST_CASE("a hold goes on since when it began, also where the release is of an earlier one") {
  Stage t;
  t.add(3);
  EngineFixture engine(t.database, "execution_deadline", limited(2));
  CHECK(is_held(engine->tick()));
  t.advance(engine, 500ms);
  t.add(20);
  const TickReport later = engine->tick(releasing_since(unix_millis(kNow + 500)));
  CHECK(is_held(later));
  CHECK(later.hold->since == unix_millis(kNow));
  CHECK(t.ended() == 0);
}

TEST_CASE("a release lets all pages go, and what comes after it is held again") {
  Stage t;
  t.add(40);
  t.add(7, kNow - 1, {9});
  EngineOptions options = limited(2);
  options.batch_size = 5;
  EngineFixture engine(t.database, "execution_deadline", options);
  CHECK(is_held(engine->tick()));
  const TickOptions released = releasing_since(unix_millis(kNow));
  const TickReport report = engine->tick(released);
  CHECK(report.processed == 47);
  REQUIRE(report.hold);
  CHECK(report.hold->released);
  t.advance(engine, 1000ms);
  CHECK_FALSE(engine->tick(released).hold);  // none is due
  t.add(3);
  const TickReport again = engine->tick(released);
  CHECK(is_held(again));
  CHECK(again.hold->since == unix_millis(kNow + 1000));
  CHECK(t.ended() == 47);
}

TEST_CASE("a hold is over when somebody else has moved what was too much") {
  Stage t;
  t.add(3);
  EngineFixture engine(t.database, "execution_deadline", limited(2));
  CHECK(is_held(engine->tick()));
  t.db.execute_script("UPDATE ff_exec_core SET deadline_at_ms = NULL");
  CHECK_FALSE(engine->tick().hold);
  t.add(2);
  CHECK(engine->tick().processed == 2);
}

TEST_CASE("what was seen coming is counted before it is taken") {
  Stage t;
  t.add(2, kNow + 50, {1});
  t.add(1, kNow + 50, {2});
  EngineFixture held(t.database, "execution_deadline", limited(2));
  EngineFixture free(t.database, "execution_deadline", limited(3));
  CHECK(held->tick(kScan).next_due == unix_millis(kNow + 51));
  free->tick(kScan);
  t.advance(held, 51ms);
  free.clock().advance(51ms);
  const TickReport report = held->tick(kForeseen);
  CHECK(is_held(report));
  CHECK(report.hold->since == unix_millis(kNow + 51));
  CHECK_FALSE(report.next_due);
  CHECK(t.ended() == 0);
  CHECK(free->tick(kForeseen).processed == 3);
}

TEST_CASE("what falls due between the count and the act waits for the next count") {
  Stage t;
  t.add(4);  // so many that the partition is paged through
  EngineFixture engine(t.database, "execution_deadline", limited(4));
  const TickReport report = engine->tick(stepping_in([&] { t.add(10, kNow - 9000); }));
  CHECK(report.processed == 4);
  CHECK(report.more);
  CHECK(t.ended() == 4);
  CHECK(is_held(engine->tick()));
  CHECK(t.ended() == 4);
}

TEST_CASE("rows in quarantine are due and do not count") {
  Stage t;
  t.add(2, kNow - 9000);
  t.db.execute_script(
      "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN IF OLD.deadline_at_ms < 1799999995000 THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; "
      "END$$;"
      "CREATE TRIGGER refuse BEFORE UPDATE ON ff_exec_core FOR EACH ROW EXECUTE FUNCTION refuse()");
  EngineFixture engine(t.database, "execution_deadline", limited(2));
  t.add(1);
  CHECK(is_held(engine->tick()));
  CHECK(engine->tick(releasing_since(unix_millis(kNow))).quarantined == 2);
  t.add(2);
  const TickReport report = engine->tick();
  CHECK(report.processed == 2);
  CHECK_FALSE(report.hold);
  t.add(3);
  CHECK(is_held(engine->tick()));
}

TEST_CASE("the rows of companions count, and are held with the others") {
  StillStage t(*reconcile::find_reconciler("suspension_timeout"));
  const Uuid suspended_one = insert_core(t.db, {.partition = {3}, .state = suspended()});
  insert_suspension(
      t.db,
      {.partition = {3}, .execution = suspended_one, .timeout_at_ms = kNow - 1, .timeout_behavior = "fail"});
  const Uuid ended = insert_core(t.db, {.partition = {5}, .state = cancelled(), .terminal_at_ms = 5});
  insert_suspension(t.db, {.partition = {5}, .execution = ended});
  for (int i = 0; i < 2; ++i) insert_waitpoint(t.db, {.partition = {5}, .execution = ended});
  const auto before = snapshot(t.db);
  EngineFixture engine(t.database, "suspension_timeout", limited(2));
  SECTION("by a scan of all pairs") {
    CHECK(is_held(engine->tick()));
    CHECK(is_held(engine->tick({.in_slices = true})));
  }
  SECTION("by one of the companions alone") {
    CHECK(is_held(engine->tick({.scan = false, .in_slices = true})));
    CHECK(is_held(engine->tick({.scan = false, .companions_scan = false, .shortcuts_scan = true})));
  }
  CHECK(diff(before, snapshot(t.db)).empty());
  EngineFixture wider(t.database, "suspension_timeout", limited(3));
  const TickReport report = wider->tick();
  CHECK(report.outcomes.at("failed") == 1);
  CHECK(report.outcomes.at("orphan_cleared") == 2);
}

TEST_CASE("one release lets go what two replicas hold, one of them a little later, and no hold after that") {
  Stage t;
  t.add(3, kNow - 5000, {1});
  t.add(3, kNow - 5000, {8});
  EngineOptions low = limited(2);
  low.partitions = partition_range({0}, {7});
  EngineOptions high = limited(2);
  high.partitions = partition_range({8}, {15});
  EngineFixture first(t.database, "execution_deadline", low);
  EngineFixture second(t.database, "execution_deadline", high);
  supervisor::Releases releases;
  daemon::ReleaseWatch watch(releases);
  const TickOptions options{
      .released = [&](UnixMillis since) { return releases.of("execution_deadline", since, 5s).has_value(); }};
  watch.poll(t.db);
  CHECK(is_held(first->tick(options)));
  pause::release(t.db, {"execution_deadline"}, "anna@bastion");
  CHECK(is_held(first->tick(options)));  // not read yet
  watch.poll(t.db);
  const auto release = releases.of("execution_deadline", unix_millis(kNow), 5s);
  REQUIRE(release);
  CHECK(release->at == unix_millis(kNow));
  CHECK(release->by.starts_with("anna@bastion, database role "));
  CHECK(first->tick(options).processed == 3);
  t.advance(second, 65'000ms);
  CHECK(second->tick(options).processed == 3);
  t.advance(second, 1ms);
  CHECK_FALSE(second->tick(options).hold);
  t.add(3, kNow, {8});
  CHECK(is_held(second->tick(options)));
  pause::release(t.db, {"*"}, "anna@bastion");
  watch.poll(t.db);
  CHECK(second->tick(options).processed == 3);
}

TEST_CASE("a release that is dated in the future, or of another reconciler, releases nothing") {
  Stage t;
  pause::release(t.db, {"execution_deadline", "outbox_retention"}, "anna@bastion");
  t.db.execute_script(
      "UPDATE ff_reconciler_release SET released_at_ms = 9000000000000000000 WHERE reconciler = "
      "'execution_deadline'");
  supervisor::Releases releases;
  daemon::ReleaseWatch(releases).poll(t.db);
  CHECK_FALSE(releases.of("execution_deadline", unix_millis(kNow), 5s));
  CHECK(releases.of("outbox_retention", unix_millis(kNow), 5s));
  t.db.execute_script("DROP TABLE ff_reconciler_release");
  daemon::ReleaseWatch(releases).poll(t.db);
  CHECK(releases.of("outbox_retention", unix_millis(kNow), 5s));  // what is known stays
}
