// dependency: whom it lists for cancelling once any_of or a quorum is satisfied.
#include <algorithm>
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const Json kAnyOf = {{"kind", "any_of"}};

std::vector<std::string> members(pg::Connection& db, const FanIn& f) {
  return edge_group(db, f.downstream)["cancel_siblings_pending_members"].get<std::vector<std::string>>();
}

std::vector<std::string> texts(const FanIn& f, const std::vector<std::size_t>& numbers) {
  std::vector<std::string> texts;
  for (const std::size_t number : numbers) texts.push_back(to_string(f.upstreams.at(number)));
  std::ranges::sort(texts);
  return texts;
}

std::int64_t pending(pg::Connection& db) {
  return number(db, "SELECT count(*) FROM ff_pending_cancel_groups");
}

void set_state(pg::Connection& db, const Uuid& execution, const State& state) {
  db.execute("UPDATE ff_exec_core SET lifecycle_phase = $2, public_state = $3 WHERE execution_id = $1",
             pg::Params::of(execution, state.lifecycle_phase, state.public_state));
}

}  // namespace

TEST_CASE(
    "dependency lists every upstream still at work when any_of is satisfied, and no other row changes") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 9, {.policy = kAnyOf});
  set_state(db, f.upstreams[1], blocked());
  set_state(db, f.upstreams[2], suspended());
  set_state(db, f.upstreams[3], delayed());
  set_state(db, f.upstreams[4], terminal());
  set_state(db, f.upstreams[5], terminal("skipped"));
  set_state(db, f.upstreams[6], {"cancelled", "unowned", "not_applicable", "cancelled", "cancelled"});
  set_state(db, f.upstreams[7], {"blocked", "unowned", "not_applicable", "skipped", "pending"});
  db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(f.upstreams[8]));
  insert_edge(db, f.partition, f.flow, f.upstreams[1], f.downstream);  // listed once all the same
  // An upstream of somebody else.
  insert_edge(db, f.partition, f.flow, insert_core(db, {.partition = {3}, .flow = f.flow}), new_uuid());
  // The one that completed is still at work by its row, as it may be for a moment: it is not listed.
  const auto event = insert_completion(db, {.execution = f.upstreams[0], .flow = f.flow});
  const auto before = snapshot(db);
  const Json group_before = edge_group(db, f.downstream);

  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(edge_group(db, f.downstream) ==
        changed(group_before, {{"success_count", 1},
                               {"running_count", 8},
                               {"cancel_siblings_pending_flag", true},
                               {"cancel_siblings_pending_members", texts(f, {1, 2, 3})}}));
  CHECK(row(db, "SELECT * FROM ff_pending_cancel_groups") ==
        Json{{"partition_key", 3},
             {"flow_id", to_string(f.flow)},
             {"downstream_eid", to_string(f.downstream)},
             {"enqueued_at_ms", dispatched_at(db, event)}});
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "runnable");
  CHECK(diff(before, snapshot(db)).size() == 7);
}

TEST_CASE("dependency lists the rest of a quorum by the event that satisfies it, once") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 5, {.policy = {{"kind", "quorum"}, {"k", 2}}});
  EngineFixture engine(database, "dependency");
  end_upstream(db, f, 0);
  engine->tick();
  CHECK(members(db, f).empty());
  CHECK(pending(db) == 0);
  end_upstream(db, f, 1);
  engine->tick();
  CHECK(members(db, f) == texts(f, {2, 3, 4}));
  CHECK(pending(db) == 1);
  // The dispatcher has cleared it; whatever else ends raises nothing anew.
  db.execute_script(
      "DELETE FROM ff_pending_cancel_groups; UPDATE ff_edge_group SET cancel_siblings_pending_flag = false,"
      " cancel_siblings_pending_members = '{}'");
  end_upstream(db, f, 2);
  engine->tick();
  end_upstream(db, f, 3, "cancelled");
  engine->tick();
  CHECK(counts(db, f.downstream) == "3/1/0/1");
  CHECK(members(db, f).empty());
  CHECK(edge_group(db, f.downstream)["cancel_siblings_pending_flag"] == false);
  CHECK(pending(db) == 0);
}

TEST_CASE("dependency keeps a list that stands while later events only count") {
  const Database database;
  auto db = database.connect();
  const FanIn f =
      insert_fan_in(db, 3, {.policy = kAnyOf, .success = 1, .running = 2, .flag = true, .members = {"m"}});
  end_upstream(db, f, 1, "failed");
  EngineFixture engine(database, "dependency");
  CHECK(engine->tick().processed == 1);
  CHECK(members(db, f) == std::vector<std::string>{"m"});
  CHECK(edge_group(db, f.downstream)["cancel_siblings_pending_flag"] == true);
}

TEST_CASE("dependency cancels the rest unless the policy says to let it run") {
  struct Case {
    const char* policy;
    bool cancels;
  };
  const auto c = GENERATE(values<Case>({
      {R"({"kind": "any_of"})", true},
      {R"({"kind": "quorum", "k": 1})", true},
      {R"({"kind": "any_of", "on_satisfied": "cancel_remaining"})", true},
      {R"({"kind": "any_of", "on_satisfied": "let_run"})", false},
      {R"({"kind": "quorum", "on_satisfied": "let_run"})", false},
      {R"({"kind": "any_of", "on_satisfied": "LET_RUN"})", true},
      {R"({"kind": "any_of", "on_satisfied": ""})", true},
      {R"({"kind": "any_of", "on_satisfied": null})", true},
      {R"({"kind": "any_of", "on_satisfied": 5})", true},
      {R"({"kind": "any_of", "on_satisfied": ["let_run"]})", true},
  }));
  CAPTURE(c.policy);
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_pending_cancel_groups");
  const FanIn f = insert_fan_in(db, 2, {.policy = Json::parse(c.policy)});
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  CHECK(engine->tick().processed == 1);
  CHECK(core(db, f.downstream)["eligibility_state"] == "eligible_now");
  CHECK(edge_group(db, f.downstream)["cancel_siblings_pending_flag"] == c.cancels);
  CHECK(members(db, f) == (c.cancels ? texts(f, {1}) : texts(f, {})));
  CHECK(pending(db) == (c.cancels ? 1 : 0));
}

TEST_CASE("dependency cancels nobody for all_of, for an impossible fan-in, or where nobody is left") {
  const Database database;
  auto db = database.connect();
  const FanIn all = insert_fan_in(
      db, 2, {.policy = {{"kind", "all_of"}, {"on_satisfied", "cancel_remaining"}}, .running = 1});
  end_upstream(db, all, 0);  // satisfied by its counts, though an upstream is at work
  const FanIn impossible = insert_fan_in(db, 3, {.policy = {{"kind", "quorum"}, {"k", 3}}});
  end_upstream(db, impossible, 0, "failed");
  const FanIn alone = insert_fan_in(db, 1, {.policy = kAnyOf});
  end_upstream(db, alone, 0);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=3");
  CHECK(pending(db) == 0);
  CHECK(number(db, "SELECT count(*) FROM ff_edge_group WHERE cancel_siblings_pending_flag") == 0);
  CHECK(core(db, all.downstream)["eligibility_state"] == "eligible_now");
  CHECK(core(db, impossible.downstream)["public_state"] == "skipped");
  CHECK(core(db, alone.downstream)["eligibility_state"] == "eligible_now");
}

TEST_CASE("dependency leaves a pending row of the same group as it stands") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAnyOf});
  insert_pending(db, f.partition, f.flow, f.downstream, 5);
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  const auto report = engine->tick();
  CHECK(outcomes(report) == "advanced=1");
  CHECK(report.error_count() == 0);
  CHECK(row(db, "SELECT * FROM ff_pending_cancel_groups")["enqueued_at_ms"] == 5);
  CHECK(members(db, f) == texts(f, {1}));
}

TEST_CASE("dependency lists none of several that complete in the same batch") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 4, {.policy = kAnyOf});
  // By their rows all are at work still.
  for (const std::size_t i : {0U, 1U, 2U})
    insert_completion(db, {.execution = f.upstreams[i], .flow = f.flow});
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=3");
  CHECK(counts(db, f.downstream) == "3/0/0/1");
  CHECK(members(db, f) == texts(f, {3}));
  CHECK(pending(db) == 1);
}
