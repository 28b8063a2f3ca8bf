// Rows that are taken only once they have stood still for a while: what the engine remembers of them from scan to scan.
#include <catch2/catch.hpp>
#include <utility>

#include "reconcile/groups.hpp"
#include "reconcile/still_rows.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using reconcile::Candidate;
using reconcile::Reconciler;
using reconcile::RowKey;
using reconcile::StillRows;
using reconcile::TickReport;

namespace {

/// Takes the deadline of executions away when it has come, once their words have been the same for a minute.
const Reconciler& undater() {
  static const Reconciler made{.name = "undater",
                               .summary = "Takes deadlines away.",
                               .outcomes = {"undated"},
                               .key = {{"execution_id", "uuid"}, {"words", "text"}},
                               .execution_column = "execution_id",
                               .scan = R"sql(
      SELECT c.partition_key, c.execution_id, c.raw_fields->>'words' AS words, c.deadline_at_ms AS due_at_ms
        FROM {schema}.ff_exec_core c
       WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL AND {filter:c})sql",
                               .act = R"sql(
      undated AS (
        UPDATE {schema}.ff_exec_core c
           SET deadline_at_ms = NULL
          FROM clock, key
         WHERE {in_partitions:c} AND c.partition_key = key.partition_key
           AND c.execution_id = key.execution_id AND c.deadline_at_ms <= clock.due_ms
           AND c.raw_fields->>'words' = key.words AND {filter:c}
        RETURNING c.partition_key, c.execution_id, key.words, 1700000000000 AS due_at_ms),
      moved AS (SELECT *, 'undated' AS outcome FROM undated))sql",
                               .interval = Milliseconds{1000},
                               .still_for = 60s,
                               .groups_a_scan = 1};
  return made;
}

/// The same by walking through the runnable, one partition that has such a row after the other.
const Reconciler& walker() {
  static const Reconciler made = [] {
    Reconciler pair = undater();
    pair.groups_a_scan = 0;
    pair.walk = {{"ff_exec_core", "execution_id", 1, "'runnable'"}};
    return pair;
  }();
  return made;
}

/// A database whose clock goes on when it is told to, and an engine that remembers.
struct Stage : StillStage {
  explicit Stage(Partitions partitions = sixteen_partitions(), std::optional<Milliseconds> still_for = {},
                 const Reconciler& pair = undater())
      : StillStage(pair),
        engine(database, pair, {.partitions = std::move(partitions), .still_for = still_for}) {}

  Uuid add(const std::string& words, PartitionKey partition = {3}) {
    return insert_core(db, {.partition = partition,
                            .state = runnable(),
                            .deadline_at_ms = kNow - 5'000,
                            .raw_fields = {{"words", words}}});
  }
  void say(const Uuid& execution, const std::string& words) {
    db.execute(
        "UPDATE ff_exec_core SET raw_fields = jsonb_build_object('words', $2::text) WHERE execution_id = $1",
        pg::Params::of(execution, words));
  }
  bool is_taken(const Uuid& execution) { return core(db, execution)["deadline_at_ms"].is_null(); }

  /// Both clocks, the database's and ours, to so long after the beginning.
  void go_to(Milliseconds since) { advance(engine, since - std::exchange(since_, since)); }

  EngineFixture engine;

 private:
  Milliseconds since_{0};
};

Candidate seen(const std::string& words, Milliseconds at, PartitionKey partition = {3}) {
  return {RowKey{partition, {words}}, unix_millis(0), true, unix_millis(1'700'000'000'000) + at};
}

}  // namespace

TEST_CASE(
    "a row that has to stand still is watched first, and taken by a scan that sees it unchanged long after") {
  Stage t;
  const Uuid row = t.add("a");
  const TickReport first = t.engine->tick();
  CHECK(first.watched == 1);
  CHECK(first.scanned == 0);
  CHECK(first.oldest_due_in.empty());
  CHECK_FALSE(first.oldest_due);
  t.go_to(59s);
  CHECK(t.engine->tick().watched == 1);
  CHECK_FALSE(t.is_taken(row));

  t.go_to(63s);
  const TickReport taken = t.engine->tick();
  CHECK(taken.watched == 0);
  CHECK(taken.scanned == 1);
  CHECK(outcomes(taken) == "undated=1");
  CHECK(t.is_taken(row));
  // It is late only since it could be taken.
  CHECK(taken.oldest_due == unix_millis(kNow + 60'000));
  CHECK(taken.lateness.worst() >= 2'900ms);
  CHECK(taken.lateness.worst() < 60s);
  CHECK(t.engine->tick().watched == 0);
}

TEST_CASE("a row that changes meanwhile has to stand still anew") {
  Stage t;
  const Uuid row = t.add("a");
  CHECK(t.engine->tick().watched == 1);
  t.say(row, "b");
  t.go_to(50s);
  CHECK(t.engine->tick().watched == 1);
  t.go_to(100s);
  CHECK(t.engine->tick().watched == 1);
  CHECK_FALSE(t.is_taken(row));
  t.go_to(110s);
  CHECK(outcomes(t.engine->tick()) == "undated=1");
}

TEST_CASE("a row that changes after the scan that passed it is left where it is") {
  Stage t(sixteen_partitions(), 0ms);
  const Uuid row = t.add("a");
  const TickReport report = t.engine->tick(stepping_in([&] { t.say(row, "b"); }));
  CHECK(report.scanned == 1);
  CHECK(report.processed == 0);
  CHECK(report.skipped == std::map<reconcile::Skip, std::int64_t>{{reconcile::Skip::no_longer_due, 1}});
  CHECK_FALSE(t.is_taken(row));
}

TEST_CASE("more rows than a scan shows at once are all watched, and all taken in the end") {
  Stage t;
  for (int i = 0; i < 9; ++i) t.add("a");
  CHECK(t.engine->tick().watched == 9);
  t.go_to(60s);
  CHECK(t.engine->tick().processed == 9);
}

TEST_CASE("a single row by hand has to have stood still, too") {
  Stage t;
  const Uuid row = t.add("a");
  const Uuid other = t.add("a");
  CHECK(t.engine->tick_one({{3}, row}).watched == 1);
  t.go_to(60s);
  CHECK(t.engine->tick_one({{3}, row}).processed == 1);
  CHECK(t.engine->tick_one({{3}, other}).watched == 1);
}

TEST_CASE("where a scan reads one group of partitions, the next one reads the group behind it") {
  Stage t(partition_range({0}, {31}), 0ms);
  const auto groups = reconcile::Groups(partition_range({0}, {31})).all();
  const Uuid first = t.add("a", groups.front().front());
  const Uuid second = t.add("a", groups.back().front());
  const auto one_group = t.engine->tick({.in_slices = true});
  CHECK(one_group.processed == 1);
  CHECK_FALSE(one_group.all_known_until);
  CHECK(t.is_taken(first));
  CHECK(t.engine->tick({.in_slices = true}).processed == 1);
  CHECK(t.is_taken(second));
  const Uuid third = t.add("a", groups.front().back());
  CHECK(t.engine->tick({.in_slices = true}).processed == 1);
  CHECK(t.is_taken(third));
  // By hand, all of them.
  t.add("a", groups.front().back());
  t.add("a", groups.back().back());
  const auto all_groups = t.engine->tick();
  CHECK(all_groups.processed == 2);
  CHECK(all_groups.all_known_until);
}

TEST_CASE(
    "a walk remembers what has to stand still until it comes by again, and no longer than it is there") {
  Stage t(sixteen_partitions(), {}, walker());
  const auto walk_round = [&] {
    TickReport all;
    for (int scan = 0; scan < 3; ++scan) {
      const TickReport report = t.engine->tick({.in_slices = true});
      all.watched += report.watched;
      all.processed += report.processed;
    }
    return std::pair(all.watched, all.processed);
  };
  using Both = std::pair<std::int64_t, std::int64_t>;
  t.add("a", {1});
  const Uuid other = t.add("a", {2});
  CHECK(walk_round() == Both{2, 0});
  t.say(other, "b");
  t.go_to(70s);
  CHECK(walk_round() == Both{1, 1});
  // As it was at first, which the walk has not seen meanwhile.
  t.say(other, "a");
  CHECK(walk_round() == Both{1, 0});
  t.go_to(140s);
  CHECK(walk_round() == Both{0, 1});
}

TEST_CASE(
    "how long a row has stood still is told by the database's clock, and begins anew once a scan has not "
    "shown the row") {
  ManualClock clock;
  StillRows still;
  const auto shown = [&](const std::string& words, Milliseconds at) {
    return still.has_stood(seen(words, at), 60s);
  };
  still.begin_scan(clock.now());
  CHECK_FALSE(shown("a", 0s));
  CHECK_FALSE(shown("b", 0s));
  clock.advance(60s);
  still.end_scan({{3}});
  still.begin_scan(clock.now());
  CHECK_FALSE(shown("a", 59'999ms));
  CHECK(shown("a", 60s));
  CHECK(still.since({{3}, {"a"}}) == unix_millis(1'700'000'000'000));
  still.end_scan({{2}});
  CHECK(still.size() == 2);  // that scan was not of its partition
  still.begin_scan(clock.now());
  CHECK(shown("a", 61s));
  still.end_scan({{3}});
  CHECK(still.size() == 1);
  still.begin_scan(clock.now());
  CHECK(shown("a", 62s));
  CHECK_FALSE(shown("b", 62s));
  // A clock that was set back is a clock by which nothing is known.
  CHECK_FALSE(shown("a", -60s));
  CHECK_FALSE(shown("a", -1ms));
  CHECK(shown("a", 0s));
}

TEST_CASE("a row has not stood still for longer by a clock that was set forward") {
  Stage t;
  const Uuid row = t.add("a");
  CHECK(t.engine->tick().watched == 1);
  t.go_to(10s);
  t.set_clock(61min);
  CHECK(t.engine->tick().watched == 1);
  CHECK_FALSE(t.is_taken(row));
  t.engine.clock().advance(50s);
  CHECK(outcomes(t.engine->tick()) == "undated=1");
}

TEST_CASE(
    "what no scan has shown for a day is forgotten, and no more is remembered than memory is meant for") {
  ManualClock clock;
  StillRows still;
  still.begin_scan(clock.now());
  for (std::size_t i = 0; i < StillRows::kMost; ++i) still.has_stood(seen(std::to_string(i), 0s), 60s);
  CHECK(still.size() == StillRows::kMost);
  CHECK_FALSE(still.has_stood(seen("one more", 0s), 0s));
  clock.advance(1min);
  still.begin_scan(clock.now());
  CHECK(still.has_stood(seen("7", 60s), 60s));
  CHECK(still.size() == StillRows::kMost);
  clock.advance(23h + 59min);
  still.begin_scan(clock.now());
  CHECK(still.has_stood(seen("7", 60s), 60s));
  clock.advance(2min);
  still.begin_scan(clock.now());
  CHECK(still.size() == 1);
  CHECK(still.has_stood(seen("one more", 0s), 0s));
}
