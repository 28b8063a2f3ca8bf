// dependency: which edges count, how often, and which ends are none.
#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/flow.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const Json kAllOf = {{"kind", "all_of"}};
const Json kStaged = {{"edge_state", "pending"}, {"staged_at_ms", 5}, {"applied_at_ms", nullptr}};
const Json kApplied = {{"edge_state", "applied"}, {"staged_at_ms", 5}, {"applied_at_ms", 6}};

std::int64_t waiting(pg::Connection& db, const FanIn& f) {
  return number(db,
                "SELECT count(*) FROM ff_exec_core WHERE execution_id = $1 AND lifecycle_phase = 'blocked'",
                pg::Params::of(f.downstream));
}

}  // namespace

TEST_CASE("dependency counts every applied edge between the same two, whatever the end") {
  struct Case {
    const char* outcome;
    const char* counts;
  };
  const auto c =
      GENERATE(values<Case>({{"success", "3/0/0/1"}, {"failed", "0/3/0/1"}, {"skipped", "0/0/3/1"}}));
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = {{"kind", "quorum"}, {"k", 4}}, .running = 4});
  insert_edge(db, f.partition, f.flow, f.upstreams[0], f.downstream, kApplied);
  insert_edge(db, f.partition, f.flow, f.upstreams[0], f.downstream, kApplied);
  end_upstream(db, f, 0, c.outcome);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == c.counts);
}

TEST_CASE("dependency makes a downstream eligible to which two edges lead from the only one it waits for") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf, .running = 2});
  insert_edge(db, f.partition, f.flow, f.upstreams[0], f.downstream, kApplied);
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "2/0/0/0");
  CHECK(core(db, f.downstream)["lifecycle_phase"] == "runnable");
}

TEST_CASE("dependency does not count an edge that is staged and not applied") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAllOf});
  insert_edge(db, f.partition, f.flow, f.upstreams[0], f.downstream, kStaged);
  // Nothing but a staged edge leads from here to somebody who waits for another.
  const FanIn other = insert_fan_in(db, 1, {.policy = kAllOf});
  insert_edge(db, f.partition, f.flow, f.upstreams[0], other.downstream, kStaged);
  db.execute("UPDATE ff_edge_group SET flow_id = $1 WHERE flow_id = $2", pg::Params::of(f.flow, other.flow));
  end_upstream(db, f, 0, "failed");
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "0/1/0/1");
  CHECK(counts(db, other.downstream) == "0/0/0/1");
  CHECK(waiting(db, other) == 1);
}

TEST_CASE("dependency counts an edge whose policy says nothing of its state, or something else") {
  const auto policy =
      GENERATE(R"({})", R"(null)", R"(5)", R"(["pending"])", R"({"edge_state": null})",
               R"({"edge_state": 5})", R"({"edge_state": "satisfied"})", R"({"edge_state": "PENDING"})");
  CAPTURE(policy);
  static const Database database;
  auto db = database.connect();
  db.execute("DELETE FROM ff_completion_event");
  const FanIn f = insert_fan_in(db, 1, {.policy = kAllOf});
  db.execute("UPDATE ff_edge SET policy = $1::jsonb WHERE flow_id = $2", pg::Params::of(policy, f.flow));
  end_upstream(db, f, 0);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "1/0/0/0");
  CHECK(waiting(db, f) == 0);
}

TEST_CASE("dependency does not take the resumption of an upstream for its end") {
  const Database database;
  auto db = database.connect();
  const FanIn f = insert_fan_in(db, 2, {.policy = kAllOf});
  const auto resumed =
      insert_completion(db, {.execution = f.upstreams[0],
                             .flow = GENERATE(false, true) ? std::optional(f.flow) : std::nullopt,
                             .outcome = "resumable"});
  const auto before = snapshot(db);
  EngineFixture engine(database, "dependency");
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK_FALSE(dispatched_at(db, resumed).is_null());
  CHECK(diff(before, snapshot(db)).size() == 2);
  CHECK(counts(db, f.downstream) == "0/0/0/2");
  // Its end counts when it comes.
  end_upstream(db, f, 0);
  CHECK(outcomes(engine->tick()) == "advanced=1");
  CHECK(counts(db, f.downstream) == "1/0/0/1");
}
