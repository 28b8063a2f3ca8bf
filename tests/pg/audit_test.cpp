#include "demo/simulation/audit.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "demo/simulation/worker.hpp"
#include "support/database.hpp"
#include "support/rows.hpp"

using namespace ff;
using simulation::Worker;
using Words = std::vector<std::string>;

namespace {

constexpr Milliseconds kLease{30'000};
constexpr PartitionKey kPartition{7};

struct Seeded {
  std::string_view rule;
  std::string damage;
};

// Each to a database in which one execution is completed, one active, one suspended and one delayed.
const Seeded kSeeded[] = {
    {"illegal_state", "UPDATE ff_exec_core SET ownership_state = 'unowned' WHERE lifecycle_phase = 'active'"},
    {"terminal_time", "UPDATE ff_exec_core SET terminal_at_ms = NULL WHERE lifecycle_phase = 'terminal'"},
    {"endless_delay",
     "UPDATE ff_exec_core SET deadline_at_ms = NULL WHERE eligibility_state = 'not_eligible_until_time'"},
    {"suspended_without_suspension", "DELETE FROM ff_suspension_current"},
    {"active_without_lease",
     "UPDATE ff_attempt SET lease_expires_at_ms = NULL WHERE lease_expires_at_ms IS NOT NULL"},
    {"lease_without_active", "UPDATE ff_attempt SET lease_expires_at_ms = 5 WHERE outcome = 'success'"},
    {"completion_events",
     "INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms) "
     "SELECT partition_key, execution_id, outcome, 5 FROM ff_completion_event"},
    {"completion_before_end",
     "UPDATE ff_completion_event SET execution_id = (SELECT execution_id FROM "
     "ff_exec_core WHERE lifecycle_phase = 'active')"},
    {"completion_contradicts", "UPDATE ff_completion_event SET outcome = 'expired'"},
    {"event_origin", "UPDATE ff_lease_event SET namespace = 'foreign' WHERE event_id = 1"},
    {"lease_history",
     "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key) SELECT "
     "execution_id, event_type, 5, partition_key FROM ff_lease_event WHERE event_type = 'revoked' "
     "LIMIT 1"},
    {"lease_untold", "DELETE FROM ff_lease_event WHERE event_type = 'revoked'"},
};

void populate(pg::Connection& db) {
  Worker worker{db, "w1", kLease};
  const auto claim = [&] {
    return worker.claim_one(simulation::create(db, {.partition = kPartition})).value();
  };
  worker.complete(claim());
  claim();
  worker.suspend(claim(), {});
  worker.delay(claim(), Milliseconds{5});
}

}  // namespace

TEST_CASE("the audit is clean while workers do everything at once, and afterwards") {
  const test::Database database;
  auto db = database.connect();
  const Partitions partitions = partition_range({0}, {7});
  simulation::create(db, {.max_retries = 1, .name_space = "ns", .instance_tag = "i-1"}, partitions, 120);
  const auto work = [&](unsigned seed) {
    auto connection = database.connect();
    Worker worker{connection, "w" + std::to_string(seed), kLease};
    std::minstd_rand random(seed);
    const auto step = [&](const simulation::Claim& claim) {
      if (random() % 2 == 0) worker.renew(claim);
      switch (random() % 6) {
        case 0:
          worker.fail(claim, true);
          break;
        case 1:
          worker.fail(claim, false);
          break;
        case 2:
          worker.delay(claim, Milliseconds{0});
          break;
        case 3:
          worker.suspend(claim, {.timeout_in = Milliseconds{0}, .waitpoints = {{.key = "k"}}});
          break;
        case 4:
          break;  // crashed: the lease stays
        default:
          worker.complete(claim);
      }
    };
    while (const auto claim = worker.claim(partitions)) try {
        step(*claim);
      } catch (const pg::Error& error) {
        if (!error.retryable())
          throw;  // others were in its way three times: it gives up, as if it had crashed
      }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 3; ++seed) threads.emplace_back(work, seed);
  // All rules see one snapshot, so no transaction is ever seen by halves.
  for (int i = 0; i < 10; ++i) CHECK(simulation::audit(db) == Words{});
  for (auto& thread : threads) thread.join();
  CHECK(simulation::audit(db) == Words{});
  for (const char* outcome : {"success", "failed", "retry", "interrupted", "attempt_interrupted"}) {
    CAPTURE(outcome);
    CHECK(test::row(db, "SELECT count(*) FROM ff_attempt WHERE outcome = $1",
                    pg::Params::of(outcome))["count"] > 0);
  }
}

TEST_CASE("the audit reports a seeded violation of each rule, with the execution it concerns") {
  Words rules;
  for (const Seeded& seeded : kSeeded) {
    CAPTURE(seeded.rule);
    rules.emplace_back(seeded.rule);
    const test::Database database;
    auto db = database.connect();
    populate(db);
    REQUIRE(simulation::audit(db) == Words{});
    db.execute_script(seeded.damage);
    const Words found = simulation::audit(db);
    const auto of_rule = std::ranges::find_if(found, [&](const std::string& line) {
      return line.starts_with(std::string(seeded.rule) + " {fp:7}:");
    });
    CHECK(of_rule != found.end());
  }
  const auto all = simulation::audit_rules();
  CHECK(rules == Words(all.begin(), all.end()));
}

TEST_CASE("the audit lists as many violations of a rule as asked for and counts the rest") {
  const test::Database database;
  auto db = database.connect();
  simulation::create(db, {}, {{0}}, 5);
  db.execute_script("UPDATE ff_exec_core SET public_state = 'suspended'");
  const Words found = simulation::audit(db, {.limit_per_rule = 2});
  REQUIRE(found.size() == 3);
  CHECK(found.back() == "illegal_state: and 3 more");
}

TEST_CASE("the audit forgives the beginnings that retention has deleted, but no second release") {
  const test::Database database;
  auto db = database.connect();
  populate(db);
  db.execute_script(
      "DELETE FROM ff_completion_event; DELETE FROM ff_lease_event WHERE event_type = 'acquired'");
  CHECK(simulation::audit(db, {.whole_outboxes = false}) == Words{});
  CHECK_FALSE(simulation::audit(db).empty());
  db.execute_script(std::string(kSeeded[10].damage));
  CHECK_FALSE(simulation::audit(db, {.whole_outboxes = false}).empty());
}
