// execution_retention, and whole flows.
#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "execution_retention_stage.hpp"

using namespace ff;
using namespace ff::test;
using namespace ff::test::retention;
using reconcile::Skip;
using reconcile::TickReport;

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
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  CHECK(t.left() == 0);
}

TEST_CASE(
    "execution_retention deletes a flow of whole slices with its last member, which a filter knows it by") {
  Stage t;
  const int slices = GENERATE(1, 2);
  t.add_large_flow(1000 * slices);
  t.db.execute("UPDATE ff_exec_core SET raw_fields = '{\"tags\": {\"cairn.instance_id\": \"1\"}}'");
  for (int i = 1; i < slices; ++i)
    CHECK(outcomes(t.tick({.filter = for_tag("1")})) == "executions_deleted=1");
  CHECK(outcomes(t.tick({.filter = for_tag("1")})) == "flows_deleted=1");
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

TEST_CASE("execution_retention deletes an empty flow once it is old") {
  Stage t;
  t.add_flow(kOld);
  t.add_flow(kOld + 1);
  CHECK(outcomes(t.tick()) == "flows_deleted=1");
  CHECK(number(t.db, "SELECT count(*) FROM ff_flow_core") == 1);
}
