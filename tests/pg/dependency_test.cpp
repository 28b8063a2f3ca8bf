// dependency: which events it takes, and what one event does to one fan-in.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/flow.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

const Json kAllOf = {{"kind", "all_of"}};

Json skipped_event(const FanIn& fan_in, const Json& at) {
  return {{"partition_key", 3},
          {"execution_id", to_string(fan_in.downstream)},
          {"flow_id", to_string(fan_in.flow)},
          {"outcome", "skipped"},
          {"namespace", nullptr},
          {"instance_tag", nullptr},
          {"occurred_at_ms", at},
          {"dispatched_at_ms", nullptr}};
}

const Json kEligible = {{"eligibility_state", "eligible_now"}, {"public_state", "waiting"}};
const Json kSkipped = {{"lifecycle_phase", "terminal"},
                       {"ownership_state", "unowned"},
                       {"eligibility_state", "not_applicable"},
                       {"public_state", "skipped"},
                       {"attempt_state", "attempt_terminal"}};

/// Rows that no event in these tests concerns.
void insert_bystanders(pg::Connection& db) {
  const FanIn other = insert_fan_in(db, 2, {.policy = kAllOf});
  // The same upstream in another flow, and an edge that only begins where ours ends.
  insert_edge(db, {3}, new_uuid(), other.upstreams[0], other.downstream);
  insert_completion(db, {.execution = other.upstreams[0], .flow = other.flow, .dispatched_at_ms = 77});
  insert_completion(db, {.execution = other.upstreams[1], .flow = other.flow, .committed_ago_ms = -60'000});
}

}  // namespace

TEST_CASE("dependency makes a blocked downstream eligible by the last success of all it waits for") {
  const Database database;
  auto db = database.connect();
  insert_bystanders(db);
  const FanIn f = insert_fan_in(db, 3, {.policy = kAllOf, .success = 2},
                                {.state = blocked(),
                                 .deadline_at_ms = 9'900'000'000'000,
                                 .raw_fields = changed(origin("n", "i"), {{"color", "red"}})});
  const auto event = end_upstream(db, f, 2);
  const auto before = snapshot(db);
  const Json core_before = core(db, f.downstream);
  const Json group_before = edge_group(db, f.downstream);

  EngineFixture engine(database, "dependency");
  const auto from = now_ms(db);
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "advanced=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
  CHECK(core(db, f.downstream) ==
        changed(changed(core_before, kEligible),
                {{"lifecycle_phase", "runnable"},
                 {"raw_fields", changed(core_before["raw_fields"], {{"total_attempt_count", "0"}})}}));
  CHECK(edge_group(db, f.downstream) == changed(group_before, {{"success_count", 3}, {"running_count", 0}}));
  CHECK(dispatched_at(db, event) >= from);
  CHECK(dispatched_at(db, event) <= now_ms(db));
  CHECK(diff(before, snapshot(db)).size() == 6);  // core, group and event, each gone and come

  const auto after = snapshot(db);
  CHECK(engine->tick().scanned == 0);
  CHECK(diff(after, snapshot(db)).empty());
}

TEST_CASE("dependency skips a downstream whose fan-in has become impossible and carries the cascade on") {
  const Database database;
  auto db = database.connect();
  insert_bystanders(db);
  const FanIn f = insert_fan_in(db, 3, {.policy = kAllOf, .success = 1},
                                {.state = blocked(), .raw_fields = origin("n", "i")});
  // What waits for the downstream in turn.
  const FanIn next = insert_fan_in(db, 0, {.policy = kAllOf, .running = 1});
  db.execute("UPDATE ff_edge_group SET flow_id = $1 WHERE flow_id = $2", pg::Params::of(f.flow, next.flow));
  insert_edge(db, {3}, f.flow, f.downstream, next.downstream);
  const auto event = end_upstream(db, f, 0, "failed");
  const auto before = snapshot(db);
  const Json core_before = core(db, f.downstream);
  const Json group_before = edge_group(db, f.downstream);

  EngineFixture engine(database, "dependency", {.settings = {{"stale_threshold", 0}}});
  const auto from = now_ms(db);
  CHECK(outcomes(engine->tick()) == "advanced=1");
  const Json at = core(db, f.downstream)["terminal_at_ms"];
  CHECK(at >= from);
  CHECK(at <= now_ms(db));
  CHECK(core(db, f.downstream) == changed(changed(core_before, kSkipped), {{"terminal_at_ms", at}}));
  CHECK(edge_group(db, f.downstream) == changed(group_before, {{"fail_count", 1}, {"running_count", 1}}));
  CHECK(dispatched_at(db, event) == at);
  CHECK(completion_events(db).back() ==
        changed(skipped_event(f, at), {{"namespace", "n"}, {"instance_tag", "i"}}));
  CHECK(diff(before, snapshot(db)).size() == 7);
  CHECK(lease_events(db).empty());

  // The next link, by the event that the first has left.
  db.execute("UPDATE ff_completion_event SET committed_at_ms = 5 WHERE outcome = 'skipped'");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, next.downstream) == "0/0/1/0");
  CHECK(core(db, next.downstream)["public_state"] == "skipped");
}

TEST_CASE("dependency only counts while a fan-in is neither satisfied nor impossible") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 3, {.policy = kAllOf});
  end_upstream(db, f, 1);
  const auto before = snapshot(db);
  EngineFixture engine(database, "dependency");
  CHECK(engine->tick().processed == 1);
  CHECK(counts(db, f.downstream) == "1/0/0/2");
  CHECK(diff(before, snapshot(db)).size() == 4);
}
