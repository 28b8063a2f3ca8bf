// edge_cancel_dispatcher: what becomes of a pending group and of the siblings that it lists.
#include <catch2/catch.hpp>
#include <cctype>

#include "pg/edge_cancel_groups.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

const Json kAnyOf = {{"kind", "any_of"}};

const Json kCleared = {{"cancel_siblings_pending_flag", false},
                       {"cancel_siblings_pending_members", Json::array()}};

Json cancelled(const Json& core, const Json& at) {
  Json raw = core["raw_fields"];
  raw["last_mutation_at"] = at.dump();
  Json now = changed(core, {{"lifecycle_phase", "terminal"},
                            {"ownership_state", "unowned"},
                            {"eligibility_state", "not_applicable"},
                            {"public_state", "cancelled"},
                            {"attempt_state", "cancelled"},
                            {"raw_fields", raw}});
  if (now["terminal_at_ms"].is_null()) now["terminal_at_ms"] = at;
  if (now["cancellation_reason"].is_null()) now["cancellation_reason"] = "sibling_quorum_satisfied";
  if (now["cancelled_by"].is_null()) now["cancelled_by"] = "engine";
  return now;
}

/// last_mutation_at, which every cancelled sibling carries.
Json mutated_at(pg::Connection& db, const Uuid& sibling) {
  return Json::parse(core(db, sibling)["raw_fields"]["last_mutation_at"].get<std::string>());
}

}  // namespace

TEST_CASE("edge_cancel_dispatcher cancels a running sibling with all it held and tells who depends on it") {
  const Database database;
  auto db = database.connect();
  const FanIn bystander = insert_fan_in(db, 2, {.policy = kAnyOf, .flag = true, .members = {"listed"}});
  const FanIn f = insert_listed(db, 1);
  const Uuid id = f.upstreams[0];
  db.execute("UPDATE ff_exec_core SET raw_fields = $2::jsonb, attempt_index = 2 WHERE execution_id = $1",
             pg::Params::of(id, changed(origin("n", "i"), {{"color", "red"}}).dump()));
  for (const int index : {0, 1})
    insert_attempt(db, {.partition = {3},
                        .execution = id,
                        .attempt_index = index,
                        .lease_epoch = 7,
                        .lease_expires_at_ms =
                            index == 1 ? std::optional<std::int64_t>(9'900'000'000'000) : std::nullopt});
  const auto before = snapshot(db);
  const Json core_before = core(db, id);
  const Json attempt_before = attempt(db, id, 1);
  const Json group_before = edge_group(db, f.downstream);

  EngineFixture engine(database, "edge_cancel_dispatcher");
  const auto from = now_ms(db);
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "dispatched=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
  const Json at = mutated_at(db, id);
  CHECK(at >= from);
  CHECK(at <= now_ms(db));
  CHECK(core(db, id) == cancelled(core_before, at));
  CHECK(attempt(db, id, 1) == changed(attempt_before, {{"outcome", "cancelled"},
                                                       {"lease_expires_at_ms", nullptr},
                                                       {"lease_epoch", 8},
                                                       {"terminal_at_ms", at}}));
  CHECK(edge_group(db, f.downstream) == changed(group_before, kCleared));
  CHECK(pending(db) == 0);
  const Json event = {{"partition_key", 3},
                      {"execution_id", to_string(id)},
                      {"occurred_at_ms", at},
                      {"namespace", "n"},
                      {"instance_tag", "i"}};
  CHECK(lease_events(db) ==
        Json::array({changed(event, {{"lease_id", nullptr}, {"event_type", "revoked"}})}));
  CHECK(completion_events(db) == Json::array({changed(event, {{"flow_id", to_string(f.flow)},
                                                              {"outcome", "cancelled"},
                                                              {"dispatched_at_ms", nullptr}})}));
  // Core, attempt and group, each gone and come, the pending row gone, two events come.
  CHECK(diff(before, snapshot(db)).size() == 9);
  const auto after = snapshot(db);
  CHECK(engine->tick().scanned == 0);
  CHECK(diff(after, snapshot(db)).empty());
}

TEST_CASE("edge_cancel_dispatcher cancels a sibling from each phase but the last") {
  const State state = GENERATE(submitted(), runnable(), delayed(), blocked(), active(), suspended());
  CAPTURE(state.lifecycle_phase, state.eligibility_state);
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 1);
  const Uuid id = insert_core(db, {.partition = {3}, .flow = f.flow, .state = state});
  insert_attempt(db, {.partition = {3}, .execution = id});
  insert_suspension(db, {.partition = {3}, .execution = id});
  insert_waitpoint(db, {.partition = {3}, .execution = id});
  insert_waitpoint(db, {.partition = {3}, .execution = id});
  const Uuid other = insert_core(db, {.partition = {3}, .state = suspended()});
  insert_suspension(db, {.partition = {3}, .execution = other});
  insert_waitpoint(db, {.partition = {3}, .execution = other});
  set_members(db, f, "{" + to_string(id) + "}");
  const Json core_before = core(db, id);
  const Json upstream_before = core(db, f.upstreams[0]);
  const Json attempt_before = attempt(db, id);

  EngineFixture engine(database, "edge_cancel_dispatcher");
  CHECK(outcomes(engine->tick()) == "dispatched=1");
  const Json at = mutated_at(db, id);
  CHECK(core(db, id) == cancelled(core_before, at));
  // It had no lease: no lease event, but it cannot go on either.
  CHECK(attempt(db, id) ==
        changed(attempt_before, {{"outcome", "cancelled"}, {"lease_epoch", 2}, {"terminal_at_ms", at}}));
  CHECK(lease_events(db).empty());
  CHECK(completion_events(db).size() == 1);
  CHECK(snapshot(db, "ff_suspension_current").size() == 1);
  CHECK(snapshot(db, "ff_waitpoint_pending").size() == 1);
  CHECK(core(db, other)["lifecycle_phase"] == "suspended");
  CHECK(core(db, f.upstreams[0]) == upstream_before);  // an upstream that is not listed
}

TEST_CASE("edge_cancel_dispatcher leaves siblings as they are that have ended") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 3);
  db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', public_state = 'completed' WHERE execution_id = "
      "$1",
      pg::Params::of(f.upstreams[0]));
  db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'cancelled', public_state = 'cancelled' WHERE execution_id "
      "= $1",
      pg::Params::of(f.upstreams[1]));
  db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(f.upstreams[2]));
  const auto before = snapshot(db);
  EngineFixture engine(database, "edge_cancel_dispatcher");
  CHECK(outcomes(engine->tick()) == "dispatched=1");
  CHECK(diff(before, snapshot(db)).size() == 3);  // the group gone and come, the pending row gone
  CHECK(pending(db) == 0);
}

TEST_CASE("edge_cancel_dispatcher keeps who cancelled a sibling, why and when, where that is known already") {
  const auto column = GENERATE("cancellation_reason", "cancelled_by", "terminal_at_ms");
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 1);
  db.execute("UPDATE ff_exec_core SET " + std::string(column) + " = '5' WHERE execution_id = $1",
             pg::Params::of(f.upstreams[0]));
  const Json core_before = core(db, f.upstreams[0]);
  EngineFixture engine(database, "edge_cancel_dispatcher");
  CHECK(engine->tick().processed == 1);
  CHECK(core(db, f.upstreams[0]) == cancelled(core_before, mutated_at(db, f.upstreams[0])));
}

TEST_CASE("edge_cancel_dispatcher deletes a pending row whose group is gone") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 2);
  db.execute("DELETE FROM ff_edge_group");
  // A group of the same downstream in another flow is another group.
  insert_group(db, {.flow = new_uuid(), .downstream = f.downstream, .policy = kAnyOf, .flag = true});
  const auto before = snapshot(db);
  EngineFixture engine(database, "edge_cancel_dispatcher");
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "orphaned=1");
  CHECK(report.processed == 1);
  CHECK(diff(before, snapshot(db)).size() == 1);
  CHECK(pending(db) == 0);
}

TEST_CASE("edge_cancel_dispatcher leaves a group whose flag is down to the reconciler") {
  const Database database;
  auto db = database.connect();
  insert_listed(db, 2);
  db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = false");
  const auto before = snapshot(db);
  EngineFixture engine(database, "edge_cancel_dispatcher");
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "skipped_for_reconciler=1");
  CHECK(report.processed == 0);
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("edge_cancel_dispatcher ignores members that are no uuid and cancels the others") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 2);
  const std::string id = to_string(f.upstreams[0]);
  set_members(db, f, "{nonsense,\"\",NULL," + id + ",\"{fp:3}:" + id + "\",\" " + id + "\"}");
  EngineFixture engine(database, "edge_cancel_dispatcher");
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "dispatched=1 malformed=5");
  CHECK(report.processed == 1);
  CHECK(report.error_count() == 0);
  CHECK(core(db, f.upstreams[0])["public_state"] == "cancelled");
  CHECK(core(db, f.upstreams[1])["public_state"] == "running");
  CHECK(edge_group(db, f.downstream)["cancel_siblings_pending_members"].empty());
}

TEST_CASE("edge_cancel_dispatcher cancels a sibling once that is listed twice or by two groups") {
  const Database database;
  auto db = database.connect();
  const FanIn one = insert_listed(db, 2);
  const FanIn two = insert_listed(db, 2);
  std::string upper = to_string(one.upstreams[0]);
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  set_members(db, one, "{" + to_string(one.upstreams[0]) + "," + upper + "}");
  set_members(db, two, "{" + to_string(one.upstreams[0]) + "," + to_string(two.upstreams[1]) + "}");
  insert_attempt(db,
                 {.partition = {3}, .execution = one.upstreams[0], .lease_expires_at_ms = 9'900'000'000'000});
  EngineFixture engine(database, "edge_cancel_dispatcher");
  CHECK(outcomes(engine->tick()) == "dispatched=2");
  CHECK(attempt(db, one.upstreams[0])["lease_epoch"] == 2);
  CHECK(lease_events(db).size() == 1);
  CHECK(completion_events(db).size() == 2);
  CHECK(pending(db) == 0);
}

TEST_CASE("edge_cancel_dispatcher looks for siblings in the partition of their group") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_listed(db, 1);
  insert_core(db, {.partition = {7}, .execution = f.upstreams[0]});
  EngineFixture engine(database, "edge_cancel_dispatcher");
  CHECK(engine->tick().processed == 1);
  const auto state_in = [&](int partition) {
    return row(db,
               "SELECT public_state FROM ff_exec_core WHERE partition_key = " + std::to_string(partition) +
                   " AND execution_id = $1",
               pg::Params::of(f.upstreams[0]))["public_state"];
  };
  CHECK(state_in(3) == "cancelled");
  CHECK(state_in(7) == "running");
}

TEST_CASE("edge_cancel_dispatcher matches its filter on the downstream") {
  const Database database;
  auto db = database.connect();
  const auto add = [&](const Json& raw_fields) {
    const FanIn f = insert_listed(db, 1);
    db.execute("UPDATE ff_exec_core SET raw_fields = $2::jsonb WHERE execution_id = $1",
               pg::Params::of(f.downstream, raw_fields.dump()));
    // The sibling would match.
    db.execute("UPDATE ff_exec_core SET raw_fields = $2::jsonb WHERE execution_id = $1",
               pg::Params::of(f.upstreams[0], origin("a", "i").dump()));
    return f;
  };
  const std::vector<FanIn> groups = {add(origin("a", "i")), add(origin("a", "j")), add(origin("b", "i")),
                                     add(Json::object()), add(origin("a", "i"))};
  db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(groups[4].downstream));
  const auto taken = [&](const ScannerFilter& filter) {
    std::string direct;
    for (const FanIn& f : groups) {
      const auto words = act_on(db, *reconcile::find_reconciler("edge_cancel_dispatcher"),
                                {{f.partition, {to_string(f.flow), to_string(f.downstream)}}}, filter);
      direct += words.empty() ? '-' : 'x';
    }
    return direct;
  };
  const auto restore = [&] {
    for (const FanIn& f : groups)
      db.execute("INSERT INTO ff_pending_cancel_groups VALUES ($1, $2, $3, 5) ON CONFLICT DO NOTHING",
                 pg::Params::of(f.partition, f.flow, f.downstream));
    db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = true");
  };
  const auto scanned = [&](const ScannerFilter& filter) {
    EngineFixture engine(database, "edge_cancel_dispatcher", {.filter = filter});
    return engine->tick().scanned;
  };
  CHECK(taken(for_both("a", {"cairn.instance_id", "i"})) == "x----");
  restore();
  CHECK(taken(for_namespace("a")) == "xx---");
  restore();
  CHECK(taken(for_tag("i")) == "x-x--");
  restore();
  CHECK(scanned(for_both("a", {"cairn.instance_id", "i"})) == 1);
  restore();
  CHECK(scanned(for_namespace("a")) == 2);
  restore();
  CHECK(taken({}) == "xxxxx");
}
