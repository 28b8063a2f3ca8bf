#include <catch2/catch.hpp>
#include <limits>

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

/// The pair that takes this outbox.
const reconcile::Reconciler& pair_of(const std::string& outbox) {
  if (outbox == "lease") return reconciler();
  const auto& all = reconciler().companions;
  return *std::ranges::find_if(
      all, [&](const auto& pair) { return pair.outcomes.front().name == outbox + "_events_deleted"; });
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  RowKey add_lease(std::int64_t at, int partition = 3) {
    const auto id =
        number(db,
               "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
               " VALUES ('e', 'renewed', $1, $2) RETURNING event_id",
               pg::Params::of(at, partition));
    return {{static_cast<std::int16_t>(partition)}, {std::to_string(id)}};
  }
  RowKey add_completion(std::int64_t at, bool dispatched = true, int partition = 3,
                        std::int64_t ended_at = 0) {
    const auto id = number(
        db,
        "INSERT INTO ff_completion_event"
        " (execution_id, outcome, occurred_at_ms, committed_at_ms, partition_key, dispatched_at_ms)"
        " VALUES ($1, 'success', $5, $2, $3, $4) RETURNING event_id",
        pg::Params::of(new_uuid(), at, partition, dispatched ? std::optional(at) : std::nullopt, ended_at));
    return {{static_cast<std::int16_t>(partition)}, {std::to_string(id)}};
  }
  void add_many(std::int64_t first_at, int count) {
    const auto params = pg::Params::of(first_at, count);
    db.execute(
        "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " SELECT 'e', 'renewed', $1 + i, 3 FROM generate_series(1, $2) i",
        params);
    db.execute(
        "INSERT INTO ff_completion_event (execution_id, outcome, occurred_at_ms, committed_at_ms, "
        "partition_key, dispatched_at_ms)"
        " SELECT gen_random_uuid(), 'success', $1 + i, $1 + i, 3, $1 FROM generate_series(1, $2) i",
        params);
  }
  std::int64_t left(const std::string& outbox) {
    return number(db, "SELECT count(*) FROM ff_" + outbox + "_event");
  }
};

}  // namespace

TEST_CASE("outbox_retention is off unless asked for and keeps a week, an hour at the least") {
  CHECK_FALSE(reconciler().on_by_default);
  REQUIRE(reconciler().settings.size() == 3);
  CHECK(reconciler().settings[2].name == "hold_above");
  CHECK(reconciler().settings[1].name == "worker_events_retention");
  CHECK(reconciler().settings[1].fallback == 24 * kHour);
  CHECK(reconciler().settings[0].name == "retention");
  CHECK(reconciler().settings[0].fallback == kWeek);
  CHECK(reconciler().settings[0].least == kHour);
}

TEST_CASE("outbox_retention deletes old lease events and dispatched completion events and nothing else") {
  Stage t;
  const std::int64_t old = kNow - kWeek - 1;
  t.add_completion(old, false);
  t.add_completion(kNow, true, 4);
  t.add_lease(kNow, 4);
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
    CHECK(act_on(t.db, pair_of("completion"), {kept_completion}).empty());
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

TEST_CASE("outbox_retention deletes what is old behind thousands of events that were dated in the future") {
  Stage t;
  t.add_many(kNow, 5000);
  t.add_lease(kNow - kWeek - 1);
  t.add_completion(kNow - kWeek - 1);
  CHECK(outcomes(t.tick()) == "completion_events_deleted=1 lease_events_deleted=1");
  CHECK(t.left("lease") == 5000);
  CHECK(t.left("completion") == 5000);
}

TEST_CASE("outbox_retention takes an event of the future for as old as the youngest of the next three") {
  Stage t;
  const std::int64_t old = kNow - kWeek - 1;
  for (const std::int64_t third : {old, old + 1}) {
    t.db.execute("TRUNCATE ff_lease_event");
    const RowKey ahead = t.add_lease(kNow + 1);
    const RowKey far_ahead = t.add_lease(kNow + kWeek);
    for (const std::int64_t at : {old - 3, old, third}) t.add_lease(at);
    t.add_lease(old, 4);  // of another partition
    CHECK(act_on(t.db, reconciler(), {ahead, far_ahead}).size() == (third == old ? 2 : 0));
    CHECK(t.tick().processed == (third == old ? 4 : 3));
    CHECK(t.left("lease") == (third == old ? 0 : 3));
  }
}

TEST_CASE(
    "outbox_retention deletes more events of the future than a page has, and then those that date them") {
  Stage t;
  t.db.execute(
      "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " SELECT i::text, 'renewed', CASE WHEN i <= 5000 THEN $1 ELSE $2 END, 3 FROM generate_series(1, 5003) "
      "i",
      pg::Params::of(kNow + kWeek, kNow - kWeek - 1));
  CHECK(t.tick().processed == 5003);
  CHECK(t.left("lease") == 0);
}

TEST_CASE("outbox_retention keeps an event of the future that fewer than three follow") {
  const bool followed = GENERATE(false, true);
  Stage t;
  const RowKey ahead = t.add_completion(kNow + 1);
  for (int i = 0; i < 2; ++i) t.add_completion(kNow - 2 * kWeek);
  if (followed) t.add_completion(kNow + kHour);  // one of the future does not count
  CHECK(act_on(t.db, pair_of("completion"), {ahead}).empty());
  CHECK(t.tick().processed == 2);
  CHECK(t.left("completion") == (followed ? 2 : 1));
}

TEST_CASE("outbox_retention keeps an old event behind a younger one, because its own clock is behind") {
  const std::string outbox = GENERATE("lease", "completion");
  Stage t;
  const auto add = [&](std::int64_t at, int partition = 3) {
    return outbox == "lease" ? t.add_lease(at, partition) : t.add_completion(at, true, partition);
  };
  add(kNow - 2 * kWeek);
  add(kNow + kHour);  // what is dated in the future keeps none
  add(kNow - 2 * kWeek);
  add(kNow - kHour);
  const RowKey behind = add(0);
  add(kNow - kHour, 4);
  add(0, 5);
  CHECK(act_on(t.db, pair_of(outbox), {behind}).empty());
  CHECK(t.tick().processed == 3);
  CHECK(t.left(outbox) == 4);
  CHECK(t.tick({.settings = {{"retention", kHour - 1}}}).processed == 3);
  CHECK(t.left(outbox) == 1);
}

TEST_CASE("outbox_retention deletes only what is old beside a clock an hour ahead and one years behind") {
  Stage t;
  constexpr std::int64_t kMinute = 60'000;
  constexpr std::int64_t kYears = 3 * 365 * 24 * kHour;
  // Eight days, an event a minute, by three hosts.
  t.db.execute(
      "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " SELECT i::text, 'renewed', $1 - (11520 - i) * $2 + CASE i % 3 WHEN 0 THEN 0 WHEN 1 THEN $3 ELSE -$4 "
      "END, 3"
      "   FROM generate_series(1, 11520) i",
      pg::Params::of(kNow, kMinute, kHour, kYears));
  for (bool more = true; more;) more = t.tick().processed > 0;
  // The first that stays is that of the host ahead, an hour after its time.
  CHECK(number(t.db, "SELECT min(execution_id::bigint) FROM ff_lease_event") == 11520 - 7 * 24 * 60 - 59);
  CHECK(t.left("lease") == 7 * 24 * 60 + 60);
}

TEST_CASE(
    "outbox_retention keeps the event of an end that is dated ahead until the end is old, and no other") {
  Stage t;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::int64_t old = kNow - kWeek - kDay;
  t.add_completion(kNow, true, 3, kNow + 2 * kDay);  // its commit is younger than those behind it
  const RowKey ahead = t.add_completion(old, true, 3, kNow + kDay);
  const RowKey young = t.add_completion(old, true, 3, kNow - kWeek);
  t.add_completion(old, true, 3, old + kHour);  // as far as a clock may be ahead
  t.add_completion(old, true, 3, kNow - kWeek - 1);
  t.add_completion(old);
  const RowKey last = t.add_completion(std::numeric_limits<std::int64_t>::max(), true, 4);
  CHECK(act_on(t.db, pair_of("completion"), {ahead, young, last}).empty());
  CHECK(t.tick().processed == 3);
  CHECK(t.left("completion") == 4);
  CHECK(number(t.db, "SELECT count(*) FROM ff_completion_event WHERE event_id::text IN ($1, $2)",
               pg::Params::of(ahead.columns.at(0), young.columns.at(0))) == 2);
}

TEST_CASE(
    "outbox_retention deletes events of signals and operators, and those of the register by their own age") {
  Stage t;
  const std::int64_t old = kNow - kWeek - 1;
  const std::int64_t day_old = kNow - 24 * kHour;
  t.db.execute(
      "INSERT INTO ff_signal_event (execution_id, signal_id, delivered_at_ms, partition_key)"
      " VALUES ('old', 's', $1, 3), ('young', 's', $1 + 1, 3)",
      pg::Params::of(old));
  t.db.execute(
      "INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " VALUES ('old', 'replayed', $1, 3), ('young', 'replayed', $1 + 1, 3)",
      pg::Params::of(old));
  t.db.execute(
      "INSERT INTO ff_worker_registry_event VALUES (200, 'a', 'w', $1 - 1, 'heartbeat'), (200, 'a', 'w', $1, "
      "'heartbeat'),"
      " (200, 'a', 'w', $2, 'heartbeat'), (200, 'a', 'w-2', $1 - 1, 'registered'), (200, 'b', 'w', 0, "
      "'ttl_swept')",
      pg::Params::of(day_old, kNow + kWeek));
  CHECK(outcomes(t.tick({.partitions = {{3}}})) ==
        "operator_events_deleted=1 signal_events_deleted=1 worker_events_deleted=3");
  for (const char* outbox : {"signal", "operator"})
    CHECK(number(t.db, "SELECT count(*) FROM ff_" + std::string(outbox) +
                           "_event WHERE execution_id = 'young'") == 1);
  CHECK(number(t.db, "SELECT min(event_at_ms) FROM ff_worker_registry_event") == day_old);
  CHECK(t.left("worker_registry") == 2);
  CHECK(outcomes(t.tick({.settings = {{"worker_events_retention", kHour}}})) == "worker_events_deleted=1");
}

TEST_CASE("outbox_retention deletes thousands of heartbeats of one worker in a tick, and those of many") {
  Stage t;
  t.db.execute(
      "INSERT INTO ff_worker_registry_event"
      " SELECT 7, 'a', 'w', i, 'heartbeat' FROM generate_series(1, 1500) i"
      "  UNION ALL SELECT 7, 'a', 'w-' || i, 1, 'registered' FROM generate_series(1, 800) i",
      pg::Params{});
  CHECK(outcomes(t.tick()) == "worker_events_deleted=2300");
}

TEST_CASE("outbox_retention passes by more events than a page has, which somebody holds") {
  Stage t;
  t.add_many(kNow - 2 * kWeek, 70);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_lease_event ORDER BY event_id LIMIT 60 FOR UPDATE");
  CHECK(outcomes(t.tick({.batch_size = 10})) == "completion_events_deleted=70 lease_events_deleted=10");
  CHECK(t.left("lease") == 60);
  holding.rollback();
  CHECK(t.tick({.batch_size = 10}).processed == 60);
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
  CHECK(t.left("lease") == 15);
  CHECK(number(t.db, "SELECT min(occurred_at_ms) FROM ff_lease_event") == kNow - 2 * kWeek + 11);
  CHECK(t.tick({.batch_size = 10}).processed == 40);
}

TEST_CASE("outbox_retention deletes what is old behind more events than a page has that are not dispatched") {
  Stage t;
  for (int i = 0; i < 12; ++i) t.add_completion(kNow - 2 * kWeek, false);
  t.add_completion(kNow - 2 * kWeek);
  CHECK(outcomes(t.tick({.batch_size = 2})) == "completion_events_deleted=1");
  CHECK(t.left("completion") == 12);
}

TEST_CASE("outbox_retention looks at the configured partitions only") {
  Stage t;
  const RowKey lease = t.add_lease(kNow - 2 * kWeek);
  const RowKey completion = t.add_completion(kNow - 2 * kWeek);
  CHECK(t.tick({.partitions = {{4}}}).scanned == 0);
  const auto before = snapshot(t.db);
  CHECK(act_on(t.db, reconciler(), {{{4}, lease.columns}}).empty());
  CHECK(act_on(t.db, pair_of("completion"), {{{4}, completion.columns}}).empty());
  CHECK(diff(before, snapshot(t.db)).empty());
  CHECK(act_on(t.db, reconciler(), {lease}) == std::vector<std::string>{"lease_events_deleted"});
  CHECK(t.left("completion") == 1);
  CHECK(act_on(t.db, pair_of("completion"), {completion}) ==
        std::vector<std::string>{"completion_events_deleted"});
}

TEST_CASE("outbox_retention never deletes a completion event that was not dispatched") {
  Stage t;
  const RowKey waiting = t.add_completion(kNow - 2 * kWeek, false);
  CHECK(act_on(t.db, pair_of("completion"), {waiting}).empty());
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
