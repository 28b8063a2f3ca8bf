// dependency: which events are taken at all, and events that lead nowhere.
#include <catch2/catch.hpp>
#include <limits>

#include "support/engine.hpp"
#include "support/flow.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

const Json kAllOf = {{"kind", "all_of"}};
const Json kAnyOf = {{"kind", "any_of"}, {"on_satisfied", "let_run"}};

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("dependency");
}

/// One tick that takes one event and changes nothing but that event.
void check_only_dispatched(const Database& database, pg::Connection& db, std::int64_t event) {
  const auto before = snapshot(db);
  EngineFixture engine(database, "dependency");
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "advanced=1");
  CHECK(report.error_count() == 0);
  CHECK_FALSE(dispatched_at(db, event).is_null());
  CHECK(diff(before, snapshot(db)).size() == 2);
}

}  // namespace

TEST_CASE("an event that cannot be passed on is told of with its execution") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(
      db, 1, {.policy = kAllOf, .success = std::numeric_limits<std::int32_t>::max(), .running = 1});
  end_upstream(db, f, 0);
  const ExecutionId upstream{f.partition, f.upstreams[0]};
  EngineFixture engine(database, "dependency");
  const TickReport would = engine->tick({.dry_run = true});
  REQUIRE(would.faults.size() == 1);
  CHECK(would.faults[0].execution == upstream);
  const TickReport report = engine->tick();
  REQUIRE(report.quarantine_rows.size() == 1);
  CHECK(report.quarantine_rows[0].execution == upstream);
}

TEST_CASE("dependency just dispatches an event outside any flow") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf});
  check_only_dispatched(database, db, insert_completion(db, {.execution = f.upstreams[0]}));
}

TEST_CASE("dependency just dispatches an event of an execution that nobody waits for") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf});
  SECTION("the last of its flow") {
    check_only_dispatched(database, db, insert_completion(db, {.execution = f.downstream, .flow = f.flow}));
  }
  SECTION("the edge belongs to another flow") {
    const Uuid flow = new_uuid();
    insert_group(db, {.flow = flow, .downstream = f.downstream, .policy = kAllOf, .running = 1});
    check_only_dispatched(database, db, insert_completion(db, {.execution = f.upstreams[0], .flow = flow}));
  }
  SECTION("the edge belongs to another partition") {
    check_only_dispatched(
        database, db, insert_completion(db, {.partition = {4}, .execution = f.upstreams[0], .flow = f.flow}));
  }
  SECTION("nothing else is known of it") {
    check_only_dispatched(database, db, insert_completion(db, {.execution = new_uuid(), .flow = f.flow}));
  }
  SECTION("its edge leads to an execution without a group") {
    db.execute("DELETE FROM ff_edge_group");
    check_only_dispatched(database, db, insert_completion(db, {.execution = f.upstreams[0], .flow = f.flow}));
  }
}

TEST_CASE("dependency counts for a downstream whose own row is missing") {
  const auto outcome = GENERATE("success", "failed");
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAnyOf, .fail = 1});
  db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(f.downstream));
  end_upstream(db, f, 0, outcome);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == (outcome == std::string("success") ? "1/1/0/0" : "0/2/0/0"));
  CHECK(completion_events(db).size() == 1);
}

TEST_CASE("dependency applies one event to every fan-in that waits for it") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf});
  std::vector<Uuid> downstreams{f.downstream};
  for (int i = 0; i < 9; ++i) {
    const Uuid downstream = insert_core(db, {.partition = {3}, .flow = f.flow, .state = blocked()});
    insert_group(db, {.flow = f.flow, .downstream = downstream, .policy = kAllOf, .running = 1 + i % 2});
    insert_edge(db, {3}, f.flow, f.upstreams[0], downstream);
    downstreams.push_back(downstream);
  }
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(number(db, "SELECT count(*) FROM ff_edge_group WHERE success_count = 1 AND running_count < 2") == 10);
  CHECK(number(db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'runnable'") == 6);
}

TEST_CASE("dependency ends a downstream that two fan-ins judge differently at once") {
  // No flow is planned so; a downstream that is skipped must not be woken again all the same.
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf});
  const Uuid flow = new_uuid();
  const Uuid upstream = insert_core(db, {.partition = {3}, .flow = flow});
  insert_edge(db, {3}, flow, upstream, f.downstream);
  insert_group(db, {.flow = flow, .downstream = f.downstream, .policy = kAllOf, .running = 1});
  end_upstream(db, f, 0);
  insert_completion(db, {.execution = upstream, .flow = flow, .outcome = "failed"});
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=2");
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "terminal");
  CHECK(core(db, f.downstream)["public_state"] == "skipped");
  CHECK(completion_events(db).size() == 3);
}

TEST_CASE("dependency leaves an event to others for as long as its stale_threshold") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 4, {.policy = kAllOf});
  const auto add = [&](std::size_t i, std::int64_t committed_ago_ms) {
    return insert_completion(
        db, {.execution = f.upstreams[i], .flow = f.flow, .committed_ago_ms = committed_ago_ms});
  };
  const auto beyond = add(0, 61'000);
  const auto within = add(1, 30'000);
  const auto future = add(2, -60'000);
  EngineFixture engine(database, "dependency", {.settings = {{"stale_threshold", 60'000}}});
  CHECK(engine->tick().scanned == 1);
  CHECK_FALSE(dispatched_at(db, beyond).is_null());
  CHECK(dispatched_at(db, within).is_null());
  // Taken strictly after the threshold, and known beforehand.
  const auto report = engine->tick({.scan_ahead = std::chrono::minutes{1}});
  const auto committed = number(db, "SELECT committed_at_ms FROM ff_completion_event WHERE event_id = $1",
                                pg::Params::of(within));
  CHECK(report.next_due == unix_millis(committed + 60'001));
  CHECK(settings_of("dependency").at("stale_threshold") == 1000);

  EngineFixture at_once(database, "dependency", {.settings = {{"stale_threshold", 0}}});
  CHECK(at_once->tick().processed == 1);
  CHECK(dispatched_at(db, future).is_null());
}

TEST_CASE("dependency leaves an event alone that another dispatches between looking and acting") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAllOf});
  const auto taken = end_upstream(db, f, 0);
  end_upstream(db, f, 1);
  const auto step_in = [&] {
    db.execute("UPDATE ff_completion_event SET dispatched_at_ms = 77 WHERE event_id = $1",
               pg::Params::of(taken));
  };
  EngineFixture engine(database, "dependency", {.batch_size = 1});
  const TickReport report = engine->tick(stepping_in(step_in));
  CHECK(report.processed == 1);
  CHECK(dispatched_at(db, taken) == 77);
  CHECK(counts(db, f.downstream) == "1/0/0/1");
  // Named directly it is answered with a word of its own.
  CHECK(act_on(db, reconciler(), {{{3}, {std::to_string(taken)}}}) == std::vector<std::string>{"noop"});
  CHECK(counts(db, f.downstream) == "1/0/0/1");
}

TEST_CASE("dependency does not take an event directly whose time has not come") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf});
  const auto event =
      insert_completion(db, {.execution = f.upstreams[0], .flow = f.flow, .committed_ago_ms = -60'000});
  CHECK(act_on(db, reconciler(), {{{3}, {std::to_string(event)}}}).empty());
  CHECK(counts(db, f.downstream) == "0/0/0/1");
  EngineFixture engine(database, "dependency", {.settings = {{"stale_threshold", 60'000}}});
  CHECK(engine->tick_one({{3}, f.upstreams[0]}).skipped ==
        std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
}
