#include <algorithm>
#include <catch2/catch.hpp>

#include "demo/simulation/audit.hpp"
#include "demo/simulation/worker.hpp"
#include "support/database.hpp"
#include "support/rows.hpp"

using namespace ff;
using simulation::Claim;
using simulation::Worker;
using test::Json;

namespace {

constexpr Milliseconds kLease{30'000};
constexpr PartitionKey kPartition{7};
using Words = std::vector<std::string>;

/// lifecycle_phase, ownership_state, eligibility_state, public_state, attempt_state
Words state(pg::Connection& db, const Uuid& id) {
  const Json core = test::core(db, id);
  return {core["lifecycle_phase"], core["ownership_state"], core["eligibility_state"], core["public_state"],
          core["attempt_state"]};
}

/// The execution's events in order, each as "word namespace instance_tag".
Words events(pg::Connection& db, const std::string& table, const std::string& word, const Uuid& id) {
  Words found;
  for (const pg::Row row :
       db.execute("SELECT concat_ws(' ', " + word + ", namespace, instance_tag) FROM " + table +
                      " WHERE partition_key = 7 AND execution_id::text = $1 ORDER BY event_id",
                  pg::Params::of(to_string(id))))
    found.push_back(row.get<std::string>(0));
  return found;
}
Words lease_events(pg::Connection& db, const Uuid& id) {
  return events(db, "ff_lease_event", "event_type", id);
}
Words completion_events(pg::Connection& db, const Uuid& id) {
  return events(db, "ff_completion_event", "outcome", id);
}

/// A database with one execution that a worker has claimed, and a neighbour that must never change.
struct Claimed {
  test::Database database;
  pg::Connection db = database.connect();
  Worker worker{db, "w1", kLease};
  ExecutionId neighbour = simulation::create(db, {.partition = kPartition, .name_space = "other"});
  ExecutionId execution = simulation::create(
      db, {.partition = kPartition, .max_retries = 2, .name_space = "ns", .instance_tag = "i-1"});
  Json neighbour_before = test::core(db, neighbour.uuid);
  Claim claim = worker.claim_one(execution).value();

  ~Claimed() {
    CHECK(test::core(db, neighbour.uuid) == neighbour_before);
    CHECK(simulation::audit(db) == Words{});
  }
  Json core() { return test::core(db, execution.uuid); }
  Json attempt(int index = 0) { return test::attempt(db, execution.uuid, index); }
  Words words() { return state(db, execution.uuid); }
  Words leases() { return lease_events(db, execution.uuid); }
  Words completions() { return completion_events(db, execution.uuid); }
};

bool is_about_now(pg::Connection& db, const Json& time_ms) {
  const auto now = test::now_ms(db);
  return time_ms.is_number() && time_ms <= now && time_ms > now - 60'000;
}

}  // namespace

TEST_CASE("create makes an execution that can be claimed, with its namespace, tag and policy") {
  const test::Database database;
  auto db = database.connect();
  const Uuid flow = test::new_uuid();
  const auto id = simulation::create(db, {.partition = kPartition,
                                          .flow = flow,
                                          .max_retries = 3,
                                          .priority = 2,
                                          .deadline_in = Milliseconds{60'000},
                                          .name_space = "ns",
                                          .instance_tag = "i-1"});
  CHECK(state(db, id.uuid) ==
        Words{"runnable", "unowned", "eligible_now", "waiting", "pending_first_attempt"});
  const Json core = test::core(db, id.uuid);
  CHECK(core["partition_key"] == 7);
  CHECK(core["flow_id"] == to_string(flow));
  CHECK(core["policy"]["retry_policy"]["max_retries"] == 3);
  CHECK(core["raw_fields"]["namespace"] == "ns");
  CHECK(core["raw_fields"]["tags"] == Json{{"cairn.instance_id", "i-1"}});
  CHECK(core["raw_fields"]["total_attempt_count"] == "0");
  CHECK(core["deadline_at_ms"].get<std::int64_t>() == core["created_at_ms"].get<std::int64_t>() + 60'000);
  CHECK(is_about_now(db, core["created_at_ms"]));
  CHECK(test::snapshot(db, "ff_lease_event").empty());
}

TEST_CASE("create deals many executions out over the partitions in turn") {
  const test::Database database;
  auto db = database.connect();
  const auto ids = simulation::create(db, {}, {{1}, {2}, {200}}, 10);
  CHECK(ids.size() == 10);
  CHECK(std::ranges::count(ids, PartitionKey{1}, [](const ExecutionId& id) { return id.partition; }) == 4);
  CHECK(std::ranges::count(ids, PartitionKey{200}, [](const ExecutionId& id) { return id.partition; }) == 3);
  CHECK(test::core(db, ids.front().uuid)["policy"].is_null());
}

TEST_CASE("claim takes a fresh lease at epoch 1 and activates the execution") {
  Claimed c;
  CHECK(c.claim.attempt_index == 0);
  CHECK(c.claim.lease_epoch == 1);
  CHECK(c.words() == Words{"active", "leased", "not_applicable", "running", "running_attempt"});
  CHECK(is_about_now(c.db, c.core()["started_at_ms"]));
  const Json attempt = c.attempt();
  CHECK(attempt["worker_id"] == "w1");
  CHECK(attempt["lease_epoch"] == 1);
  CHECK(attempt["outcome"].is_null());
  CHECK(attempt["lease_expires_at_ms"].get<std::int64_t>() > test::now_ms(c.db) + kLease.count() - 20'000);
  CHECK(c.leases() == Words{"acquired ns i-1"});
}

TEST_CASE("claim over partitions takes the highest priority of its lane, and nothing where nothing waits") {
  const test::Database database;
  auto db = database.connect();
  Worker worker{db, "w1", kLease, "fast"};
  simulation::create(db, {.partition = {3}, .lane = "slow", .priority = 9});
  simulation::create(db, {.partition = {3}, .lane = "fast", .priority = 1});
  const auto best = simulation::create(db, {.partition = {3}, .lane = "fast", .priority = 5});
  CHECK_FALSE(worker.claim({{1}, {2}}));
  CHECK_FALSE(worker.claim({{1}}));
  const auto claim = worker.claim({{1}, {2}, {3}});
  REQUIRE(claim);
  CHECK(claim->execution == best);
}

TEST_CASE("claim leaves alone what others hold or what cannot be claimed") {
  const test::Database database;
  auto db = database.connect();
  auto other = database.connect();
  Worker worker{db, "w1", kLease};
  const auto held = simulation::create(db, {.partition = kPartition});
  pg::Transaction lock(other);
  lock.execute("SELECT FROM ff_exec_core FOR UPDATE");
  CHECK_FALSE(worker.claim({kPartition}));
  CHECK_FALSE(worker.claim_one(held));
  lock.rollback();
  CHECK(worker.claim_one(held));
  CHECK_FALSE(worker.claim_one(held));
  CHECK(lease_events(db, held.uuid).size() == 1);
}

TEST_CASE("claim of an attempt that was interrupted raises its epoch and forgets its outcome") {
  Claimed c;
  c.db.execute_script(
      "UPDATE ff_attempt SET lease_expires_at_ms = NULL, outcome = 'lease_expired_reclaimable', lease_epoch "
      "= 2;"
      "UPDATE ff_exec_core SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state "
      "= "
      "'eligible_now', public_state = 'waiting', attempt_state = 'attempt_interrupted' WHERE lifecycle_phase "
      "= "
      "'active'; INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, "
      "namespace, "
      "instance_tag) SELECT execution_id, 'expired', 1, partition_key, namespace, instance_tag FROM "
      "ff_lease_event");
  const auto started = c.core()["started_at_ms"];
  Worker second{c.db, "w2", kLease};
  const auto again = second.claim_one(c.execution);
  REQUIRE(again);
  CHECK(again->attempt_index == 0);
  CHECK(again->lease_epoch == 3);
  CHECK(c.attempt()["outcome"].is_null());
  CHECK(c.attempt()["worker_id"] == "w2");
  CHECK(c.core()["started_at_ms"] == started);

  const auto before = test::snapshot(c.db);
  CHECK_FALSE(c.worker.renew(c.claim));
  CHECK_FALSE(c.worker.complete(c.claim));
  CHECK_FALSE(c.worker.fail(c.claim, true));
  CHECK_FALSE(c.worker.delay(c.claim, Milliseconds{1}));
  CHECK_FALSE(c.worker.suspend(c.claim, {}));
  CHECK(test::diff(before, test::snapshot(c.db)) == Words{});
  CHECK(second.complete(*again));
}

TEST_CASE("renew pushes the lease on and changes nothing else") {
  Claimed c;
  c.db.execute_script("UPDATE ff_attempt SET lease_expires_at_ms = 5");
  const Json core = c.core();
  CHECK(c.worker.renew(c.claim));
  CHECK(c.attempt()["lease_expires_at_ms"].get<std::int64_t>() > test::now_ms(c.db));
  CHECK(c.attempt()["lease_epoch"] == 1);
  CHECK(c.core() == core);
  CHECK(c.leases() == Words{"acquired ns i-1", "renewed ns i-1"});
}

TEST_CASE("complete ends the execution with one event in each outbox") {
  Claimed c;
  CHECK(c.worker.complete(c.claim));
  CHECK(c.words() == Words{"terminal", "unowned", "not_applicable", "running", "attempt_terminal"});
  CHECK(is_about_now(c.db, c.core()["terminal_at_ms"]));
  CHECK(c.attempt()["outcome"] == "success");
  CHECK(c.attempt()["lease_expires_at_ms"].is_null());
  CHECK(c.leases() == Words{"acquired ns i-1", "revoked ns i-1"});
  CHECK(c.completions() == Words{"success"});
}

TEST_CASE("fail that can be retried makes the next attempt claimable") {
  Claimed c;
  CHECK(c.worker.fail(c.claim, true));
  CHECK(c.words() == Words{"runnable", "unowned", "eligible_now", "running", "pending_retry_attempt"});
  CHECK(c.core()["raw_fields"]["last_failure_message"] == "simulated failure");
  CHECK(c.core()["attempt_index"] == 1);
  CHECK(c.attempt()["outcome"] == "retry");
  CHECK(c.completions() == Words{});
  const auto next = c.worker.claim_one(c.execution);
  REQUIRE(next);
  CHECK(next->attempt_index == 1);
  CHECK(next->lease_epoch == 1);
  CHECK(c.leases() == Words{"acquired ns i-1", "revoked ns i-1", "acquired ns i-1"});
}

TEST_CASE("fail for good ends the execution as failed") {
  Claimed c;
  CHECK(c.worker.fail(c.claim, false));
  CHECK(c.words() == Words{"terminal", "unowned", "not_applicable", "running", "attempt_terminal"});
  CHECK(c.attempt()["outcome"] == "failed");
  CHECK(c.leases() == Words{"acquired ns i-1", "revoked ns i-1"});
  CHECK(c.completions() == Words{"failed"});
}

TEST_CASE("delay puts the execution back with the moment at which the delay ends") {
  Claimed c;
  CHECK(c.worker.delay(c.claim, Milliseconds{90'000}));
  CHECK(c.words() ==
        Words{"runnable", "unowned", "not_eligible_until_time", "running", "attempt_interrupted"});
  CHECK(is_about_now(c.db, c.core()["deadline_at_ms"].get<std::int64_t>() - 90'000));
  CHECK(c.core()["attempt_index"] == 0);
  CHECK(c.attempt()["outcome"] == "interrupted");
  CHECK(c.attempt()["lease_expires_at_ms"].is_null());
  CHECK(c.leases() == Words{"acquired ns i-1", "revoked ns i-1"});
  CHECK_FALSE(c.worker.claim_one(c.execution));
}

TEST_CASE("suspend releases the lease at a new epoch and leaves its waitpoints behind") {
  Claimed c;
  CHECK(c.worker.suspend(
      c.claim,
      {.timeout_in = Milliseconds{60'000}, .timeout_behavior = "cancel", .waitpoints = {{.key = "a"}, {}}}));
  CHECK(c.words() == Words{"suspended", "released", "not_applicable", "suspended", "attempt_interrupted"});
  CHECK(c.attempt()["lease_epoch"] == 2);
  CHECK(c.attempt()["lease_expires_at_ms"].is_null());
  const Json suspension = test::row(c.db, "SELECT * FROM ff_suspension_current");
  CHECK(suspension["execution_id"] == to_string(c.execution.uuid));
  CHECK(suspension["timeout_behavior"] == "cancel");
  CHECK(is_about_now(c.db, suspension["timeout_at_ms"].get<std::int64_t>() - 60'000));
  const Json first = test::row(c.db, "SELECT * FROM ff_waitpoint_pending WHERE waitpoint_key = 'a'");
  CHECK(first["execution_id"] == to_string(c.execution.uuid));
  CHECK(first["expires_at_ms"].get<std::int64_t>() == first["created_at_ms"].get<std::int64_t>() + 60'000);
  CHECK(first["state"] == "active");
  CHECK(first["required_signal_names"] == Json{simulation::kSignal});
  CHECK(test::row(c.db, "SELECT * FROM ff_waitpoint_pending WHERE waitpoint_key = ''")["state"] == "active");
  CHECK(c.attempt()["outcome"] == "attempt_interrupted");
  CHECK(c.attempt()["worker_id"].is_null());
  CHECK(c.leases() == Words{"acquired ns i-1", "revoked ns i-1"});
  CHECK_FALSE(c.worker.renew(c.claim));
}

TEST_CASE("a renew that comes late renews the lease of an attempt whose epoch nobody has moved") {
  // The fence is the epoch and nothing else: whoever takes a lease away has to raise it.
  Claimed c;
  c.db.execute_script("UPDATE ff_attempt SET lease_expires_at_ms = NULL, outcome = 'interrupted'");
  CHECK(c.worker.renew(c.claim));
}
