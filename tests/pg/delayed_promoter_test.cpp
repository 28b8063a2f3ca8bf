#include <catch2/catch.hpp>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("delayed_promoter");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  Uuid add(const State& state, std::optional<std::int64_t> until, const Json& raw_fields = Json::object()) {
    return insert_core(db,
                       {.partition = {3}, .state = state, .deadline_at_ms = until, .raw_fields = raw_fields});
  }
  Uuid add_due() { return add(delayed(), kNow - 1000); }

  /// Rows that must stay as they are, by themselves and beside others.
  std::vector<RowKey> add_bystanders() {
    State delayed_but_blocked = delayed();
    delayed_but_blocked.lifecycle_phase = "blocked";
    std::vector<RowKey> keys;
    for (const State& state : {runnable(), active(), suspended(), blocked(), submitted(), terminal(),
                               cancelled(), delayed_but_blocked})
      keys.push_back({{3}, {to_string(add(state, kNow - 1000))}});
    keys.push_back({{3}, {to_string(add(delayed(), kNow + 1))}});
    keys.push_back({{3}, {to_string(add(delayed(), std::nullopt))}});
    return keys;
  }
};

/// A core row that was promoted, to be claimed next at this index.
Json promoted(const Json& before, int attempt_index = 0) {
  return changed(before, {{"eligibility_state", "eligible_now"},
                          {"deadline_at_ms", nullptr},
                          {"public_state", "waiting"},
                          {"attempt_index", attempt_index},
                          {"raw_fields", changed(before["raw_fields"],
                                                 {{"total_attempt_count", std::to_string(attempt_index)}})}});
}

}  // namespace

TEST_CASE("delayed_promoter makes an execution claimable whose delay is over and touches nothing else") {
  Stage t;
  t.add_bystanders();
  const Uuid id = insert_core(t.db, {.partition = {3},
                                     .flow = new_uuid(),
                                     .state = delayed(),
                                     .attempt_index = 2,
                                     .priority = 7,
                                     .deadline_at_ms = kNow - 5000,
                                     .policy = max_retries(3),
                                     .raw_fields = origin("a", "1")});
  // The same execution's number in another partition is another execution.
  insert_core(t.db, {.partition = {4}, .execution = id, .state = delayed(), .deadline_at_ms = kNow + 60'000});
  insert_attempt(t.db, {.partition = {3}, .execution = id, .attempt_index = 2, .outcome = "interrupted"});
  const auto own = [&] {
    return row(t.db, "SELECT * FROM ff_exec_core WHERE partition_key = 3 AND execution_id = $1",
               pg::Params::of(id));
  };
  const Json core_before = own();
  const auto before = snapshot(t.db);

  const TickReport report = t.tick();
  CHECK(own() == promoted(core_before, 2));
  CHECK(diff(before, snapshot(t.db)).size() == 2);
  CHECK(outcomes(report) == "promoted=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
  CHECK(report.error_count() == 0);
}

TEST_CASE("delayed_promoter promotes at the very millisecond at which the delay ends") {
  Stage t;
  const Uuid past = t.add(delayed(), kNow - 1);
  const Uuid present = t.add(delayed(), kNow);
  const Uuid future = t.add(delayed(), kNow + 1);
  const TickReport report = t.tick();
  CHECK(report.processed == 2);
  CHECK(core(t.db, past)["eligibility_state"] == "eligible_now");
  CHECK(core(t.db, present)["eligibility_state"] == "eligible_now");
  CHECK(core(t.db, future)["eligibility_state"] == "not_eligible_until_time");
  CHECK(report.next_due == unix_millis(kNow + 1));
  CHECK(act_on(t.db, reconciler(), {{{3}, {to_string(future)}}}).empty());
}

TEST_CASE("delayed_promoter repeats each of its conditions under the lock") {
  Stage t;
  const auto bystanders = t.add_bystanders();
  const Uuid due = t.add(delayed(), kNow, origin("a", "1"));
  const auto before = snapshot(t.db);
  for (const RowKey& key : bystanders) CHECK(act_on(t.db, reconciler(), {key}).empty());
  CHECK(act_on(t.db, reconciler(), {{{4}, {to_string(due)}}}).empty());
  CHECK(act_on(t.db, reconciler(), {{{3}, {to_string(due)}}}, for_namespace("b")).empty());
  CHECK(act_on(t.db, reconciler(), {{{3}, {to_string(due)}}}, for_tag("2")).empty());
  CHECK(diff(before, snapshot(t.db)).empty());
  CHECK(act_on(t.db, reconciler(), {{{3}, {to_string(due)}}}) == std::vector<std::string>{"promoted"});
}

TEST_CASE("delayed_promoter leaves an execution alone that is promoted between looking and acting") {
  Stage t;
  const Uuid id = t.add_due();
  t.check_left_alone_after(
      "UPDATE ff_exec_core SET eligibility_state = 'eligible_now' WHERE execution_id = $1",
      pg::Params::of(id));
}

TEST_CASE("delayed_promoter skips an execution that somebody else holds and takes it later") {
  Stage t;
  const Uuid held = t.add_due();
  const Uuid free = t.add_due();
  const Json before = core(t.db, held);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(held));
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "promoted=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(core(t.db, held) == before);
  CHECK(core(t.db, free)["eligibility_state"] == "eligible_now");
  holding.rollback();
  CHECK(t.tick().processed == 1);
  CHECK(core(t.db, held) == promoted(before));
}

TEST_CASE("delayed_promoter takes an execution to whose key others refer, and whose attempt they hold") {
  Stage t;
  insert_attempt(t.db, {.partition = {3}, .execution = t.add_due()});
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core FOR KEY SHARE");
  holding.execute("SELECT FROM ff_attempt FOR UPDATE");
  CHECK(t.tick().processed == 1);
}

TEST_CASE("delayed_promoter takes only what the filter asks for") {
  Stage t;
  const Uuid mine = t.add(delayed(), kNow, origin("a", "1"));
  for (const Json& raw_fields :
       {origin("b", "1"), origin("a", "2"), Json::object(), Json("null"), Json("a"),
        Json::array({"namespace", "tags"}), Json{{"namespace", nullptr}, {"tags", 5}}})
    t.add(delayed(), kNow, raw_fields);
  t.db.execute("UPDATE ff_exec_core SET raw_fields = 'null' WHERE raw_fields = '\"null\"'");
  const TickReport report = t.tick({.filter = for_both("a", {"cairn.instance_id", "1"})});
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(core(t.db, mine)["eligibility_state"] == "eligible_now");
  // Without a filter no data is too odd to be promoted.
  CHECK(outcomes(t.tick()) == "promoted=7");
}

TEST_CASE("delayed_promoter changes nothing when it runs again") {
  Stage t;
  t.add_due();
  REQUIRE(t.tick().processed == 1);
  const auto after = snapshot(t.db);
  const TickReport report = t.tick();
  CHECK(report.scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE("an execution that its worker delayed can be claimed again once delayed_promoter has run") {
  const Database database;
  auto db = database.connect();
  const auto id = simulation::create(db, {.partition = {3}, .name_space = "a", .instance_tag = "1"});
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  REQUIRE(worker.delay(worker.claim_one(id).value(), Milliseconds{0}));
  REQUIRE_FALSE(worker.claim_one(id));
  EngineFixture engine(database, "delayed_promoter");
  CHECK(outcomes(engine->tick()) == "promoted=1");
  CHECK(simulation::audit(db).empty());
  const auto again = worker.claim_one(id);
  REQUIRE(again);
  CHECK(worker.complete(*again));
  CHECK(lease_events(db).size() == 4);
  CHECK(simulation::audit(db).empty());
}

TEST_CASE("delayed_promoter tells executions of the same number in two partitions apart") {
  Stage t;
  const Uuid id = t.add_due();
  insert_core(t.db, {.partition = {4}, .execution = id, .state = delayed(), .deadline_at_ms = kNow + 1});
  // Due as well, so that one statement is about both partitions.
  insert_core(t.db, {.partition = {4}, .state = delayed(), .deadline_at_ms = kNow});
  CHECK(outcomes(t.tick()) == "promoted=2");
  CHECK(number(t.db, "SELECT deadline_at_ms FROM ff_exec_core WHERE partition_key = 4 AND execution_id = $1",
               pg::Params::of(id)) == kNow + 1);
  const Uuid both = t.add_due();
  insert_core(t.db, {.partition = {4}, .execution = both, .state = delayed(), .deadline_at_ms = kNow});
  CHECK(outcomes(t.tick()) == "promoted=2");
}

TEST_CASE("delayed_promoter promotes a single execution by hand") {
  Stage t;
  const Uuid id = t.add_due();
  const Uuid other = t.add_due();
  EngineFixture engine(t.database, "delayed_promoter");
  CHECK(outcomes(engine->tick_one({{3}, id})) == "promoted=1");
  CHECK(core(t.db, id)["eligibility_state"] == "eligible_now");
  CHECK(core(t.db, other)["eligibility_state"] == "not_eligible_until_time");
}
