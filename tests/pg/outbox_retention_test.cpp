#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kWeek = 7 * 24 * kHour;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("outbox_retention");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  RowKey add_lease(std::int64_t at, int partition = 3) {
    const auto id =
        number(db,
               "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
               " VALUES ('e', 'renewed', $1, $2) RETURNING event_id",
               pg::Params::of(at, partition));
    return {{static_cast<std::int16_t>(partition)}, {"lease", std::to_string(id)}};
  }
  RowKey add_completion(std::int64_t at, bool dispatched = true, int partition = 3) {
    const auto id =
        number(db,
               "INSERT INTO ff_completion_event"
               " (execution_id, outcome, occurred_at_ms, partition_key, dispatched_at_ms)"
               " VALUES ($1, 'success', $2, $3, $4) RETURNING event_id",
               pg::Params::of(new_uuid(), at, partition, dispatched ? std::optional(at) : std::nullopt));
    return {{static_cast<std::int16_t>(partition)}, {"completion", std::to_string(id)}};
  }
  void add_many(std::int64_t first_at, int count) {
    const auto params = pg::Params::of(first_at, count);
    db.execute(
        "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " SELECT 'e', 'renewed', $1 + i, 3 FROM generate_series(1, $2) i",
        params);
    db.execute(
        "INSERT INTO ff_completion_event (execution_id, outcome, occurred_at_ms, partition_key, "
        "dispatched_at_ms)"
        " SELECT gen_random_uuid(), 'success', $1 + i, 3, $1 FROM generate_series(1, $2) i",
        params);
  }
  std::int64_t left(const std::string& outbox) {
    return number(db, "SELECT count(*) FROM ff_" + outbox + "_event");
  }
};

}  // namespace

TEST_CASE("outbox_retention is off unless asked for and keeps a week, an hour at the least") {
  CHECK_FALSE(reconciler().on_by_default);
  REQUIRE(reconciler().settings.size() == 2);
  CHECK(reconciler().settings[1].name == "hold_above");
  CHECK(reconciler().settings[0].name == "retention");
  CHECK(reconciler().settings[0].fallback == kWeek);
  CHECK(reconciler().settings[0].least == kHour);
}

TEST_CASE("outbox_retention deletes old lease events and dispatched completion events and nothing else") {
  Stage t;
  const std::int64_t old = kNow - kWeek - 1;
  t.add_completion(old, false);
  t.add_completion(kNow);
  t.add_lease(kNow);
  insert_core(t.db, {.partition = {3}, .state = terminal(), .terminal_at_ms = old});
  const auto before = snapshot(t.db);
  t.add_completion(old);
  t.add_completion(old - 1);
  t.add_lease(old);
  t.add_completion(old, true, 5);
  t.add_lease(old, 5);
  t.add_lease(old - 1, 5);
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "completion_events_deleted=3 lease_events_deleted=3");
  CHECK(report.scanned == 6);
  CHECK(report.processed == 6);
  CHECK(report.skipped.empty());
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("outbox_retention keeps an event to the end of the last millisecond") {
  const std::int64_t retention = GENERATE(kHour, kWeek);
  Stage t;
  const std::int64_t oldest_kept = kNow - retention;
  const RowKey kept_lease = t.add_lease(oldest_kept);
  const RowKey kept_completion = t.add_completion(oldest_kept, true, 4);
  t.add_lease(oldest_kept - 1, 5);
  t.add_completion(oldest_kept - 1, true, 6);
  if (retention == kWeek) {
    CHECK(act_on(t.db, reconciler(), {kept_lease}).empty());
    CHECK(act_on(t.db, reconciler(), {kept_completion}).empty());
  }
  const TickReport report = t.tick({.settings = {{"retention", retention}}});
  CHECK(outcomes(report) == "completion_events_deleted=1 lease_events_deleted=1");
  CHECK(report.next_due == unix_millis(kNow + 1));
  CHECK(t.left("lease") == 1);
  CHECK(t.left("completion") == 1);
}

TEST_CASE("outbox_retention deletes thousands of events of one partition in one tick") {
  Stage t;
  t.add_many(kNow - 2 * kWeek, 1100);
  t.add_lease(kNow);
  t.add_completion(kNow);
  CHECK(outcomes(t.tick()) == "completion_events_deleted=1100 lease_events_deleted=1100");
  CHECK(t.left("lease") == 1);
  CHECK(t.left("completion") == 1);
}

TEST_CASE("outbox_retention deletes what is old behind a thousand events of a clock that runs ahead") {
  Stage t;
  t.add_many(kNow, 1000);
  t.add_lease(kNow - kWeek - 1);
  t.add_completion(kNow - kWeek - 1);
  CHECK(outcomes(t.tick()) == "completion_events_deleted=1 lease_events_deleted=1");
}

TEST_CASE("outbox_retention deletes the oldest first, a batch at a time") {
  Stage t;
  t.add_many(kNow - 2 * kWeek, 25);
  std::stop_source stop;
  const WatchingClock clock([&] {
    if (t.left("lease") + t.left("completion") < 50) stop.request_stop();
  });
  EngineFixture engine(t.database, "outbox_retention", {.batch_size = 10, .clock = &clock});
  const TickReport report = engine->tick({.stop = stop.get_token()});
  CHECK(report.more);
  CHECK(report.processed == 10);
  CHECK(t.left("lease") + t.left("completion") == 40);
  for (const char* outbox : {"lease", "completion"})
    CHECK(number(t.db, "SELECT min(occurred_at_ms) FROM ff_" + std::string(outbox) + "_event") ==
          kNow - 2 * kWeek + 6);
  CHECK(t.tick({.batch_size = 10}).processed == 40);
}

TEST_CASE("outbox_retention deletes what is old behind events that are younger or not dispatched") {
  Stage t;
  t.add_lease(kNow);
  t.add_completion(kNow);
  for (int i = 0; i < 3; ++i) t.add_completion(kNow - 2 * kWeek, false);
  t.add_lease(kNow - 2 * kWeek);
  t.add_completion(kNow - 2 * kWeek);
  CHECK(outcomes(t.tick()) == "completion_events_deleted=1 lease_events_deleted=1");
  CHECK(t.left("completion") == 4);
}

TEST_CASE("outbox_retention looks at the configured partitions only, and at the outbox that is named") {
  Stage t;
  const RowKey lease = t.add_lease(kNow - 2 * kWeek);
  const RowKey completion = t.add_completion(kNow - 2 * kWeek);
  CHECK(t.tick({.partitions = {{4}}}).scanned == 0);
  const auto before = snapshot(t.db);
  CHECK(act_on(t.db, reconciler(), {{{4}, lease.columns}, {{4}, completion.columns}}).empty());
  CHECK(diff(before, snapshot(t.db)).empty());
  CHECK(act_on(t.db, reconciler(), {lease}) == std::vector<std::string>{"lease_events_deleted"});
  CHECK(t.left("completion") == 1);
  CHECK(act_on(t.db, reconciler(), {completion}) == std::vector<std::string>{"completion_events_deleted"});
}

TEST_CASE("outbox_retention tells events of the two outboxes apart that have the same number") {
  Stage t;
  const RowKey lease = t.add_lease(kNow - 2 * kWeek);
  const RowKey completion = t.add_completion(kNow);
  REQUIRE(lease.columns[1] == completion.columns[1]);
  CHECK(outcomes(t.tick()) == "lease_events_deleted=1");
  const RowKey young = t.add_lease(kNow);
  const RowKey old = t.add_completion(kNow - 2 * kWeek);
  REQUIRE(young.columns[1] == old.columns[1]);
  CHECK(outcomes(t.tick()) == "completion_events_deleted=1");
  CHECK(t.left("lease") == 1);
  CHECK(t.left("completion") == 1);
}

TEST_CASE("outbox_retention never deletes a completion event that was not dispatched") {
  Stage t;
  const RowKey waiting = t.add_completion(kNow - 2 * kWeek, false);
  CHECK(act_on(t.db, reconciler(), {waiting}).empty());
  CHECK(t.tick().scanned == 0);
  CHECK(t.left("completion") == 1);
}

TEST_CASE("outbox_retention is not filtered") {
  Stage t;
  t.add_lease(kNow - 2 * kWeek);
  t.add_completion(kNow - 2 * kWeek);
  CHECK(t.tick({.filter = for_both("a", {"cairn.instance_id", "1"})}).processed == 2);
  CHECK_FALSE(reconciler().filterable);
}

TEST_CASE("outbox_retention skips an event that somebody holds and takes it later") {
  const std::string outbox = GENERATE("lease", "completion");
  Stage t;
  const RowKey lease = t.add_lease(kNow - 2 * kWeek);
  const RowKey completion = t.add_completion(kNow - 2 * kWeek);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_" + outbox + "_event FOR UPDATE");
  const TickReport report = t.tick();
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.left(outbox) == 1);
  holding.rollback();
  CHECK(outcomes(t.tick()) == outbox + "_events_deleted=1");
  CHECK(t.tick().scanned == 0);
}
