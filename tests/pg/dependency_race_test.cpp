// dependency beside others that hold what it needs, and several events or replicas at one fan-in.
#include <catch2/catch.hpp>
#include <thread>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "pg/transaction.hpp"
#include "support/engine.hpp"
#include "support/flow.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

const Json kAllOf = {{"kind", "all_of"}};
const std::map<Skip, std::int64_t> kOneLocked{{Skip::locked, 1}};

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("dependency");
}

/// Another downstream of the same upstream.
Uuid add_downstream(pg::Connection& db, const FanIn& f, std::size_t upstream, int running) {
  const Uuid downstream = insert_core(db, {.partition = {3}, .flow = f.flow, .state = blocked()});
  insert_group(db, {.flow = f.flow, .downstream = downstream, .policy = kAllOf, .running = running});
  insert_edge(db, {3}, f.flow, f.upstreams.at(upstream), downstream);
  return downstream;
}

}  // namespace

TEST_CASE("dependency leaves a whole event for later while anything that it concerns is held") {
  const auto held = GENERATE(
      "ff_completion_event WHERE execution_id = $1", "ff_edge_group WHERE downstream_eid = $2",
      "ff_exec_core WHERE execution_id = $2", "ff_attempt WHERE execution_id = $2",
      "ff_suspension_current WHERE execution_id = $2", "ff_waitpoint_pending WHERE execution_id = $2");
  CAPTURE(held);
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAllOf}, {.state = suspended()});
  insert_attempt(db, {.partition = {3}, .execution = f.downstream});
  insert_suspension(db, {.partition = {3}, .execution = f.downstream});
  insert_waitpoint(db, {.partition = {3}, .execution = f.downstream});
  const Uuid second = add_downstream(db, f, 0, 2);
  // A neighbour in the same batch that nobody holds.
  const FanIn free = insert_fan_in(db, 1, {.policy = kAllOf});
  end_upstream(db, free, 0);
  const auto event = end_upstream(db, f, 0, "failed");
  EngineFixture engine(database, "dependency");

  pg::Transaction holding(other);
  const std::string rows =
      "SELECT FROM " + std::string(held) + " AND $1 IS NOT NULL AND $2 IS NOT NULL FOR UPDATE";
  REQUIRE(holding.execute(rows, pg::Params::of(f.upstreams[0], f.downstream)).size() == 1);
  const TickReport report = engine->tick();
  CHECK(outcomes(report) == "advanced=1");
  CHECK(report.skipped == kOneLocked);
  CHECK(counts(db, free.downstream) == "1/0/0/0");
  CHECK(dispatched_at(db, event).is_null());
  CHECK(counts(db, f.downstream) == "0/0/0/2");
  CHECK(counts(db, second) == "0/0/0/2");
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "suspended");
  CHECK(core(db, second)["lifecycle_phase"] == "blocked");
  holding.rollback();

  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "0/1/0/1");
  CHECK(counts(db, second) == "0/1/0/1");
  CHECK(core(db, f.downstream)["public_state"] == "skipped");
  CHECK(core(db, second)["public_state"] == "skipped");
}

TEST_CASE("dependency takes the events behind more than a batch of events that wait for a held group") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const FanIn held = insert_fan_in(db, 7, {.policy = kAllOf});
  for (std::size_t i = 0; i < 7; ++i)
    insert_completion(db, {.execution = held.upstreams[i], .flow = held.flow, .committed_ago_ms = 100'000});
  const FanIn free = insert_fan_in(db, 1, {.policy = kAllOf});
  end_upstream(db, free, 0);
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_edge_group WHERE downstream_eid = $1 FOR UPDATE",
                  pg::Params::of(held.downstream));
  EngineFixture engine(database, "dependency", {.batch_size = 3});
  const TickReport report = engine->tick();
  CHECK(report.scanned == 8);
  CHECK(outcomes(report) == "advanced=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 7}});
  CHECK(core(db, free.downstream)["lifecycle_phase"] == "runnable");
}

TEST_CASE("dependency adds up the events of one batch that meet in a group and judges them once") {
  const Database database;
  auto db = database.connect();
  const FanIn good = insert_fan_in(db, 3, {.policy = kAllOf});
  const FanIn bad = insert_fan_in(db, 4, {.policy = kAllOf});
  for (std::size_t i = 0; i < 3; ++i) end_upstream(db, good, i);
  end_upstream(db, bad, 0);
  end_upstream(db, bad, 1, "failed");
  end_upstream(db, bad, 2, "skipped");
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=6");
  CHECK(counts(db, good.downstream) == "3/0/0/0");
  CHECK(core(db, good.downstream)["lifecycle_phase"] == "runnable");
  CHECK(counts(db, bad.downstream) == "1/1/1/1");
  CHECK(core(db, bad.downstream)["public_state"] == "skipped");
  CHECK(number(db, "SELECT count(*) FROM ff_completion_event WHERE execution_id = $1",
               pg::Params::of(bad.downstream)) == 1);
}

TEST_CASE("dependency does not wait with one event of a group for another that is held up elsewhere") {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAllOf});
  const Uuid held = add_downstream(db, f, 0, 1);
  const auto first = end_upstream(db, f, 0);
  const auto second = end_upstream(db, f, 1);
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_edge_group WHERE downstream_eid = $1 FOR UPDATE", pg::Params::of(held));
  EngineFixture engine(database, "dependency");
  CHECK(engine->tick().skipped == kOneLocked);
  CHECK(counts(db, f.downstream) == "1/0/0/1");
  CHECK(dispatched_at(db, first).is_null());
  CHECK_FALSE(dispatched_at(db, second).is_null());
  holding.rollback();
  CHECK(engine->tick().processed == 1);
  CHECK(counts(db, f.downstream) == "2/0/0/0");
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "runnable");
}

TEST_CASE("dependency of two replicas at once counts each event once") {
  const Database database;
  auto db = database.connect();
  constexpr int kUpstreams = 60;
  std::vector<FanIn> fan_ins;
  for (int i = 0; i < 4; ++i) {
    fan_ins.push_back(insert_fan_in(db, kUpstreams, {.policy = kAllOf}));
    for (std::size_t u = 0; u < kUpstreams; ++u)
      end_upstream(db, fan_ins.back(), u, i == 0 && u > 30 ? "failed" : "success");
  }
  const auto undispatched = [&](pg::Connection& own) {
    return number(
        own,
        "SELECT count(*) FROM ff_completion_event WHERE dispatched_at_ms IS NULL AND outcome <> 'skipped'");
  };
  const auto work = [&] {
    auto own = database.connect();
    EngineFixture engine(database, "dependency", {.batch_size = 5});
    for (int i = 0; i < 500 && undispatched(own) > 0; ++i) engine->tick();
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(undispatched(db) == 0);
  CHECK(counts(db, fan_ins[0].downstream) == "31/29/0/0");
  CHECK(core(db, fan_ins[0].downstream)["public_state"] == "skipped");
  for (int i = 1; i < 4; ++i) {
    CHECK(counts(db, fan_ins[static_cast<std::size_t>(i)].downstream) == "60/0/0/0");
    CHECK(core(db, fan_ins[static_cast<std::size_t>(i)].downstream)["lifecycle_phase"] == "runnable");
  }
  CHECK(number(db, "SELECT count(*) FROM ff_completion_event WHERE outcome = 'skipped'") == 1);
}

TEST_CASE("dependency counts on from what another has counted since its statement began") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAllOf});
  const auto event = end_upstream(db, f, 0);
  StalledAct stalled(database, reconciler(), {{{3}, {std::to_string(event)}}});
  db.execute("UPDATE ff_edge_group SET success_count = 1, running_count = 1");
  CHECK(stalled.finish() == std::vector<std::string>{"advanced"});
  CHECK(counts(db, f.downstream) == "2/0/0/0");
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "runnable");
}

TEST_CASE("dependency does not count an event that another dispatches after its statement began") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAllOf});
  const auto event = end_upstream(db, f, 0);
  StalledAct stalled(database, reconciler(), {{{3}, {std::to_string(event)}}});
  db.execute("UPDATE ff_completion_event SET dispatched_at_ms = 77");
  CHECK(stalled.finish().empty());
  CHECK(counts(db, f.downstream) == "0/0/0/2");
  CHECK(dispatched_at(db, event) == 77);
}

TEST_CASE("dependency leaves a downstream for later that a worker claims after its statement began") {
  // The attempt that the worker makes is invisible to the statement: it could not take the lease away.
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf}, {.state = runnable()});
  const auto event = end_upstream(db, f, 0, "failed");
  StalledAct stalled(database, reconciler(), {{{3}, {std::to_string(event)}}});
  simulation::Worker worker(db, "w1", Milliseconds{60'000});
  const auto claim = worker.claim_one({{3}, f.downstream}).value();
  CHECK(stalled.finish().empty());
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "active");
  CHECK(counts(db, f.downstream) == "0/0/0/1");

  EngineFixture engine(database, "dependency");
  CHECK(engine->tick().processed == 1);
  CHECK(core(db, f.downstream)["public_state"] == "skipped");
  CHECK(attempt(db, f.downstream)["lease_expires_at_ms"].is_null());
  CHECK_FALSE(worker.complete(claim));
}
