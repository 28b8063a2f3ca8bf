#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "pg/transaction.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kAge = 30 * kDay;
constexpr std::int64_t kOld = kNow - kAge - 1;  // just old enough
constexpr PartitionKey kThree{3};

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("execution_retention");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  /// One that ended at this moment, with something in each table that is found by it.
  Uuid add_ended(std::int64_t at, const std::optional<Uuid>& flow = {}, const std::string& name_space = "a",
                 const std::string& phase = "terminal") {
    const Uuid id = new_uuid();
    db.execute(
        "INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, "
        "ownership_state,"
        "  eligibility_state, public_state, attempt_state, created_at_ms, terminal_at_ms, raw_fields)"
        " VALUES (3, $1, $2, 'default', $3, 'unowned', 'not_applicable', 'completed', 'attempt_terminal', "
        "$4, $4,"
        "  jsonb_build_object('namespace', $5::text))",
        pg::Params::of(id, flow, phase, at, name_space));
    db.execute(
        "INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, started_at_ms) VALUES (3, $1, "
        "0, $2)",
        pg::Params::of(id, at));
    db.execute(
        "INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms, "
        "committed_at_ms,"
        "  dispatched_at_ms) VALUES (3, $1, 'success', $2, $2, $2)",
        pg::Params::of(id, at));
    add_frames(id, 2);
    db.execute("INSERT INTO ff_stream_meta (partition_key, execution_id, attempt_index) VALUES (3, $1, 0)",
               pg::Params::of(id));
    return id;
  }
  void add_frames(const Uuid& id, int count) {
    db.execute(
        "INSERT INTO ff_stream_frame (partition_key, execution_id, attempt_index, ts_ms, seq, fields, mode, "
        "created_at_ms)"
        " SELECT 3, $1, 0, i, 1, '{}', 'durable', 1 FROM generate_series(1, $2) i",
        pg::Params::of(id, count));
  }
  Uuid add_flow(std::int64_t at) {
    const Uuid flow = new_uuid();
    db.execute(
        "INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms, raw_fields)"
        " VALUES (3, $1, 'open', $2, jsonb_build_object('last_mutation_at_ms', $2::bigint))",
        pg::Params::of(flow, at));
    return flow;
  }
  void add_edge(const Uuid& flow, const Uuid& upstream, const Uuid& downstream) {
    db.execute(
        "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)"
        " VALUES (3, $1, gen_random_uuid(), $2, $3, '{}')",
        pg::Params::of(flow, upstream, downstream));
    db.execute(
        "INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy) VALUES (3, $1, $2, '{}')"
        " ON CONFLICT DO NOTHING",
        pg::Params::of(flow, downstream));
  }
  /// How many rows of all these tables are there.
  std::int64_t left() {
    std::int64_t rows = 0;
    for (const char* table :
         {"ff_exec_core", "ff_flow_core", "ff_attempt", "ff_stream_frame", "ff_stream_meta",
          "ff_stream_summary", "ff_completion_event", "ff_edge", "ff_edge_group", "ff_pending_cancel_groups",
          "ff_claim_grant", "ff_waitpoint_pending", "ff_suspension_current", "ff_cancel_backlog_member",
          "ff_flow_summary"})
      rows += number(db, "SELECT count(*) FROM " + std::string(table));
    return rows;
  }
  /// A flow of so many members that have ended, with nothing else.
  Uuid add_large_flow(int members) {
    const Uuid flow = add_flow(kOld);
    db.execute(
        "INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, "
        "ownership_state,"
        "  eligibility_state, public_state, attempt_state, created_at_ms, terminal_at_ms)"
        " SELECT 3, gen_random_uuid(), $1, 'default', 'terminal', 'unowned', 'not_applicable', 'completed',"
        "  'attempt_terminal', 1, 1 FROM generate_series(1, $2) i",
        pg::Params::of(flow, members));
    add_edge(flow, new_uuid(), new_uuid());
    return flow;
  }
  bool is_there(const Uuid& execution) {
    return number(db, "SELECT count(*) FROM ff_exec_core WHERE execution_id = $1",
                  pg::Params::of(execution)) == 1;
  }
  void set(const std::string& what, const Uuid& execution) {
    db.execute("UPDATE ff_exec_core SET " + what + " WHERE execution_id = $1", pg::Params::of(execution));
  }
};

}  // namespace

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
  CHECK(outcomes(t.tick({.settings = ages})) == "executions_deleted=2");
  CHECK_FALSE(t.is_there(week));
  CHECK_FALSE(t.is_there(own));
  for (const Uuid& id : {other, kept, odd, longer}) CHECK(t.is_there(id));
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

TEST_CASE("execution_retention deletes a whole flow once its last member is old, with edges and groups") {
  Stage t;
  const Uuid flow = t.add_flow(kOld);
  const Uuid first = t.add_ended(kOld, flow);
  const Uuid last = t.add_ended(kOld + 1, flow);
  t.add_edge(flow, first, last);
  const std::int64_t rows = t.left();
  CHECK(t.tick().processed == 0);
  CHECK(t.left() == rows);
  t.set("terminal_at_ms = terminal_at_ms - 1, created_at_ms = created_at_ms - 1", last);
  t.db.execute("UPDATE ff_attempt SET started_at_ms = $1", pg::Params::of(kOld));
  t.db.execute("UPDATE ff_completion_event SET committed_at_ms = $1", pg::Params::of(kOld));
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  CHECK(t.left() == 0);
}

TEST_CASE("execution_retention keeps a flow that lives, changes or is being cancelled") {
  Stage t;
  const Uuid flow = t.add_flow(kOld);
  const Uuid first = t.add_ended(kOld, flow);
  const Uuid second = t.add_ended(kOld, flow);
  t.add_edge(flow, first, second);
  const auto kept_while = [&](const std::string& doing, const std::string& undoing) {
    INFO(doing);
    t.db.execute(doing, pg::Params::of(flow));
    CHECK(t.tick().processed == 0);
    CHECK(act_on(t.db, reconciler().companions.front(), {{kThree, {to_string(flow)}}}).empty());
    t.db.execute(undoing, pg::Params::of(flow));
  };
  kept_while("UPDATE ff_flow_core SET created_at_ms = created_at_ms + 1 WHERE flow_id = $1",
             "UPDATE ff_flow_core SET created_at_ms = created_at_ms - 1 WHERE flow_id = $1");
  kept_while(
      "UPDATE ff_flow_core SET raw_fields = raw_fields || '{\"last_mutation_at_ms\": 1800000000000}' WHERE "
      "flow_id = $1",
      "UPDATE ff_flow_core SET raw_fields = '{}' WHERE flow_id = $1");
  kept_while(
      "INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, requester, "
      "cancellation_policy)"
      " VALUES (3, $1, 1, 'o', 'flow_only')",
      "DELETE FROM ff_cancel_backlog WHERE flow_id = $1");
  t.db.execute(
      "INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)"
      " VALUES (3, $1, $2, 1)",
      pg::Params::of(flow, second));
  kept_while("UPDATE ff_edge_group SET cancel_siblings_pending_flag = true WHERE flow_id = $1",
             "UPDATE ff_edge_group SET cancel_siblings_pending_flag = false WHERE flow_id = $1");
  kept_while(
      "UPDATE ff_exec_core SET lifecycle_phase = 'runnable' WHERE flow_id = $1 AND execution_id ="
      " (SELECT min(execution_id::text)::uuid FROM ff_exec_core WHERE flow_id = $1)",
      "UPDATE ff_exec_core SET lifecycle_phase = 'terminal' WHERE flow_id = $1");
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  CHECK(t.left() == 0);
}

TEST_CASE("execution_retention deletes a large flow in slices, and a replay between two saves the rest") {
  Stage t;
  const Uuid flow = t.add_large_flow(1500);
  const auto members = [&] { return number(t.db, "SELECT count(*) FROM ff_exec_core"); };
  const TickReport first = t.tick();
  CHECK(outcomes(first) == "executions_deleted=1");
  CHECK(first.more);
  CHECK(members() == 500);
  CHECK(number(t.db, "SELECT count(*) FROM ff_edge") == 1);
  t.db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'runnable' WHERE execution_id ="
      " (SELECT max(execution_id::text)::uuid FROM ff_exec_core)");
  CHECK(t.tick().scanned == 0);
  CHECK(act_on(t.db, reconciler().companions.front(), {{kThree, {to_string(flow)}}}).empty());
  CHECK(members() == 500);
  t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'terminal'");
  const TickReport last = t.tick();
  CHECK(outcomes(last) == "flows_deleted=1");
  CHECK_FALSE(last.more);
  CHECK(t.left() == 0);
}

TEST_CASE("execution_retention, killed between two slices, leaves a flow that the next one finishes") {
  Stage t;
  t.add_large_flow(2000);
  {
    EngineFixture killed(t.database, reconciler());
    CHECK(outcomes(killed->tick()) == "executions_deleted=1");
  }
  CHECK(number(t.db, "SELECT count(*) FROM ff_exec_core") == 1000);
  CHECK(outcomes(t.tick()) == "executions_deleted=1");
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  CHECK(t.left() == 0);
}

TEST_CASE("two daemons at once delete no execution and no flow twice") {
  Stage t;
  constexpr int kFlows = 60;
  for (int i = 0; i < kFlows; ++i) {
    const Uuid flow = t.add_flow(kOld);
    const Uuid first = t.add_ended(kOld, flow);
    t.add_edge(flow, first, t.add_ended(kOld, flow));
    t.add_ended(kOld);
  }
  std::array<TickReport, 2> reports;
  {
    EngineFixture one(t.database, reconciler(), {.batch_size = 7});
    EngineFixture two(t.database, reconciler(), {.batch_size = 7});
    std::thread beside([&] { reports[0] = one->tick(); });
    reports[1] = two->tick();
    beside.join();
  }
  std::map<std::string, std::int64_t, std::less<>> sums = t.tick().outcomes;
  for (const TickReport& report : reports) {
    CHECK(report.error_count() == 0);
    for (const auto& [outcome, count] : report.outcomes) sums[outcome] += count;
  }
  CHECK(sums == decltype(sums){{"executions_deleted", kFlows}, {"flows_deleted", kFlows}});
  CHECK(t.left() == 0);
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

TEST_CASE(
    "execution_retention leaves a flow to whoever adds an edge, and nobody adds one to what it deletes") {
  Stage t;
  const Uuid flow = t.add_flow(kOld);
  const Uuid member = t.add_ended(kOld, flow);
  const std::string add =
      "UPDATE ff_flow_core SET graph_revision = graph_revision + 1,"
      " raw_fields = raw_fields || '{\"last_mutation_at_ms\": 1800000000000}' WHERE flow_id = $1";
  auto other = t.database.connect();
  {
    pg::Transaction adding(other);
    adding.execute(add, pg::Params::of(flow));
    const TickReport report = t.tick();
    CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
    adding.commit();
  }
  CHECK(t.tick().scanned == 0);
  CHECK(t.is_there(member));
  t.db.execute("UPDATE ff_flow_core SET raw_fields = '{}'");
  // The statements of the two meet: FlowFabric's waits, and finds no flow.
  pg::Transaction deleting(t.db);
  deleting.execute("SELECT FROM ff_flow_core WHERE flow_id = $1 FOR UPDATE", pg::Params::of(flow));
  std::size_t changed = 1;
  std::thread adding(
      [&] { changed = other.execute(add + " RETURNING flow_id", pg::Params::of(flow)).size(); });
  deleting.execute("DELETE FROM ff_exec_core WHERE flow_id = $1", pg::Params::of(flow));
  deleting.execute("DELETE FROM ff_flow_core WHERE flow_id = $1", pg::Params::of(flow));
  deleting.commit();
  adding.join();
  CHECK(changed == 0);
}

TEST_CASE(
    "execution_retention waits for a member whose own age is longer, and takes no flow by a shorter one "
    "alone") {
  Stage t;
  const Uuid flow = t.add_flow(kOld);
  const Uuid brief = t.add_ended(kOld, flow);
  const Uuid lasting = t.add_ended(kOld, flow);
  t.set(R"(policy = '{"stream_policy": {"retention_ttl_ms": 3600000}}')", brief);
  t.set(R"(policy = '{"stream_policy": {"retention_ttl_ms": 86400000000}}')", lasting);
  CHECK(t.tick().scanned == 0);
  t.set("policy = NULL", lasting);
  t.set("raw_fields = '{\"namespace\": \"audit\"}'", lasting);
  CHECK(t.tick({.settings = {{"ages.audit", std::nullopt}}}).scanned == 0);
  CHECK(t.is_there(brief));
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
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

TEST_CASE("execution_retention takes a flow under a filter only where it asks for each of its members") {
  Stage t;
  const Uuid flow = t.add_flow(kOld);
  t.add_ended(kOld, flow, "a");
  const Uuid other = t.add_ended(kOld, flow, "b");
  CHECK(t.tick({.filter = for_namespace("a")}).scanned == 0);
  t.set("raw_fields = '{}'", other);
  CHECK(t.tick({.filter = for_namespace("a")}).scanned == 0);
  t.set("raw_fields = '{\"namespace\": \"a\"}'", other);
  CHECK(outcomes(t.tick({.filter = for_namespace("a")})) == "flows_deleted=1");
  CHECK(t.left() == 0);
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

TEST_CASE("execution_retention deletes an empty flow once it is old") {
  Stage t;
  t.add_flow(kOld);
  t.add_flow(kOld + 1);
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  CHECK(number(t.db, "SELECT count(*) FROM ff_flow_core") == 1);
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
