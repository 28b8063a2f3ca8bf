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
        changed(changed(core_before, kEligible), {{"lifecycle_phase", "runnable"}}));
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

TEST_CASE("dependency does not make a downstream eligible that is past waiting") {
  const State state = GENERATE(active(), suspended(), terminal(), terminal("skipped"),
                               State{"cancelled", "unowned", "not_applicable", "cancelled", "cancelled"});
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state});
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "1/0/0/0");
  CHECK(core(db, f.downstream) == core_before);
}

TEST_CASE("dependency makes a downstream eligible from each phase in which it waits") {
  State waiting = runnable();
  waiting.eligibility_state = "blocked_by_dependencies";
  const State state = GENERATE_COPY(submitted(), runnable(), waiting, delayed(), blocked());
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f =
      insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state, .deadline_at_ms = 9'900'000'000'000});
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  Json expected = changed(core_before, kEligible);
  if (state.lifecycle_phase == "blocked") expected["lifecycle_phase"] = "runnable";
  // The end of a delay must not be left over as a deadline of the whole execution.
  if (state.eligibility_state == "not_eligible_until_time") expected["deadline_at_ms"] = nullptr;
  CHECK(core(db, f.downstream) == expected);
}

TEST_CASE("dependency skips a downstream from each phase but the last and lets go of all it held") {
  const State state = GENERATE(submitted(), runnable(), delayed(), blocked(), active(), suspended());
  CAPTURE(state.lifecycle_phase, state.eligibility_state);
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state, .attempt_index = 1});
  const bool leased = state.lifecycle_phase == "active";
  for (const int index : {0, 1})
    insert_attempt(
        db, {.partition = {3},
             .execution = f.downstream,
             .attempt_index = index,
             .lease_epoch = 4,
             .lease_expires_at_ms =
                 leased && index == 1 ? std::optional<std::int64_t>(now_ms(db) + 60'000) : std::nullopt});
  if (state.lifecycle_phase == "suspended") {
    insert_suspension(db, {.partition = {3}, .execution = f.downstream});
    insert_waitpoint(db, {.partition = {3}, .execution = f.downstream});
  }
  const Uuid other = insert_core(db, {.partition = {3}, .state = suspended()});
  insert_suspension(db, {.partition = {3}, .execution = other});
  insert_waitpoint(db, {.partition = {3}, .execution = other});
  const Json core_before = core(db, f.downstream);
  const std::vector<Json> attempts = {attempt(db, f.downstream, 0), attempt(db, f.downstream, 1)};
  end_upstream(db, f, 0, "expired");
  const auto leases_before = lease_events(db).size();

  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  const Json at = core(db, f.downstream)["terminal_at_ms"];
  CHECK(core(db, f.downstream) == changed(changed(core_before, kSkipped), {{"terminal_at_ms", at}}));
  CHECK(attempt(db, f.downstream, 0) == attempts[0]);
  CHECK(attempt(db, f.downstream, 1) == (leased ? changed(attempts[1], {{"outcome", "interrupted"},
                                                                        {"lease_expires_at_ms", nullptr},
                                                                        {"lease_epoch", 5},
                                                                        {"terminal_at_ms", at}})
                                                : attempts[1]));
  CHECK(lease_events(db).size() == leases_before + (leased ? 1 : 0));
  if (leased) CHECK(lease_events(db).back()["event_type"] == "revoked");
  CHECK(completion_events(db).back() == skipped_event(f, at));
  for (const char* table : {"ff_suspension_current", "ff_waitpoint_pending"}) {
    const std::string of = "SELECT count(*) FROM " + std::string(table) + " WHERE execution_id = $1";
    CHECK(number(db, of, pg::Params::of(f.downstream)) == 0);
    CHECK(number(db, of, pg::Params::of(other)) == 1);
  }
}

TEST_CASE("dependency leaves a downstream as it is that has ended before its fan-in became impossible") {
  const State state = GENERATE(terminal(), terminal("skipped"), terminal("expired"),
                               State{"cancelled", "unowned", "not_applicable", "cancelled", "cancelled"});
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = state, .terminal_at_ms = 5});
  const Json core_before = core(db, f.downstream);
  end_upstream(db, f, 0, "failed");
  const auto events_before = completion_events(db).size();
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "0/1/0/0");
  CHECK(core(db, f.downstream) == core_before);
  CHECK(completion_events(db).size() == events_before);
}
