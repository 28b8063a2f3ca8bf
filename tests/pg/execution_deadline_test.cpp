#include <catch2/catch.hpp>
#include <future>

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

constexpr std::int64_t kPast = kNow - 5000;
const Settings kIncludeWaiting = {{"include_waiting", 1}};

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("execution_deadline");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  /// An execution past its deadline; one that is active with its attempt and a lease.
  Uuid add(const State& state = active(), std::int64_t deadline_at_ms = kPast,
           const Json& raw_fields = Json::object()) {
    const Uuid id = insert_core(
        db, {.partition = {3}, .state = state, .deadline_at_ms = deadline_at_ms, .raw_fields = raw_fields});
    if (state.lifecycle_phase == "active")
      insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = kNow + 30'000});
    return id;
  }
};

Json expired_core(const Json& before) {
  Json raw_fields = before["raw_fields"].is_object() ? before["raw_fields"] : Json::object();
  raw_fields["last_failure_message"] = "execution_deadline";
  return changed(before, {{"lifecycle_phase", "terminal"},
                          {"ownership_state", "unowned"},
                          {"eligibility_state", "not_applicable"},
                          {"public_state", "expired"},
                          {"attempt_state", "attempt_terminal"},
                          {"terminal_at_ms", kNow},
                          {"raw_fields", raw_fields}});
}

Json interrupted(const Json& before) {
  return changed(before, {{"outcome", "interrupted"},
                          {"lease_expires_at_ms", nullptr},
                          {"lease_epoch", before["lease_epoch"].get<int>() + 1},
                          {"terminal_at_ms", kNow}});
}

Json lease_event(const Uuid& id, const Json& name_space = nullptr, const Json& tag = nullptr) {
  return {{"partition_key", 3},     {"execution_id", to_string(id)}, {"event_type", "expired"},
          {"occurred_at_ms", kNow}, {"namespace", name_space},       {"instance_tag", tag},
          {"lease_id", nullptr}};
}

}  // namespace

TEST_CASE("execution_deadline ends an execution past its deadline and touches nothing else") {
  Stage t;
  const Uuid flow = new_uuid();
  const Uuid id = insert_core(t.db, {.partition = {3},
                                     .flow = flow,
                                     .attempt_index = 2,
                                     .priority = 7,
                                     .deadline_at_ms = kPast,
                                     .policy = max_retries(9),
                                     .raw_fields = origin("a", "1")});
  t.db.execute("UPDATE ff_exec_core SET cancellation_reason = 'because', cancelled_by = 'somebody'");
  insert_attempt(t.db, {.partition = {3}, .execution = id, .attempt_index = 1, .outcome = "retry"});
  insert_attempt(t.db, {.partition = {3},
                        .execution = id,
                        .attempt_index = 2,
                        .lease_epoch = 41,
                        .lease_expires_at_ms = kNow + 30'000});
  insert_suspension(t.db, {.partition = {3}, .execution = id});
  insert_waitpoint(t.db, {.partition = {3}, .execution = id});
  insert_waitpoint(t.db, {.partition = {3}, .execution = id, .waitpoint_key = "k"});
  const Uuid neighbour = t.add(active(), kNow + 60'000);
  insert_suspension(t.db, {.partition = {3}, .execution = neighbour});
  insert_waitpoint(t.db, {.partition = {3}, .execution = neighbour});
  const Json core_before = core(t.db, id);
  const Json older = attempt(t.db, id, 1);
  const Json current = attempt(t.db, id, 2);
  const auto before = snapshot(t.db);

  const TickReport report = t.tick();
  CHECK(core(t.db, id) == expired_core(core_before));
  CHECK(attempt(t.db, id, 1) == older);
  CHECK(attempt(t.db, id, 2) == interrupted(current));
  CHECK(lease_events(t.db) == Json::array({lease_event(id, "a", "1")}));
  CHECK(completion_events(t.db) == Json::array({{{"partition_key", 3},
                                                 {"execution_id", to_string(id)},
                                                 {"flow_id", to_string(flow)},
                                                 {"outcome", "expired"},
                                                 {"namespace", "a"},
                                                 {"instance_tag", "1"},
                                                 {"occurred_at_ms", kNow},
                                                 {"dispatched_at_ms", nullptr}}}));
  CHECK(number(t.db, "SELECT count(*) FROM ff_suspension_current WHERE execution_id = $1",
               pg::Params::of(id)) == 0);
  CHECK(number(t.db, "SELECT count(*) FROM ff_waitpoint_pending WHERE execution_id = $1",
               pg::Params::of(id)) == 0);
  CHECK(beside(id, diff(before, snapshot(t.db))).empty());
  CHECK(outcomes(report) == "expired=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
}

TEST_CASE(
    "execution_deadline ends an active execution without a lease or an attempt, and tells of no lease") {
  Stage t;
  insert_core(t.db, {.partition = {3}, .attempt_index = 1, .deadline_at_ms = kPast});
  const Uuid ended = insert_core(t.db, {.partition = {3}, .attempt_index = 1, .deadline_at_ms = kPast});
  insert_attempt(t.db, {.partition = {3}, .execution = ended, .terminal_at_ms = 77, .outcome = "retry"});
  const Json ended_before = attempt(t.db, ended);
  const Uuid unleased = insert_core(t.db, {.partition = {4}, .deadline_at_ms = kPast});
  insert_attempt(t.db, {.partition = {4}, .execution = unleased});
  const Json current = attempt(t.db, unleased);
  CHECK(outcomes(t.tick()) == "expired=3");
  CHECK(attempt(t.db, ended) == changed(ended_before, {{"lease_epoch", 2}}));
  CHECK(number(t.db, "SELECT count(*) FROM ff_attempt") == 2);
  CHECK(attempt(t.db, unleased) == interrupted(current));
  CHECK(lease_events(t.db).empty());
  CHECK(completion_events(t.db).size() == 3);
}

TEST_CASE("execution_deadline fences the worker of a typed claim, below a dead attempt, too") {
  Stage t;
  // Claimed at 2, which sets the core to 3.
  const Uuid id = insert_core(t.db, {.partition = {3}, .attempt_index = 3, .deadline_at_ms = kPast});
  const auto add = [&](int index, std::optional<std::int64_t> expires) {
    insert_attempt(t.db, {.partition = {3},
                          .execution = id,
                          .attempt_index = index,
                          .lease_epoch = 7,
                          .lease_expires_at_ms = expires,
                          .outcome = expires ? std::nullopt : std::optional<std::string>("retry")});
  };
  add(2, kNow + 30'000);
  const bool below = GENERATE(false, true);
  if (below) add(4, std::nullopt);
  const Json current = attempt(t.db, id, 2);
  const Json core_before = core(t.db, id);
  CHECK(outcomes(t.tick()) == "expired=1");
  CHECK(core(t.db, id) == expired_core(core_before));
  CHECK(attempt(t.db, id, 2) == interrupted(current));
  if (below) CHECK(attempt(t.db, id, 4)["lease_epoch"] == 7);
  CHECK(lease_events(t.db) == Json::array({lease_event(id)}));
}

TEST_CASE("execution_deadline ends what waits only if told so, and never what is delayed or has ended") {
  Stage t;
  std::vector<Uuid> waiting;
  for (const State& state : {submitted(), runnable(), blocked(), suspended()})
    waiting.push_back(t.add(state));
  std::vector<RowKey> never;
  for (const State& state : {delayed(), terminal(), terminal("expired"), cancelled()})
    never.push_back({{3}, {to_string(t.add(state))}});
  insert_suspension(t.db, {.partition = {3}, .execution = waiting[3]});
  insert_waitpoint(t.db, {.partition = {3}, .execution = waiting[3]});
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  for (const Uuid& id : waiting) CHECK(act_on(t.db, reconciler(), {{{3}, {to_string(id)}}}).empty());
  CHECK(diff(before, snapshot(t.db)).empty());

  std::vector<Json> cores;
  for (const Uuid& id : waiting) cores.push_back(core(t.db, id));
  CHECK(outcomes(t.tick({.settings = kIncludeWaiting})) == "expired=4");
  auto changes = diff(before, snapshot(t.db));
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    CHECK(core(t.db, waiting[i]) == expired_core(cores[i]));
    changes = beside(waiting[i], changes);
  }
  CHECK(changes.empty());
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
  CHECK(snapshot(t.db, "ff_waitpoint_pending").empty());
  // Nothing that waits holds a lease.
  CHECK(lease_events(t.db).empty());
  CHECK(completion_events(t.db).size() == 4);

  // The same under the lock: the scan of one that is delayed by now would have found it runnable.
  auto all = reconciler();
  all.parameters = [](const Settings&, const reconcile::Family&) { return pg::Params::of(true); };
  for (const RowKey& key : never) CHECK(act_on(t.db, all, {key}).empty());
}

TEST_CASE("execution_deadline fences the attempt of what waits and tells of a lease that it still holds") {
  Stage t;
  const Uuid idle = t.add(runnable());
  insert_attempt(t.db,
                 {.partition = {3}, .execution = idle, .lease_epoch = 6, .outcome = "attempt_interrupted"});
  const Uuid leased = t.add(suspended());
  insert_attempt(t.db,
                 {.partition = {3}, .execution = leased, .lease_epoch = 8, .lease_expires_at_ms = kNow + 9});
  const Json idle_before = attempt(t.db, idle);
  const Json leased_before = attempt(t.db, leased);
  CHECK(t.tick({.settings = kIncludeWaiting}).processed == 2);
  CHECK(attempt(t.db, idle) == changed(idle_before, {{"lease_epoch", 7}, {"terminal_at_ms", kNow}}));
  CHECK(attempt(t.db, leased) == interrupted(leased_before));
  CHECK(lease_events(t.db) == Json::array({lease_event(leased)}));
}

TEST_CASE("execution_deadline leaves an execution alone to the end of the last millisecond") {
  Stage t;
  const Uuid past = t.add(active(), kNow - 1);
  const Uuid present = t.add(active(), kNow);
  t.db.execute("UPDATE ff_exec_core SET partition_key = 4 WHERE execution_id = $1", pg::Params::of(present));
  insert_core(t.db, {.partition = {5}});
  CHECK(act_on(t.db, reconciler(), {{{4}, {to_string(present)}}}).empty());
  const TickReport report = t.tick();
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(core(t.db, past)["lifecycle_phase"] == "terminal");
  CHECK(core(t.db, present)["lifecycle_phase"] == "active");
  CHECK(report.next_due == unix_millis(kNow + 1));
}

TEST_CASE("execution_deadline keeps the moment at which an execution was said to have ended") {
  Stage t;
  const Uuid id = t.add();
  t.db.execute("UPDATE ff_exec_core SET terminal_at_ms = 77");
  CHECK(t.tick().processed == 1);
  CHECK(core(t.db, id)["terminal_at_ms"] == 77);
}

TEST_CASE("execution_deadline skips an execution of which somebody holds any row and takes it later") {
  const std::string table =
      GENERATE("ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending");
  Stage t;
  const Uuid held = t.add();
  insert_suspension(t.db, {.partition = {3}, .execution = held});
  insert_waitpoint(t.db, {.partition = {3}, .execution = held});
  const Uuid free = t.add();
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE", pg::Params::of(held));
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "expired=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(beside(free, diff(before, snapshot(t.db))).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "expired=1");
  CHECK(core(t.db, held)["lifecycle_phase"] == "terminal");
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
}

TEST_CASE("execution_deadline leaves an execution alone that completes between looking and acting") {
  Stage t;
  const Uuid id = t.add();
  t.check_left_alone_after("UPDATE ff_exec_core SET lifecycle_phase = 'terminal' WHERE execution_id = $1",
                           pg::Params::of(id));
}

TEST_CASE("execution_deadline leaves an execution alone that is claimed while its statement is under way") {
  // The statement reads the clock once it has taken its snapshot, and there it is held up.
  const Database database;
  auto db = database.connect();
  auto gate = database.connect();
  db.execute_script(
      "CREATE SCHEMA gated; CREATE FUNCTION gated.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS"
      " 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN pg_catalog.clock_timestamp(); END';"
      " ALTER DATABASE " +
      database.name() + " SET search_path = gated, pg_catalog, public");
  auto actor = database.connect();
  const auto id = simulation::create(db, {.partition = {3}, .deadline_in = Milliseconds{-1000}});
  auto all = reconciler();
  all.parameters = [](const Settings&, const reconcile::Family&) { return pg::Params::of(true); };
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  // The first claim, or the next attempt after one that fails meanwhile.
  const auto earlier = GENERATE(false, true) ? worker.claim_one(id) : std::nullopt;

  gate.execute("SELECT pg_advisory_lock(7)");
  auto acting = std::async(std::launch::async, [&] {
    return act_on(actor, all, {{{3}, {to_string(id.uuid)}}});
  });
  while (number(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 0)
    continue;
  if (earlier) CHECK(worker.fail(*earlier, true));
  const auto claim = worker.claim_one(id);
  gate.execute("SELECT pg_advisory_unlock(7)");
  CHECK(acting.get().empty());
  CHECK(simulation::audit(db).empty());
  REQUIRE(claim);
  CHECK(worker.complete(*claim));
}

TEST_CASE("execution_deadline is not disturbed by raw_fields of any type, and filters when it is asked to") {
  Stage t;
  const Uuid mine = t.add(active(), kPast, origin("a", "1"));
  std::vector<Uuid> others;
  for (const Json& raw_fields :
       {origin("b", "1"), origin("a", "2"), Json("null"), Json(5), Json("text"), Json(true),
        Json::array({"namespace"}), Json{{"namespace", 5}, {"tags", {1, 2}}}})
    others.push_back(t.add(active(), kPast, raw_fields));
  t.db.execute("UPDATE ff_exec_core SET raw_fields = 'null' WHERE raw_fields = '\"null\"'");
  const auto filter = for_both("a", {"cairn.instance_id", "1"});
  for (const Uuid& id : others) CHECK(act_on(t.db, reconciler(), {{{3}, {to_string(id)}}}, filter).empty());
  CHECK(t.tick({.filter = filter}).scanned == 1);
  CHECK(core(t.db, mine)["lifecycle_phase"] == "terminal");
  std::vector<Json> cores;
  for (const Uuid& id : others) cores.push_back(core(t.db, id));
  CHECK(t.tick().processed == 8);
  for (std::size_t i = 0; i < others.size(); ++i) CHECK(core(t.db, others[i]) == expired_core(cores[i]));
}

TEST_CASE("execution_deadline changes nothing when it runs again") {
  Stage t;
  t.add();
  t.add(suspended());
  REQUIRE(t.tick({.settings = kIncludeWaiting}).processed == 2);
  const auto after = snapshot(t.db);
  CHECK(t.tick({.settings = kIncludeWaiting}).scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE(
    "execution_deadline refuses a worker whose execution it has ended, and leaves everything in order") {
  const Database database;
  auto db = database.connect();
  const simulation::NewExecution late{
      .partition = {3}, .deadline_in = Milliseconds{-1000}, .name_space = "a"};
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  const auto running = worker.claim_one(simulation::create(db, late)).value();
  REQUIRE(worker.suspend(worker.claim_one(simulation::create(db, late)).value(),
                         {.waitpoints = {{.key = "k"}, {}}}));
  simulation::create(db, late);
  EngineFixture engine(database, "execution_deadline", {.settings = kIncludeWaiting});
  CHECK(outcomes(engine->tick()) == "expired=3");
  CHECK(simulation::audit(db).empty());
  const auto after = snapshot(db);
  CHECK_FALSE(worker.renew(running));
  CHECK_FALSE(worker.complete(running));
  CHECK_FALSE(worker.fail(running, true));
  CHECK(diff(after, snapshot(db)).empty());
}

TEST_CASE("execution_deadline tells executions of the same number in two partitions apart") {
  Stage t;
  const Uuid id = t.add();
  insert_core(t.db, {.partition = {4}, .execution = id, .deadline_at_ms = kNow});
  // Due as well, so that one statement is about both partitions.
  insert_core(t.db, {.partition = {4}, .deadline_at_ms = kPast});
  CHECK(outcomes(t.tick()) == "expired=2");
  CHECK(completion_events(t.db).size() == 2);
  CHECK(number(t.db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'active'") == 1);
  const Uuid both = t.add();
  insert_core(t.db, {.partition = {4}, .execution = both, .deadline_at_ms = kPast});
  CHECK(outcomes(t.tick()) == "expired=2");
  CHECK(completion_events(t.db).size() == 4);
}

TEST_CASE("execution_deadline does not mind that others refer to the key of the core") {
  Stage t;
  t.add();
  auto other = t.database.connect();
  pg::Transaction referring(other);
  referring.execute("SELECT FROM ff_exec_core FOR KEY SHARE");
  CHECK(outcomes(t.tick()) == "expired=1");
}

TEST_CASE("execution_deadline ends a single execution by hand") {
  Stage t;
  const Uuid id = t.add();
  const Uuid other = t.add();
  EngineFixture engine(t.database, "execution_deadline");
  CHECK(outcomes(engine->tick_one({{3}, id})) == "expired=1");
  CHECK(core(t.db, id)["lifecycle_phase"] == "terminal");
  CHECK(core(t.db, other)["lifecycle_phase"] == "active");
}
