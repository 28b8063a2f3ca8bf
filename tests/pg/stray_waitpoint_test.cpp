#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/stalled_act.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;

namespace {

constexpr std::int64_t kThen = kNow - 5000;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("stray_waitpoint");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  Uuid add(const State& state, const Json& raw_fields = Json::object()) {
    const bool ended = state.lifecycle_phase == "terminal" || state.lifecycle_phase == "cancelled";
    return insert_core(db, {.partition = {3},
                            .state = state,
                            .terminal_at_ms = ended ? std::optional(kThen) : std::nullopt,
                            .raw_fields = raw_fields});
  }
  Uuid add_suspended(const State& state, std::int64_t suspended_at_ms = kThen) {
    const Uuid id = add(state);
    insert_suspension(db, {.partition = {3}, .execution = id, .suspended_at_ms = suspended_at_ms});
    return id;
  }
  Uuid waitpoint(const Uuid& execution, std::optional<std::int64_t> activated_at_ms = kThen) {
    const Uuid id =
        insert_waitpoint(db, {.partition = {3}, .execution = execution, .expires_at_ms = kNow - 1});
    db.execute(
        "UPDATE ff_waitpoint_pending SET state = 'active', activated_at_ms = $2 WHERE waitpoint_id = $1",
        pg::Params::of(id, activated_at_ms));
    return id;
  }
  bool is_open(const Uuid& waitpoint) {
    return number(db, "SELECT count(*) FROM ff_waitpoint_pending WHERE waitpoint_id = $1",
                  pg::Params::of(waitpoint)) == 1;
  }
};

}  // namespace

TEST_CASE("stray_waitpoint deletes what an operator's resume has left, and nothing else") {
  Stage t;
  // Resumed, claimed again, suspended again, ended without another suspension, as ended as they come.
  std::vector<Uuid> stray;
  for (const State& state : {runnable(), delayed(), active(), blocked(), submitted(), suspended(), terminal(),
                             terminal("cancelled"), cancelled()})
    stray.push_back(t.waitpoint(t.add(state)));
  // A signal has resumed it since; of the former suspension; of one that a fast clock has dated.
  stray.push_back(t.waitpoint(t.add_suspended(runnable())));
  stray.push_back(t.waitpoint(t.add_suspended(suspended()), kThen - 1));
  stray.push_back(t.waitpoint(t.add_suspended(suspended()), kNow + 86'400'000));
  // Of the present suspension; of who ended in it; that no suspension uses yet; that says nothing.
  const Uuid again = t.add_suspended(suspended());
  stray.push_back(t.waitpoint(again, kThen - 60'000));
  std::vector<Uuid> others{t.waitpoint(again), t.waitpoint(t.add_suspended(suspended()), std::nullopt),
                           insert_waitpoint(t.db, {.partition = {3}, .execution = t.add(active())}),
                           t.waitpoint(new_uuid())};
  for (const State& state : {terminal(), cancelled()}) {
    others.push_back(t.waitpoint(t.add_suspended(state)));
    others.push_back(t.waitpoint(t.add_suspended(state), kThen - 1));
  }
  const auto before = snapshot(t.db);

  CHECK(outcomes(t.tick()) == "resumed_cleared=" + std::to_string(stray.size()));

  for (const Uuid& waitpoint : stray) CHECK_FALSE(t.is_open(waitpoint));
  for (const Uuid& waitpoint : others) CHECK(t.is_open(waitpoint));
  CHECK(diff(before, snapshot(t.db)).size() == stray.size());
  CHECK(t.tick().scanned == 0);
}

TEST_CASE(
    "every active waitpoint of an ended execution is taken by stray_waitpoint or by suspension_timeout, "
    "never by both") {
  Stage t;
  for (const State& state : {terminal(), cancelled()}) {
    for (const std::int64_t activated : {kThen, kThen - 1}) {
      t.waitpoint(t.add(state), activated);
      t.waitpoint(t.add_suspended(state), activated);
    }
  }
  EngineFixture strays(t.database, "stray_waitpoint");
  EngineFixture timeouts(t.database, "suspension_timeout");
  const bool strays_first = GENERATE(true, false);
  if (strays_first) CHECK(outcomes(strays->tick()) == "resumed_cleared=4");
  CHECK(outcomes(timeouts->tick()) == "orphan_cleared=4");
  if (!strays_first) CHECK(outcomes(strays->tick()) == "resumed_cleared=4");
  CHECK(snapshot(t.db, "ff_waitpoint_pending").empty());
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
}

TEST_CASE("stray_waitpoint leaves a waitpoint alone while somebody holds it, its suspension or its core") {
  Stage t;
  const Uuid id = t.add_suspended(suspended(), kThen + 1);
  t.waitpoint(id);
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  const std::string table = GENERATE("ff_suspension_current", "ff_waitpoint_pending", "ff_exec_core");
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE", pg::Params::of(id));
  CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "resumed_cleared=1");
}

TEST_CASE("stray_waitpoint leaves a waitpoint alone that a new suspension uses between scanning and acting") {
  Stage t;
  const Uuid id = t.add(active());
  t.waitpoint(id);
  const auto suspend = [&] {
    insert_suspension(t.db, {.partition = {3}, .execution = id, .suspended_at_ms = kNow});
    t.db.execute("UPDATE ff_waitpoint_pending SET activated_at_ms = $1", pg::Params::of(kNow));
    t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'suspended'");
  };
  CHECK(t.tick({.before_acting = suspend}).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(snapshot(t.db, "ff_waitpoint_pending").size() == 1);
}

TEST_CASE("stray_waitpoint leaves a waitpoint alone that a new suspension uses while its act is under way") {
  Stage t;
  const Uuid id = t.add(active());
  const Uuid waitpoint = t.waitpoint(id);
  StalledAct stalled(t.database, reconciler(), {{{3}, {to_string(waitpoint)}}});
  // In one transaction, as FlowFabric does it; where it wrote the waitpoint anew or took another one makes no difference.
  if (GENERATE(true, false))
    t.db.execute("UPDATE ff_waitpoint_pending SET activated_at_ms = $1", pg::Params::of(kNow));
  insert_suspension(t.db, {.partition = {3}, .execution = id, .suspended_at_ms = kNow});
  t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'suspended'");
  CHECK(stalled.finish().empty());
  CHECK(t.is_open(waitpoint));
}

TEST_CASE("stray_waitpoint matches the filter on the execution") {
  Stage t;
  const Uuid mine = t.waitpoint(t.add(runnable(), origin("a", "1")));
  const Uuid others = t.waitpoint(t.add(runnable(), origin("b", "1")));
  const Uuid nobodys = t.waitpoint(t.add(runnable(), Json("null")));
  CHECK(outcomes(t.tick({.filter = for_both("a", {"cairn.instance_id", "1"})})) == "resumed_cleared=1");
  CHECK_FALSE(t.is_open(mine));
  CHECK(t.is_open(others));
  CHECK(t.is_open(nobodys));
}
