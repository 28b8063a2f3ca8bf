// edge_cancel_reconciler: which pending groups have nothing left to cancel.
#include <catch2/catch.hpp>

#include "pg/edge_cancel_groups.hpp"
#include "pg/transaction.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

/// A pending group that lists its upstreams, which are in these states.
FanIn insert_with_states(pg::Connection& db, const std::vector<State>& states,
                         std::int64_t enqueued_at_ms = 1000) {
  const FanIn f = insert_listed(db, static_cast<int>(states.size()), enqueued_at_ms);
  for (std::size_t i = 0; i < states.size(); ++i)
    db.execute("UPDATE ff_exec_core SET lifecycle_phase = $2, public_state = $3 WHERE execution_id = $1",
               pg::Params::of(f.upstreams[i], states[i].lifecycle_phase, states[i].public_state));
  return f;
}

struct Tick {
  TickReport report;
  std::size_t changes;
};
Tick tick(const Database& database, pg::Connection& db) {
  const auto before = snapshot(db);
  EngineFixture engine(database, "edge_cancel_reconciler");
  TickReport report = engine->tick();
  const auto after = snapshot(db);
  const bool done = report.processed > 0;
  if (done) {
    CHECK(engine->tick().scanned == 0);
    CHECK(diff(after, snapshot(db)).empty());
  }
  return {std::move(report), diff(before, after).size()};
}

}  // namespace

TEST_CASE("edge_cancel_reconciler drains a group when all that it lists have ended or are gone") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_with_states(db, {terminal(), terminal("skipped"), cancelled(), active()});
  db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(f.upstreams[3]));
  const Json group_before = edge_group(db, f.downstream);
  const auto [report, changes] = tick(database, db);
  CHECK(outcomes(report) == "completed_drain=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(edge_group(db, f.downstream) ==
        changed(group_before, {{"cancel_siblings_pending_flag", false},
                               {"cancel_siblings_pending_members", Json::array()}}));
  CHECK(pending(db) == 0);
  CHECK(changes == 3);  // the group gone and come, the pending row gone
}

TEST_CASE("edge_cancel_reconciler looks for siblings in the partition of their group") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_with_states(db, {terminal()});
  // Of the same name in another partition, which has a pending group of its own: somebody else.
  insert_core(db, {.partition = {7}, .execution = f.upstreams[0]});
  insert_pending(db, {7}, f.flow, f.downstream, 1000);
  EngineFixture engine(database, "edge_cancel_reconciler");
  CHECK(outcomes(engine->tick()) == "completed_drain=1 sremmed_stale=1");
  CHECK(pending(db) == 0);
}

TEST_CASE("edge_cancel_reconciler drains a group that lists nobody, or nobody that can be told") {
  const auto [members, expected] = GENERATE(table<std::string, std::string>(
      {{"{}", "completed_drain=1"}, {"{nonsense,\"\",NULL}", "completed_drain=1 malformed=3"}}));
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_with_states(db, {active()});
  set_members(db, f, members);
  const auto [report, changes] = tick(database, db);
  CHECK(outcomes(report) == expected);
  CHECK(report.processed == 1);
  CHECK(report.error_count() == 0);
  CHECK(edge_group(db, f.downstream)["cancel_siblings_pending_members"].empty());
  CHECK(changes == 3);
}

TEST_CASE("edge_cancel_reconciler never does the dispatcher's work while a sibling is at work") {
  const State state = GENERATE(submitted(), runnable(), delayed(), blocked(), active(), suspended());
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_with_states(db, {terminal(), state, cancelled()});
  set_members(db, f, "{nonsense," + to_string(f.upstreams[0]) + "," + to_string(f.upstreams[1]) + "}");
  const auto [report, changes] = tick(database, db);
  CHECK(outcomes(report) == "no_op=1");
  CHECK(report.processed == 0);
  CHECK(changes == 0);
}

TEST_CASE("edge_cancel_reconciler deletes a pending row whose group is gone") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_with_states(db, {active()});
  db.execute("DELETE FROM ff_edge_group");
  insert_group(db, {.flow = new_uuid(), .downstream = f.downstream, .policy = Json::object(), .flag = true});
  const auto [report, changes] = tick(database, db);
  CHECK(outcomes(report) == "sremmed_stale=1");
  CHECK(changes == 1);
  CHECK(pending(db) == 0);
}

TEST_CASE("edge_cancel_reconciler deletes a pending row whose flag is down and leaves the group") {
  const Database database;
  auto db = database.connect();
  insert_with_states(db, {active(), terminal()});
  db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = false");
  const auto [report, changes] = tick(database, db);
  CHECK(outcomes(report) == "sremmed_stale=1");
  CHECK(report.processed == 1);
  CHECK(changes == 1);
  CHECK(pending(db) == 0);
}

TEST_CASE("edge_cancel_reconciler does nothing to a group that somebody holds") {
  const bool flag = GENERATE(true, false);
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  insert_with_states(db, {terminal()});
  db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = $1", pg::Params::of(flag));
  {
    pg::Transaction holding(other);
    holding.execute("SELECT FROM ff_edge_group FOR UPDATE");
    const auto [report, changes] = tick(database, db);
    CHECK(outcomes(report) == "no_op=1");
    CHECK(report.processed == 0);
    CHECK(changes == 0);
  }
  CHECK(tick(database, db).report.processed == 1);
}

TEST_CASE("edge_cancel_reconciler reaches the groups behind more than a batch that it leaves alone") {
  const Database database;
  auto db = database.connect();
  for (int i = 0; i < 7; ++i) insert_with_states(db, {active()}, 100 + i);
  insert_with_states(db, {terminal()}, 200);
  EngineFixture engine(database, "edge_cancel_reconciler", {.batch_size = 3});
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "completed_drain=1 no_op=7");
  CHECK(report.scanned == 8);
  CHECK(pending(db) == 7);
}

TEST_CASE("edge_cancel_reconciler matches its filter on the downstream") {
  const Database database;
  auto db = database.connect();
  const auto add = [&](const std::optional<Json>& raw_fields) {
    const FanIn f = insert_with_states(db, {});
    if (raw_fields)
      db.execute("UPDATE ff_exec_core SET raw_fields = $2::jsonb WHERE execution_id = $1",
                 pg::Params::of(f.downstream, raw_fields->dump()));
    else
      db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(f.downstream));
    return f;
  };
  const std::vector<FanIn> groups = {add(origin("a", "i")), add(origin("a", "j")), add(origin("b", "i")),
                                     add(Json::object()), add(std::nullopt)};
  const auto& reconciler = *reconcile::find_reconciler("edge_cancel_reconciler");
  const auto taken = [&](const ScannerFilter& filter) {
    EngineFixture engine(database, reconciler, {.filter = filter});
    const auto found = engine->tick({.dry_run = true}).scanned;
    std::int64_t direct = 0;
    for (const FanIn& f : groups) {
      const auto words =
          act_on(db, reconciler, {{f.partition, {to_string(f.flow), to_string(f.downstream)}}}, filter);
      direct += words.empty() ? 0 : 1;
      if (words.empty()) continue;
      insert_pending(db, f.partition, f.flow, f.downstream, 1000);
      db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = true");
    }
    CHECK(direct == found);
    return found;
  };
  CHECK(taken(for_both("a", {"cairn.instance_id", "i"})) == 1);
  CHECK(taken(for_namespace("a")) == 2);
  CHECK(taken(for_tag("i")) == 2);
  CHECK(taken(for_namespace("c")) == 0);
  CHECK(taken({}) == 5);
}
