// execution_retention, and executions that are in no flow.
#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "execution_retention_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace ff::test::retention;
using reconcile::Skip;
using reconcile::TickReport;

TEST_CASE("execution_retention is off unless asked for and keeps thirty days, an hour at the least") {
  CHECK_FALSE(reconciler().on_by_default);
  CHECK(reconciler().settings[0].name == "age");
  CHECK(reconciler().settings[0].fallback == kAge);
  CHECK(reconciler().settings[0].least == kHour);
}

TEST_CASE(
    "execution_retention deletes an old execution with all that is found by it, and nothing of others") {
  Stage t;
  t.add_ended(kOld + 1);
  t.add_ended(kOld, {}, "a", "runnable");
  insert_core(t.db, {.partition = kThree, .state = active()});
  const auto before = snapshot(t.db);
  const std::int64_t rows = t.left();
  const Uuid old = t.add_ended(kOld);
  t.add_ended(kOld, {}, "a", "cancelled");
  t.db.execute(
      "INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, suspended_at_ms, "
      "condition)"
      " VALUES (3, $1, $1, 1, '{}')",
      pg::Params::of(old));
  t.db.execute(
      "INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, token_kid, token, "
      "created_at_ms)"
      " VALUES (3, $1, $1, 'k', 't', 1)",
      pg::Params::of(old));
  t.db.execute(
      "INSERT INTO ff_claim_grant (partition_key, grant_id, execution_id, kind, worker_id, "
      "worker_instance_id,"
      " grant_ttl_ms, issued_at_ms, expires_at_ms) VALUES (3, '\\x01', $1, 'claim', 'w', 'w', 1, 1, 1)",
      pg::Params::of(old));
  CHECK(outcomes(t.tick()) == "executions_deleted=2");
  CHECK(t.left() == rows);
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("execution_retention counts the age from the latest sign of life") {
  Stage t;
  const Uuid execution = t.add_ended(kOld);
  const std::vector<std::pair<std::string, std::string>> signs{{"ff_exec_core", "created_at_ms"},
                                                               {"ff_exec_core", "started_at_ms"},
                                                               {"ff_exec_core", "terminal_at_ms"},
                                                               {"ff_attempt", "started_at_ms"},
                                                               {"ff_completion_event", "committed_at_ms"}};
  for (const auto& [table, column] : signs) {
    INFO(table << "." << column);
    const auto set = [&](std::int64_t at) {
      t.db.execute("UPDATE " + table + " SET " + column + " = $1", pg::Params::of(at));
    };
    set(kOld + 1);
    CHECK(t.tick().processed == 0);
    set(kOld);
  }
  CHECK(t.is_there(execution));
  CHECK(t.tick().processed == 1);
}

TEST_CASE(
    "execution_retention has ages by namespace, keeps what is to be kept, and the policy's own goes first") {
  Stage t;
  const Settings ages{{"ages.tenant-a", 7 * kDay}, {"ages.audit", std::nullopt}};
  const Uuid week = t.add_ended(kNow - 8 * kDay, {}, "tenant-a");
  const Uuid other = t.add_ended(kNow - 8 * kDay, {}, "tenant-b");
  const Uuid kept = t.add_ended(0, {}, "audit");
  const Uuid own = t.add_ended(kNow - 2 * kHour, {}, "audit");
  t.set(R"(policy = '{"stream_policy": {"retention_ttl_ms": 3600000}}')", own);
  const Uuid odd = t.add_ended(kNow - 8 * kDay, {}, "tenant-b");
  t.set(R"(policy = '{"stream_policy": {"retention_ttl_ms": -1}}')", odd);
  const Uuid longer = t.add_ended(kNow - 8 * kDay, {}, "tenant-a");
  t.set(R"(policy = '{"stream_policy": {"retention_ttl_ms": 999999999999999}}')", longer);
  std::vector<Uuid> staying{other, kept, odd, longer};
  // FlowFabric's is a u64.
  for (const char* ever : {"2000000000000000", "9223372036854775807", "18446744073709551615"}) {
    const Uuid id = t.add_ended(0);
    t.set(R"(policy = '{"stream_policy": {"retention_ttl_ms": )" + std::string(ever) + "}}'", id);
    staying.push_back(id);
  }
  CHECK(outcomes(t.tick({.settings = ages})) == "executions_deleted=2");
  CHECK_FALSE(t.is_there(week));
  CHECK_FALSE(t.is_there(own));
  for (const Uuid& id : staying) CHECK(t.is_there(id));
}

TEST_CASE("execution_retention leaves what has a lease, or an end that was not passed on") {
  Stage t;
  const Uuid leased = t.add_ended(kOld);
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 1 WHERE execution_id = $1",
               pg::Params::of(leased));
  const Uuid waited = t.add_ended(kOld);
  t.db.execute("UPDATE ff_completion_event SET dispatched_at_ms = NULL WHERE execution_id = $1",
               pg::Params::of(waited));
  CHECK(t.tick().scanned == 0);
  CHECK(act_on(t.db, reconciler(), {{kThree, {to_string(leased)}}, {kThree, {to_string(waited)}}}).empty());
}

TEST_CASE("execution_retention leaves alone what has changed since it looked") {
  const std::string replayed = "UPDATE ff_exec_core SET lifecycle_phase = 'runnable'";
  const std::string leased = "UPDATE ff_attempt SET lease_expires_at_ms = 1";
  const std::string told =
      "INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms, "
      "committed_at_ms)"
      " SELECT 3, execution_id, 'resumable', 1, 1 FROM ff_exec_core";
  SECTION("an execution") {
    Stage t;
    t.add_ended(kOld);
    const std::string joined = "UPDATE ff_exec_core SET flow_id = gen_random_uuid()";
    t.check_left_alone_after(GENERATE_COPY(values({replayed, leased, told, joined})));
  }
  SECTION("a flow") {
    Stage t;
    const Uuid flow = t.add_flow(kOld);
    const Uuid member = t.add_ended(kOld, flow);
    t.add_edge(flow, member, t.add_ended(kOld, flow));
    const std::string changed =
        "UPDATE ff_flow_core SET raw_fields = '{\"last_mutation_at_ms\": 1800000000000}'";
    const std::string cancelled =
        "INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, requester, "
        "cancellation_policy)"
        " SELECT 3, flow_id, 1, 'o', 'flow_only' FROM ff_flow_core";
    const std::string joined =
        "INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, "
        "ownership_state,"
        "  eligibility_state, public_state, attempt_state, created_at_ms)"
        " SELECT 3, gen_random_uuid(), flow_id, 'default', 'submitted', 'unowned', 'eligible_now', "
        "'waiting', 'pending', 1"
        "   FROM ff_flow_core";
    t.check_left_alone_after(GENERATE_COPY(values({replayed, leased, told, changed, cancelled, joined})));
  }
}

TEST_CASE("execution_retention is not misled by a clock that runs years behind, and waits for one ahead") {
  Stage t;
  const Uuid behind = t.add_ended(1);
  t.db.execute("UPDATE ff_completion_event SET committed_at_ms = $1 WHERE execution_id = $2",
               pg::Params::of(kNow, behind));
  const Uuid ahead = t.add_ended(kOld);
  t.set("terminal_at_ms = " + std::to_string(kNow + kDay), ahead);
  const Uuid beyond = t.add_ended(kOld);
  t.set("terminal_at_ms = 9223372036854775807", beyond);
  t.add_flow(kNow + kDay);
  const Uuid odd = t.add_flow(kOld);
  t.db.execute(
      "UPDATE ff_flow_core SET raw_fields = '{\"last_mutation_at_ms\": \"soon\"}' WHERE flow_id = $1",
      pg::Params::of(odd));
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  for (const Uuid& id : {behind, ahead, beyond}) CHECK(t.is_there(id));
}

TEST_CASE("execution_retention deletes no more rows a second than it may, but all by hand") {
  Stage t;
  for (int i = 0; i < 8; ++i) t.add_ended(kOld);
  EngineFixture engine(t.database, reconciler(), {.batch_size = 1, .settings = {{"max_rows_per_second", 5}}});
  const reconcile::TickOptions rate_limited{.rate_limited = true};
  // Each is a core row, an attempt, an event, two frames and their meta: six.
  TickReport report = engine->tick(rate_limited);
  CHECK(report.processed == 1);
  CHECK(report.more);
  CHECK(report.wait == Milliseconds{1200});
  CHECK(engine->tick(rate_limited).processed == 0);
  engine.clock().advance(Milliseconds{1200});
  report = engine->tick(rate_limited);
  CHECK(report.processed == 1);
  CHECK(engine->tick().processed == 6);
  CHECK(t.left() == 0);
}

TEST_CASE("execution_retention works off a second's worth of rows, and then rests for as long") {
  Stage t;
  for (int i = 0; i < 12; ++i) t.add_ended(kOld);
  EngineFixture engine(t.database, reconciler(),
                       {.batch_size = 1, .settings = {{"max_rows_per_second", 24}}});
  const reconcile::TickOptions rate_limited{.rate_limited = true};
  TickReport report = engine->tick(rate_limited);
  CHECK(report.processed == 4);
  CHECK(report.more);
  CHECK(report.wait == Milliseconds{1000});
  engine.clock().advance(Milliseconds{500});
  report = engine->tick(rate_limited);
  CHECK(report.processed == 2);
  CHECK(report.wait == Milliseconds{1000});
}

TEST_CASE("execution_retention leaves a unit of which somebody holds anything, and takes it later") {
  Stage t;
  const Uuid flow = t.add_flow(kOld);
  const Uuid member = t.add_ended(kOld, flow);
  t.add_edge(flow, member, member);
  const std::int64_t rows = t.left();
  auto other = t.database.connect();
  for (const char* held :
       {"ff_flow_core", "ff_exec_core", "ff_attempt", "ff_completion_event", "ff_edge_group", "ff_edge"}) {
    INFO(held);
    pg::Transaction holding(other);
    holding.execute("SELECT FROM " + std::string(held) + " FOR UPDATE");
    CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
    CHECK(t.left() == rows);
    holding.rollback();
  }
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  CHECK(t.left() == 0);
}

TEST_CASE("execution_retention goes by frames, ten thousand a transaction") {
  Stage t;
  const Uuid many = t.add_ended(kOld);
  t.db.execute("DELETE FROM ff_stream_frame");
  t.add_frames(many, 10'500);
  const TickReport first = t.tick();
  CHECK(outcomes(first) == "unfinished=1");
  CHECK(first.more);
  CHECK(number(t.db, "SELECT count(*) FROM ff_stream_frame") == 500);
  CHECK(t.is_there(many));
  CHECK(outcomes(t.tick()) == "executions_deleted=1");
  CHECK(t.left() == 0);
}

TEST_CASE(
    "execution_retention deletes as many executions a transaction as have ten thousand frames together") {
  const int frames = GENERATE(5'000, 5'001);
  Stage t;
  for (int i = 0; i < 2; ++i) t.add_ended(kOld);
  const Uuid bare = t.add_ended(kOld);
  t.db.execute("DELETE FROM ff_stream_frame");
  t.db.execute(
      "INSERT INTO ff_stream_frame (partition_key, execution_id, attempt_index, ts_ms, seq, fields, mode,"
      "  created_at_ms)"
      " SELECT 3, execution_id, 0, i, 1, '{}', 'durable', 1 FROM ff_exec_core, generate_series(1, $2) i"
      "  WHERE execution_id <> $1",
      pg::Params::of(bare, frames));
  const TickReport first = t.tick();
  const bool is_all = frames == 5'000;
  CHECK(first.more != is_all);
  CHECK(number(t.db, "SELECT count(*) FROM ff_stream_frame") == (is_all ? 0 : frames));
  CHECK(first.outcomes.contains("unfinished") != is_all);
  if (!is_all) CHECK_FALSE(t.tick().outcomes.contains("unfinished"));
  CHECK(t.left() == 0);
}

TEST_CASE("execution_retention deletes rows by which repetitions were known") {
  Stage t;
  t.db.execute(
      "INSERT INTO ff_budget_usage_dedup VALUES (3, 'old', '{}', 1, $1), (3, 'young', '{}', 1, $1 + 1)",
      pg::Params::of(kNow - kHour - 1));
  t.db.execute("INSERT INTO ff_suspend_dedup VALUES (3, 'old', '{}', $1), (3, 'young', '{}', $1 + 1)",
               pg::Params::of(kOld));
  CHECK(outcomes(t.tick()) == "dedup_rows_deleted=2");
  CHECK(number(t.db, "SELECT count(*) FROM ff_budget_usage_dedup WHERE dedup_key = 'young'") == 1);
  CHECK(number(t.db, "SELECT count(*) FROM ff_suspend_dedup WHERE idempotency_key = 'young'") == 1);
}
