// What a cancel has left to a worker without any row that says so: cancel_backlog's companion.
#include <catch2/catch.hpp>

#include "cancel_stage.hpp"
#include "pg/transaction.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;

namespace {

struct Stage : CancelStage {
  Uuid add_flow(const std::string& policy = "cancel_all", const std::string& state = "cancelled") {
    const Uuid flow = new_uuid();
    insert(db, "ff_flow_core",
           {{"partition_key", 3},
            {"flow_id", to_string(flow)},
            {"public_flow_state", state},
            {"created_at_ms", 0},
            {"terminal_at_ms", kLongAgo},
            {"raw_fields", {{"cancellation_policy", policy}, {"cancel_reason", "operator"}}}});
    return flow;
  }
  Uuid add(const std::optional<Uuid>& flow, const State& state,
           std::optional<std::int64_t> terminal_at_ms = kLongAgo, const Json& raw_fields = origin("n", "i")) {
    const Uuid id = add_core(flow, state, terminal_at_ms, raw_fields);
    lease(id, kNow + 60'000);
    return id;
  }
  void cancelled_by(const Uuid& id, const std::string& whom) {
    db.execute("UPDATE ff_exec_core SET cancelled_by = $2 WHERE execution_id = $1", pg::Params::of(id, whom));
  }
};

}  // namespace

TEST_CASE(
    "cancelled_leases: a worker whose execution was cancelled loses its lease, and its end is told once") {
  Stage t;
  const bool in_flow = GENERATE(true, false);
  const bool is_told = GENERATE(true, false);
  CAPTURE(in_flow, is_told);
  const Uuid id = t.add(in_flow ? std::optional(t.add_flow()) : std::nullopt, kHeaderCancelled);
  t.lease(id, kNow + 60'000, 1);
  insert_suspension(t.db, {.partition = {3}, .execution = id});
  insert_waitpoint(t.db, {.partition = {3}, .execution = id});
  if (is_told) t.add_event(id, "cancelled", kLongAgo + 1);

  CHECK(outcomes(t.tick()) == "lease_revoked=1");

  const Json after = core(t.db, id);
  CHECK(after["lifecycle_phase"] == "cancelled");
  CHECK(after["ownership_state"] == "unowned");
  CHECK(after["terminal_at_ms"] == kLongAgo);
  CHECK(after["cancelled_by"] == "cancel_backlog");
  CHECK(after["cancellation_reason"] == (in_flow ? "operator" : "cancelled"));
  for (const int index : {0, 1}) {
    CHECK(attempt(t.db, id, index)["lease_expires_at_ms"].is_null());
    CHECK(attempt(t.db, id, index)["lease_epoch"] == 8);
  }
  CHECK(lease_events(t.db).size() == 2);
  CHECK(completion_events(t.db).size() == 1);
  CHECK(number(t.db, "SELECT count(*) FROM ff_suspension_current") == 0);
  CHECK(number(t.db, "SELECT count(*) FROM ff_waitpoint_pending") == 0);
  const auto snapshot_after = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(snapshot_after, snapshot(t.db)).empty());
}

TEST_CASE("cancelled_leases: who lives is left alone, and so is whoever may finish or is somebody else's") {
  Stage t;
  const Uuid cancelled = t.add_flow();
  t.add(std::nullopt, active(), std::nullopt);
  t.cancelled_by(t.add(t.add_flow("flow_only"), kHeaderCancelled), "cancel_flow_header");
  t.cancelled_by(t.add(t.add_flow("cancel_pending"), active(), std::nullopt), "cancel_flow");
  t.cancelled_by(t.add(t.add_flow("cancel_all", "open"), active(), std::nullopt), "cancel_flow");
  // It has ended by itself.
  t.add(cancelled, {"terminal", "leased", "not_applicable", "completed", "attempt_terminal"});
  // FlowFabric's dispatcher of sibling cancels, and a worker: who goes on with it was asked to by nobody else.
  for (const char* whom : {"engine", "worker"}) t.cancelled_by(t.add(cancelled, active()), whom);
  // An operator's replay, whatever its clock said, has cleared who cancelled it.
  t.add(cancelled, active(), std::nullopt);
  // A lapsed lease is lease_expiry's.
  const Uuid lapsed = t.add(std::nullopt, kHeaderCancelled);
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $2 WHERE execution_id = $1",
               pg::Params::of(lapsed, kNow - 1));
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE(
    "cancelled_leases: what an operator has cancelled is nobody's to finish, whatever its flow's policy") {
  Stage t;
  t.cancelled_by(t.add(t.add_flow("cancel_pending"), kHeaderCancelled), "operator_override");
  CHECK(outcomes(t.tick()) == "lease_revoked=1");
}

TEST_CASE(
    "cancelled_leases: what an operator has cancelled and a retry revived is cancelled once somebody has it "
    "again") {
  Stage t;
  const bool in_flow = GENERATE(true, false);
  const Uuid id =
      t.add(in_flow ? std::optional(t.add_flow("cancel_pending", "open")) : std::nullopt, active());
  t.cancelled_by(id, "operator_override");
  CHECK(outcomes(t.tick()) == "lease_revoked=1");
  CHECK(core(t.db, id)["public_state"] == "cancelled");
  CHECK(core(t.db, id)["terminal_at_ms"] == kLongAgo);
}

TEST_CASE(
    "cancelled_leases: what its worker has suspended since it was cancelled is cancelled for good, and told "
    "once") {
  Stage t;
  const bool by_operator = GENERATE(true, false);
  const bool is_told = GENERATE(true, false);
  CAPTURE(by_operator, is_told);
  const auto add_suspended = [&](const std::optional<Uuid>& flow, const std::string& whom) {
    const Uuid id = t.add_core(flow, suspended(), kLongAgo, origin("n", "i"));
    insert_attempt(t.db, {.partition = {3}, .execution = id, .lease_epoch = 7});
    insert_suspension(t.db, {.partition = {3}, .execution = id});
    insert_waitpoint(t.db, {.partition = {3}, .execution = id});
    if (!whom.empty()) t.cancelled_by(id, whom);
    return id;
  };
  add_suspended(t.add_flow(), "");  // an operator's replay has cleared who cancelled it
  add_suspended(t.add_flow("cancel_pending"), "cancel_flow_header");
  add_suspended(std::nullopt, "");
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(before, snapshot(t.db)).empty());

  const Uuid id = by_operator ? add_suspended(std::nullopt, "operator_override")
                              : add_suspended(t.add_flow(), "cancel_flow");
  if (is_told) t.add_event(id, "cancelled", kLongAgo + 1);
  CHECK(outcomes(t.tick()) == "suspension_cancelled=1");
  const Json after = core(t.db, id);
  CHECK(after["lifecycle_phase"] == "cancelled");
  CHECK(after["public_state"] == "cancelled");
  CHECK(after["terminal_at_ms"] == kLongAgo);
  CHECK(attempt(t.db, id)["lease_epoch"] == 8);
  CHECK(lease_events(t.db).empty());
  CHECK(completion_events(t.db).size() == 1);
  CHECK(number(t.db, "SELECT count(*) FROM ff_suspension_current") == 3);
  CHECK(number(t.db, "SELECT count(*) FROM ff_waitpoint_pending") == 3);
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("cancelled_leases: a member whose row is in the backlog is that one's, as long as it is there") {
  Stage t;
  const Uuid flow = t.add_flow();
  const Uuid id = t.add(flow, kHeaderCancelled);
  insert(t.db, "ff_cancel_backlog",
         {{"partition_key", 3},
          {"flow_id", to_string(flow)},
          {"requested_at_ms", kLongAgo},
          {"grace_until_ms", kNow + 60'000},
          {"cancellation_policy", "cancel_all"}});
  insert(t.db, "ff_cancel_backlog_member",
         {{"partition_key", 3}, {"flow_id", to_string(flow)}, {"execution_id", "{fp:3}:" + to_string(id)}});
  CHECK(t.tick().scanned == 0);
  t.db.execute("DELETE FROM ff_cancel_backlog_member");
  CHECK(outcomes(t.tick()) == "lease_revoked=1");
}

TEST_CASE("cancelled_leases: who was revived under cancel_all is cancelled once somebody has it again") {
  Stage t;
  const Uuid id = t.add(t.add_flow(), active(), std::nullopt);
  t.cancelled_by(id, GENERATE("cancel_flow", "cancel_flow_header"));
  CHECK(outcomes(t.tick()) == "lease_revoked=1");
  CHECK(core(t.db, id)["public_state"] == "cancelled");
  CHECK(core(t.db, id)["terminal_at_ms"] == kNow);
  CHECK(completion_events(t.db).size() == 1);
}

TEST_CASE("cancelled_leases: a scan reads each lease once") {
  Stage t;
  t.db.execute(
      "WITH c AS (INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, "
      "ownership_state, eligibility_state, public_state, attempt_state, created_at_ms)"
      " SELECT i % 16, gen_random_uuid(), 'l', 'active', 'leased', 'not_applicable', 'running', "
      "'running_attempt', 0 FROM generate_series(1, 4000) i RETURNING partition_key, execution_id)"
      " INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, lease_expires_at_ms)"
      " SELECT partition_key, execution_id, 0, $1 FROM c",
      pg::Params::of(kNow + 60'000));
  t.db.execute("ANALYZE");
  const reconcile::Reconciler& pair = reconcile::find_reconciler("cancel_backlog")->companions.at(1);
  const reconcile::Statements statements(pair);
  const Partitions group = sixteen_partitions();
  auto read = rows_read(run_plan_of(t.db, statements.page.over(group),
                                    page_params(pair, group, Milliseconds{0}, 100), pg::Plan::generic));
  CHECK(read["ff_attempt"] == 4000);
  CHECK(read["ff_exec_core"] == 4000);
}

TEST_CASE("cancelled_leases: nothing is taken before grace is over") {
  Stage t;
  const Uuid id = t.add(std::nullopt, kHeaderCancelled, kNow - kGrace);
  CHECK(t.tick().processed == 0);
  t.db.execute("UPDATE ff_exec_core SET terminal_at_ms = $2 WHERE execution_id = $1",
               pg::Params::of(id, kNow - kGrace - 1));
  CHECK(outcomes(t.tick()) == "lease_revoked=1");
}

TEST_CASE("cancelled_leases: of which anybody holds anything is met again") {
  Stage t;
  const Uuid id = t.add(std::nullopt, kHeaderCancelled);
  const char* table = GENERATE("ff_exec_core", "ff_attempt");
  pg::Connection other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute(std::string("SELECT FROM ") + table + " WHERE execution_id = $1 FOR UPDATE",
                  pg::Params::of(id));
  const auto before = snapshot(t.db);
  CHECK(t.tick().skipped[reconcile::Skip::locked] == 1);
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "lease_revoked=1");
}
