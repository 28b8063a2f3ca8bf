// The demo's books do not balance when anything was overlooked.
#include <catch2/catch.hpp>

#include "demo/simulation/books.hpp"
#include "support/database.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace std::chrono_literals;

namespace {

/// A database, a realm in it, and the questions whose answer is wrong.
struct Bookkeeper {
  test::Database database;
  pg::Connection db = database.connect();
  simulation::Realm realm{"demo", {PartitionKey{3}}};
  simulation::Ledger ledger;

  std::vector<std::string> wrong() {
    std::vector<std::string> questions;
    for (const simulation::Verdict& verdict : simulation::check_books(db, realm, ledger, true).verdicts)
      if (!verdict.balanced) questions.push_back(verdict.question);
    return questions;
  }
  simulation::Claim claim_new() {
    const ExecutionId id =
        simulation::create(db, {.partition = {3}, .lane = realm.name, .name_space = realm.name});
    ledger.created({id}, std::nullopt);
    ledger.claimed();
    return worker().claim_one(id).value();
  }
  simulation::Worker worker() { return {db, "w1", 30s, realm.name}; }
  void dispatch_all() { db.execute("UPDATE ff_completion_event SET dispatched_at_ms = 1"); }
};

using Questions = std::vector<std::string>;

}  // namespace

TEST_CASE("books in which a crash was not noticed do not balance") {
  Bookkeeper books;
  CHECK(books.wrong().empty());

  const simulation::Claim claim = books.claim_new();
  books.ledger.crashed(claim);
  CHECK(books.wrong() ==
        Questions{"every execution is in a legal state", "every crash was noticed, exactly once"});
  // What the ledger takes for a crash goes on after all.
  CHECK(books.worker().complete(claim));
  books.dispatch_all();
  CHECK(books.wrong() ==
        Questions{"every crash was noticed, exactly once", "no work was lost or done twice"});
  books.ledger.ghost(false);
  CHECK(books.wrong().size() == 3);
}

TEST_CASE("books in which a delay or an ending was overlooked do not balance") {
  Bookkeeper books;
  const simulation::Claim delayed = books.claim_new();
  CHECK(books.worker().delay(delayed, 1ms));
  books.ledger.delayed(delayed);
  CHECK(books.wrong() == Questions{"every execution is in a legal state", "every delay has ended"});
  books.db.execute(
      "UPDATE ff_exec_core SET eligibility_state = 'eligible_now', public_state = 'waiting', "
      "deadline_at_ms = NULL");
  CHECK(books.wrong().empty());

  const simulation::Claim completed = books.claim_new();
  CHECK(books.worker().complete(completed));
  books.ledger.completed(completed);
  CHECK(books.wrong() == Questions{"every ending was passed on"});
}

TEST_CASE("books in which a suspension ended otherwise than it had to do not balance") {
  Bookkeeper books;
  const simulation::Claim claim = books.claim_new();
  const simulation::Suspension suspension{
      .timeout_in = 1ms, .timeout_behavior = "escalate", .waitpoints = {{.key = "approval"}}};
  CHECK(books.worker().suspend(claim, suspension));
  books.ledger.suspended(claim, suspension);
  CHECK(books.wrong() == Questions{"every execution is in a legal state",
                                   "every suspension ended as it had to", "no waitpoint outlived its time"});
  books.db.execute("DELETE FROM ff_waitpoint_pending");
  books.db.execute("DELETE FROM ff_suspension_current");
  const auto end_with = [&](const std::string& reason) {
    books.db.execute(
        "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', ownership_state = 'unowned', "
        "public_state = 'expired', attempt_state = 'attempt_terminal', terminal_at_ms = 1, "
        "cancellation_reason = $1",
        pg::Params::of(reason));
  };
  end_with("suspension_timeout_fail");
  books.db.execute(
      "INSERT INTO ff_completion_event (partition_key, execution_id, outcome, namespace, occurred_at_ms, "
      "dispatched_at_ms) SELECT partition_key, execution_id, 'expired', 'demo', 1, 1 FROM ff_exec_core");
  CHECK(books.wrong() == Questions{"every suspension ended as it had to"});
  end_with("suspension_timeout_escalate");
  CHECK(books.wrong().empty());
}

TEST_CASE("books in which a flow, a budget or a worker was forgotten do not balance") {
  Bookkeeper books;
  const Uuid flow = test::new_uuid();
  const auto add = [&](const test::State& state) {
    const Uuid id = test::insert_core(books.db, {.partition = {3},
                                                 .flow = flow,
                                                 .state = state,
                                                 .lane = books.realm.name,
                                                 .raw_fields = {{"namespace", books.realm.name}}});
    books.ledger.created({{PartitionKey{3}, id}}, std::nullopt);
    return id;
  };
  const Uuid upstream = add(test::runnable());
  const Uuid downstream = add(test::blocked());
  const auto in_flow = pg::Params::of(PartitionKey{3}, flow, upstream, downstream);
  books.db.execute(
      "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy) "
      "VALUES ($1, $2, gen_random_uuid(), $3, $4, '{}')",
      in_flow);
  books.db.execute(
      "INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, k_target, running_count) "
      "VALUES ($1, $2, $3, '{}', 1, 1)",
      pg::Params::of(PartitionKey{3}, flow, downstream));
  CHECK(books.wrong().empty());

  const simulation::Claim claim = books.worker().claim_one({PartitionKey{3}, upstream}).value();
  CHECK(books.worker().complete(claim));
  books.ledger.completed(claim);
  books.dispatch_all();
  CHECK(books.wrong() == Questions{"flows agree with what has ended"});
  books.db.execute("UPDATE ff_edge_group SET running_count = 0, success_count = 1");
  CHECK(books.wrong() == Questions{"flows agree with what has ended"});  // the downstream still waits
  books.db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now' "
      "WHERE lifecycle_phase = 'blocked'");
  CHECK(books.wrong().empty());

  books.db.execute("INSERT INTO ff_pending_cancel_groups VALUES ($1, $2, $3, 1)",
                   pg::Params::of(PartitionKey{3}, flow, downstream));
  books.db.execute(
      "INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, "
      "next_reset_at_ms) VALUES (0, 'b', '{}', 1, 1, 1)");
  books.db.execute("INSERT INTO ff_worker_registry VALUES (0, 'demo', 'w1', 'w1', '{}', '', 1, 1, 1)");
  CHECK(books.wrong() == Questions{"no sibling waits to be cancelled", "every budget was reset when due",
                                   "no silent worker is on the register"});
}

TEST_CASE("books in which a silent worker kept its lease do not balance") {
  Bookkeeper books;
  const simulation::Claim claim = books.claim_new();
  books.ledger.fell_silent(claim);
  CHECK(books.wrong() == Questions{"every execution is in a legal state", "no silent worker kept its lease"});
  books.db.execute(
      "UPDATE ff_attempt SET raw_fields = '{\"ended_by\": {\"by\": \"dead_worker\", \"at\": 1}}'");
  CHECK(books.wrong() == Questions{"every execution is in a legal state"});
}

TEST_CASE("books in which something of the past is left do not balance") {
  Bookkeeper books;
  const simulation::Past past = simulation::make_past(books.db, books.realm);
  CHECK(past.events > 0);
  CHECK(past.admissions > 0);
  CHECK(books.wrong().empty());
  books.ledger.found(past);
  for (const std::string table : {"ff_lease_event", "ff_signal_event", "ff_operator_event",
                                  "ff_worker_registry_event", "ff_quota_window"}) {
    INFO(table);
    CHECK(books.wrong() == Questions{"nothing is left of the past"});
    books.db.execute("DELETE FROM " + table);
  }
  CHECK(books.wrong().empty());
}

TEST_CASE("books in which the cancel of a flow is half done do not balance") {
  Bookkeeper books;
  const Uuid flow = test::new_uuid();
  const Uuid member = test::insert_core(books.db, {.partition = {3},
                                                   .flow = flow,
                                                   .state = test::runnable(),
                                                   .lane = books.realm.name,
                                                   .raw_fields = {{"namespace", books.realm.name}}});
  books.ledger.created({{PartitionKey{3}, member}}, std::nullopt);
  books.ledger.cancelled_header(1);
  const auto its = pg::Params::of(flow, to_string(ExecutionId{PartitionKey{3}, member}));
  books.db.execute(
      "INSERT INTO ff_cancel_backlog_member (partition_key, flow_id, execution_id) VALUES (3, $1, $2)", its);
  CHECK(books.wrong() == Questions{"no cancel of a flow is half done"});
  books.db.execute("DELETE FROM ff_cancel_backlog_member");
  CHECK(books.wrong().empty());
  books.db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'cancelled', eligibility_state = 'not_applicable', "
      "public_state = "
      "'cancelled', attempt_state = 'cancelled', terminal_at_ms = 1");
  CHECK(books.wrong() == Questions{"each ending has exactly one event"});
}
