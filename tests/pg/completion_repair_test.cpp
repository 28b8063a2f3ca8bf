#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/flow.hpp"
#include "support/stalled_act.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;

namespace {

constexpr std::int64_t kEnd = kNow - 5000;
constexpr std::int64_t kDay = 86'400'000;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("completion_repair");
}

/// An upstream that has ended without an event, and a downstream that waits for it.
struct Pair {
  Uuid flow = new_uuid();
  Uuid upstream{};
  Uuid downstream{};
};

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  Pair add(const State& state = cancelled(), const CoreRow& like = {.terminal_at_ms = kEnd},
           const State& waiting = runnable(), const Json& policy = {{"edge_state", "applied"}}) {
    Pair made;
    CoreRow ended = like;
    ended.partition = {3};
    ended.execution = new_uuid();
    ended.flow = made.flow;
    ended.state = state;
    made.upstream = insert_core(db, ended);
    made.downstream = insert_core(db, {.partition = {3}, .flow = made.flow, .state = waiting});
    edge(made.flow, made.upstream, made.downstream, policy);
    insert_group(
        db, {.flow = made.flow, .downstream = made.downstream, .policy = {{"kind", "all_of"}}, .running = 1});
    return made;
  }
  void edge(const Uuid& flow, const Uuid& upstream, const Uuid& downstream,
            const Json& policy = Json::object()) {
    insert(db, "ff_edge",
           {{"partition_key", 3},
            {"flow_id", to_string(flow)},
            {"edge_id", to_string(new_uuid())},
            {"upstream_eid", to_string(upstream)},
            {"downstream_eid", to_string(downstream)},
            {"policy", policy}});
  }
  void event(const Uuid& id, const std::string& outcome, std::int64_t occurred_at_ms,
             std::int64_t committed_at_ms, const Json& dispatched_at_ms = kNow - 60'001) {
    insert(db, "ff_completion_event",
           {{"partition_key", 3},
            {"execution_id", to_string(id)},
            {"outcome", outcome},
            {"occurred_at_ms", occurred_at_ms},
            {"committed_at_ms", committed_at_ms},
            {"dispatched_at_ms", dispatched_at_ms}});
  }
  void replayed(const Uuid& id, std::int64_t at_ms) {
    db.execute(
        "UPDATE ff_exec_core SET raw_fields = raw_fields || '{\"replay_count\": 1}' WHERE execution_id = $1",
        pg::Params::of(id));
    insert(db, "ff_operator_event",
           {{"partition_key", 3},
            {"execution_id", to_string(id)},
            {"event_type", "replayed"},
            {"occurred_at_ms", at_ms}});
  }
  Json told(const Uuid& id) {
    return row(
        db,
        "SELECT partition_key, flow_id, outcome, namespace, instance_tag, occurred_at_ms, dispatched_at_ms "
        "FROM ff_completion_event WHERE execution_id = $1 AND outcome <> 'resumable'",
        pg::Params::of(id));
  }
  std::int64_t ends(const Uuid& id) {
    return number(db, "SELECT count(*) FROM ff_completion_event WHERE execution_id = $1", pg::Params::of(id));
  }
};

/// A fan-in of three. The first has failed and was counted; an operator has replayed it, and then cancelled it.
struct Replayed : Stage {
  FanIn fan_in = insert_fan_in(db, 3, {.policy = {{"kind", "any_of"}}, .fail = 1, .running = 2});

  Uuid id(std::size_t number) { return fan_in.upstreams.at(number); }
  void cancel(std::size_t number) {
    db.execute(
        "UPDATE ff_exec_core SET lifecycle_phase = 'cancelled', public_state = 'cancelled',"
        " terminal_at_ms = $2 WHERE execution_id = $1",
        pg::Params::of(id(number), kEnd));
  }
  void fail_replay_and_cancel(std::size_t number, const Json& dispatched_at_ms = kNow - 60'001) {
    event(id(number), "failed", kEnd - 2000, kEnd - 2000, dispatched_at_ms);
    replayed(id(number), kEnd - 1000);
    cancel(number);
  }
  void set_group(const std::string& what) { db.execute("UPDATE ff_edge_group SET " + what); }
};

}  // namespace

TEST_CASE(
    "completion_repair writes the event that a cancel has left out, and takes what would end the execution "
    "again") {
  Stage t;
  const Pair pair = t.add({"cancelled", "leased", "cancelled", "cancelled", "running_attempt"},
                          {.attempt_index = 3, .terminal_at_ms = kEnd, .raw_fields = origin("n", "i")});
  // A reclaim has left the lease of the attempt before; the current one waits for children.
  insert_attempt(t.db, {.partition = {3},
                        .execution = pair.upstream,
                        .attempt_index = 1,
                        .lease_epoch = 5,
                        .lease_expires_at_ms = kNow + 60'000,
                        .outcome = "retry"});
  insert_attempt(t.db, {.partition = {3},
                        .execution = pair.upstream,
                        .attempt_index = 2,
                        .lease_epoch = 6,
                        .lease_expires_at_ms = kNow + 60'000});
  insert_attempt(t.db, {.partition = {3},
                        .execution = pair.upstream,
                        .attempt_index = 3,
                        .lease_epoch = 7,
                        .outcome = "waiting_children"});
  insert_suspension(t.db, {.partition = {3}, .execution = pair.upstream});
  insert_waitpoint(t.db, {.partition = {3}, .execution = pair.upstream});
  const Json before = core(t.db, pair.upstream);

  CHECK(outcomes(t.tick()) == "repaired=1");

  CHECK(t.told(pair.upstream) == Json{{"partition_key", 3},
                                      {"flow_id", to_string(pair.flow)},
                                      {"outcome", "cancelled"},
                                      {"namespace", "n"},
                                      {"instance_tag", "i"},
                                      {"occurred_at_ms", kEnd},
                                      {"dispatched_at_ms", nullptr}});
  CHECK(
      core(t.db, pair.upstream) ==
      changed(before, {{"ownership_state", "unowned"},
                       {"raw_fields", changed(before["raw_fields"], {{"completion_repaired_for", kEnd}})}}));
  for (const auto& [index, epoch, outcome] : std::vector<std::tuple<int, int, std::string>>{
           {1, 6, "retry"}, {2, 7, "cancelled"}, {3, 8, "waiting_children"}}) {
    const Json attempt = ff::test::attempt(t.db, pair.upstream, index);
    CHECK(attempt["lease_expires_at_ms"].is_null());
    CHECK(attempt["lease_epoch"] == epoch);
    CHECK(attempt["outcome"] == outcome);
  }
  CHECK(number(t.db,
               "SELECT count(*) FROM ff_lease_event WHERE event_type = 'revoked' AND namespace = 'n'") == 2);
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
  CHECK(snapshot(t.db, "ff_waitpoint_pending").empty());
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("completion_repair finds the word of an end where phase and public_state do not say cancelled") {
  Stage t;
  const auto add = [&](const std::string& public_state, const std::string& outcome = "",
                       std::int64_t at_ms = kEnd) {
    const Pair pair = t.add(terminal(public_state));
    if (!outcome.empty()) {
      insert_attempt(t.db, {.partition = {3},
                            .execution = pair.upstream,
                            .attempt_index = 1,
                            .terminal_at_ms = at_ms,
                            .outcome = outcome});
      insert_attempt(t.db,
                     {.partition = {3}, .execution = pair.upstream, .attempt_index = 2, .outcome = "retry"});
    }
    return pair.upstream;
  };
  std::vector<std::pair<Uuid, std::string>> wanted{{add("cancelled", "success"), "cancelled"},
                                                   {add("waiting", "success"), "success"},
                                                   {add("running", "failed"), "failed"},
                                                   {add("expired", "retry"), "expired"},
                                                   {add("expired", "success", kEnd - 1), "expired"},
                                                   {add("completed"), "success"},
                                                   {add("failed"), "failed"},
                                                   {add("skipped"), "skipped"}};
  const Uuid current = t.add(terminal("waiting")).upstream;
  insert_attempt(t.db, {.partition = {3}, .execution = current, .terminal_at_ms = 5, .outcome = "failed"});
  wanted.emplace_back(current, "failed");
  const Uuid unclear = add("waiting");
  const Json before = core(t.db, unclear);

  CHECK(outcomes(t.tick()) == "repaired=9 unclear=1");

  for (const auto& [id, word] : wanted) CHECK(t.told(id)["outcome"] == word);
  CHECK(t.ends(unclear) == 0);
  CHECK(core(t.db, unclear) == before);
  CHECK(outcomes(t.tick()) == "unclear=1");
}

TEST_CASE("completion_repair leaves alone for whom nobody waits, and what was told or ended long ago") {
  Stage t;
  for (const State& state : {active(), suspended(), terminal(), cancelled()})
    t.add(cancelled(), {.terminal_at_ms = kEnd}, state);
  t.add(cancelled(), {.terminal_at_ms = kEnd}, runnable(), {{"edge_state", "pending"}});
  t.add(cancelled(), {.terminal_at_ms = kNow - kDay - 1});
  t.add(cancelled(), {});  // without a moment
  t.add(active(), {.terminal_at_ms = kEnd});
  t.add(cancelled(), {.terminal_at_ms = kEnd, .raw_fields = {{"completion_repaired_for", kEnd}}});
  t.event(t.add().upstream, "skipped", kEnd, kEnd);
  t.event(t.add().upstream, "skipped", kEnd - 1, kEnd - 1);  // its end has been dated anew since
  // Of another flow.
  const Pair stranger = t.add();
  t.db.execute("UPDATE ff_exec_core SET flow_id = gen_random_uuid() WHERE execution_id = $1",
               pg::Params::of(stranger.downstream));
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(before, snapshot(t.db)).empty());

  // Beside them, one of each kind that is to be told.
  for (const State& state : {submitted(), runnable(), blocked()})
    t.add(cancelled(), {.terminal_at_ms = kEnd}, state);
  t.add(cancelled(), {.terminal_at_ms = kNow - kDay});
  t.add(cancelled(), {.terminal_at_ms = kNow + kDay});  // by a fast clock
  t.add(cancelled(), {.terminal_at_ms = kEnd, .raw_fields = {{"completion_repaired_for", kEnd - 1}}});
  const Uuid resumed = t.add().upstream;
  t.event(resumed, "resumable", kEnd, kEnd);
  // Several wait for one, over several edges.
  const Pair many = t.add();
  t.edge(many.flow, many.upstream, many.downstream);
  t.edge(many.flow, many.upstream,
         insert_core(t.db, {.partition = {3}, .flow = many.flow, .state = blocked()}));
  CHECK(outcomes(t.tick()) == "repaired=8");
  CHECK(t.ends(many.upstream) == 1);
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("completion_repair tells an end once that a worker's cancel dates anew") {
  Stage t;
  const Uuid id = t.add().upstream;
  CHECK(outcomes(t.tick()) == "repaired=1");
  // FlowFabric's cancel by handle refuses only what is terminal, whatever the epoch.
  t.db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', terminal_at_ms = $2 WHERE execution_id = $1",
      pg::Params::of(id, kEnd + 1000));
  CHECK(t.tick().scanned == 0);
  CHECK(t.ends(id) == 1);
}

TEST_CASE("completion_repair takes a replayed execution for told by either of two clocks") {
  Stage t;
  const auto add = [&](std::int64_t occurred_at_ms, std::int64_t committed_at_ms) {
    const Uuid id = t.add().upstream;
    t.replayed(id, kEnd - 1000);
    t.event(id, "success", occurred_at_ms, committed_at_ms);
    return id;
  };
  const Uuid of_the_former_run = add(kEnd - 2000, kEnd - 2000);
  const std::vector<Uuid> told{add(kEnd, kEnd - 2000), add(kEnd - 2000, kEnd - 500), add(kEnd, kEnd)};
  CHECK(outcomes(t.tick()) == "repaired=1");
  CHECK(t.ends(of_the_former_run) == 2);
  for (const Uuid& id : told) CHECK(t.ends(id) == 1);
}

TEST_CASE("completion_repair tells no second end of a replayed upstream whose first one is counted") {
  Replayed t;
  t.fail_replay_and_cancel(0);
  SECTION("any_of") {}
  SECTION("all_of") {
    t.set_group(R"(policy = '{"kind": "all_of"}', success_count = 1, fail_count = 0)");
  }
  SECTION("no group") {
    t.db.execute("DELETE FROM ff_edge_group");
  }
  CHECK(t.tick().scanned == 0);
  // One that was cancelled beside it is told, and is the one that is missed.
  t.cancel(1);
  CHECK(outcomes(t.tick()) == "repaired=1");
  CHECK(t.ends(t.id(0)) == 1);
  CHECK(t.ends(t.id(1)) == 1);
}

TEST_CASE("completion_repair tells the end of a replayed upstream that its fan-in has not counted") {
  Replayed t;
  t.set_group("fail_count = 0, running_count = 3");  // its edge was applied after its first end
  SECTION("for long") {
    t.fail_replay_and_cancel(0);
    CHECK(outcomes(t.tick()) == "repaired=1");
    CHECK(t.ends(t.id(0)) == 2);
  }
  SECTION("as yet") {
    t.fail_replay_and_cancel(0, GENERATE(Json(nullptr), Json(kNow - 60'000)));
    CHECK(t.tick().scanned == 0);
  }
  SECTION("or another one, who was replayed likewise") {
    t.set_group("fail_count = 1, running_count = 2");
    t.fail_replay_and_cancel(0);
    t.fail_replay_and_cancel(1);
    CHECK(outcomes(t.tick()) == "repaired=1");
    CHECK(t.ends(t.id(0)) + t.ends(t.id(1)) == 3);
    CHECK(t.tick().scanned == 0);
  }
}

TEST_CASE(
    "completion_repair leaves a downstream to the operator who has replayed it since, unless it waits") {
  Stage t;
  const Pair since = t.add();
  t.replayed(since.downstream, kEnd + 1);
  const Pair unknown = t.add();
  t.db.execute("UPDATE ff_exec_core SET raw_fields = '{\"replay_count\": 1}' WHERE execution_id = $1",
               pg::Params::of(unknown.downstream));
  const Pair before = t.add();
  t.replayed(before.downstream, kEnd - 1);
  const Pair waits = t.add();
  t.replayed(waits.downstream, kEnd + 1);
  t.db.execute(
      "UPDATE ff_exec_core SET eligibility_state = 'blocked_by_dependencies' WHERE execution_id = $1",
      pg::Params::of(waits.downstream));
  CHECK(outcomes(t.tick()) == "repaired=2");
  CHECK(t.ends(since.upstream) == 0);
  CHECK(t.ends(unknown.upstream) == 0);
  CHECK(t.ends(before.upstream) == 1);
  CHECK(t.ends(waits.upstream) == 1);
}

TEST_CASE("completion_repair leaves an execution alone while somebody holds anything of its") {
  Stage t;
  const Uuid id = t.add().upstream;
  insert_attempt(t.db, {.partition = {3}, .execution = id, .lease_expires_at_ms = kNow + 60'000});
  insert_suspension(t.db, {.partition = {3}, .execution = id});
  insert_waitpoint(t.db, {.partition = {3}, .execution = id});
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  const std::string table =
      GENERATE("ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending");
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "repaired=1");
}

TEST_CASE(
    "completion_repair writes no event of a run that has ended anew, was told or was repaired while its act "
    "is under way") {
  Stage t;
  const Uuid id = t.add().upstream;
  StalledAct stalled(t.database, reconciler(), {{{3}, {to_string(id), std::to_string(kEnd)}}});
  const int what = GENERATE(0, 1, 2);
  CAPTURE(what);
  if (what == 0) t.db.execute("UPDATE ff_exec_core SET terminal_at_ms = $1", pg::Params::of(kEnd + 1));
  if (what == 1) {  // as FlowFabric's cancel_flow does it
    t.db.execute("UPDATE ff_exec_core SET public_state = 'cancelled' WHERE execution_id = $1",
                 pg::Params::of(id));
    t.event(id, "cancelled", kEnd, kEnd);
  }
  if (what == 2) {
    EngineFixture engine(t.database, "completion_repair");
    engine->tick();
  }
  CHECK(stalled.finish().empty());
  CHECK(t.ends(id) == (what == 0 ? 0 : 1));
}

TEST_CASE("completion_repair takes the lease of a late renewal that comes while its act is under way") {
  Stage t;
  const Uuid id = t.add().upstream;
  // It waited for children, without a lease and with its epoch, when it was cancelled.
  insert_attempt(t.db, {.partition = {3}, .execution = id, .lease_epoch = 7, .outcome = "waiting_children"});
  StalledAct stalled(t.database, reconciler(), {{{3}, {to_string(id), std::to_string(kEnd)}}});
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $1", pg::Params::of(kNow + 60'000));
  CHECK(stalled.finish() == std::vector<std::string>{"repaired"});
  CHECK(attempt(t.db, id)["lease_epoch"] == 8);
  CHECK(attempt(t.db, id)["lease_expires_at_ms"].is_null());
  CHECK(attempt(t.db, id)["outcome"] == "waiting_children");
  CHECK(number(t.db, "SELECT count(*) FROM ff_lease_event WHERE event_type = 'revoked'") == 1);
}

TEST_CASE("completion_repair matches the filter on the ended execution") {
  Stage t;
  const Uuid mine = t.add(cancelled(), {.terminal_at_ms = kEnd, .raw_fields = origin("a", "1")}).upstream;
  const Uuid others = t.add(cancelled(), {.terminal_at_ms = kEnd, .raw_fields = origin("b", "1")}).upstream;
  CHECK(outcomes(t.tick({.filter = for_both("a", {"cairn.instance_id", "1"})})) == "repaired=1");
  CHECK(t.ends(mine) == 1);
  CHECK(t.ends(others) == 0);
}
