// execution_deadline and what was replayed: a replay keeps deadline_at_ms, which may be that of a former run.
#include <catch2/catch.hpp>

#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr std::int64_t kDeadline = kNow - 5000;

struct Stage : StillStage {
  Stage() : StillStage(*reconcile::find_reconciler("execution_deadline")) {}

  Uuid add(const Json& raw_fields) {
    const Uuid id =
        insert_core(db, {.partition = {3}, .deadline_at_ms = kDeadline, .raw_fields = raw_fields});
    insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = kNow + 30'000});
    return id;
  }
  void add_event(const Uuid& id, std::int64_t at, const std::string& type = "replayed", int partition = 3) {
    insert(db, "ff_operator_event",
           {{"partition_key", partition},
            {"execution_id", to_string(id)},
            {"event_type", type},
            {"occurred_at_ms", at}});
  }
  bool ends(const Uuid& id) {
    const bool found = tick().processed == 1;
    CHECK((core(db, id)["lifecycle_phase"] == "terminal") == found);
    return found;
  }
};

}  // namespace

TEST_CASE("execution_deadline does not end what was replayed after its deadline") {
  Stage t;
  const Uuid id = t.add({{"replay_count", 2}, {"last_mutation_at", std::to_string(kDeadline - 9)}});
  t.add_event(id, kDeadline - 50);
  t.add_event(id, kDeadline + 1);
  const auto before = snapshot(t.db);
  CHECK_FALSE(t.ends(id));
  CHECK(act_on(t.db, *reconcile::find_reconciler("execution_deadline"), {{{3}, {to_string(id)}}}).empty());
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("execution_deadline ends what was replayed before its deadline, whatever was done to it since") {
  Stage t;
  const Uuid id = t.add({{"replay_count", 1}, {"last_mutation_at", std::to_string(kNow)}});
  t.add_event(id, kDeadline);
  // Neither other operations nor the replays of others count.
  t.add_event(id, kNow, "priority_changed");
  t.add_event(new_uuid(), kNow);
  t.add_event(id, kNow, "replayed", 4);
  CHECK(t.ends(id));
}

TEST_CASE("execution_deadline goes by the last change where no event tells of the replay") {
  struct Case {
    Json last_mutation_at;
    bool ends;
  };
  const auto c = GENERATE(values<Case>({{std::to_string(kDeadline + 1), false},
                                        {std::to_string(kDeadline), true},
                                        {kDeadline + 1, false},
                                        {nullptr, true},
                                        {"soon", true},
                                        {"99999999999999999999", true},
                                        {-1, true}}));
  Stage t;
  CHECK(t.ends(t.add({{"replay_count", 1}, {"last_mutation_at", c.last_mutation_at}})) == c.ends);
}

TEST_CASE("execution_deadline ends what was changed after its deadline and never replayed") {
  Stage t;
  const Uuid id = t.add({{"last_mutation_at", std::to_string(kNow)}, {"replay_count", nullptr}});
  t.add_event(id, kNow);
  CHECK(t.ends(id));
}

TEST_CASE("execution_deadline does not compare all that was replayed with each operator event") {
  const Database database;
  auto db = database.connect();
  const int replayed = 10'000;
  db.execute(
      "INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state,"
      "  eligibility_state, public_state, attempt_state, created_at_ms, deadline_at_ms, raw_fields)"
      " SELECT 3, md5(i::text)::uuid, 'default', 'active', 'leased', 'not_applicable', 'active', "
      "'running_attempt', 1,"
      "  1000, '{\"replay_count\": 1}' FROM generate_series(1, $1::integer) AS i",
      pg::Params::of(replayed));
  db.execute(
      "INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " SELECT md5(i::text)::uuid::text, 'replayed', 2000, 3 FROM generate_series(1, $1::integer) AS i",
      pg::Params::of(replayed));
  // Replayed once, and past the deadline of that run; replayed twice since.
  const Uuid late = insert_core(
      db, {.partition = {3}, .state = active(), .deadline_at_ms = 3000, .raw_fields = {{"replay_count", 1}}});
  const Uuid again = insert_core(
      db, {.partition = {3}, .state = active(), .deadline_at_ms = 3000, .raw_fields = {{"replay_count", 2}}});
  for (const auto& [id, at] : {std::pair{late, 2000}, {again, 2000}, {again, 4000}})
    db.execute(
        "INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " VALUES ($1, 'replayed', $2, 3)",
        pg::Params::of(to_string(id), std::int64_t{at}));
  db.execute_script("ANALYZE ff_exec_core, ff_operator_event");
  EngineFixture engine(database, "execution_deadline", {.statement_timeout = Milliseconds{1500}});
  const reconcile::TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(outcomes(report) == "expired=1");
  CHECK(core(db, late)["public_state"] == "expired");
  CHECK(core(db, again)["lifecycle_phase"] == "active");
}
