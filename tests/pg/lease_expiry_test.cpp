#include <catch2/catch.hpp>

#include "demo/simulation/worker.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("lease_expiry");
}

Json expired_lease(const Uuid& id, const Json& at) {
  return {{"partition_key", 3},     {"execution_id", to_string(id)}, {"event_type", "expired"},
          {"lease_id", nullptr},    {"occurred_at_ms", at},          {"namespace", nullptr},
          {"instance_tag", nullptr}};
}

/// What becomes of the current attempt, whatever becomes of the core.
Json released(const Json& before, const std::string& outcome = "lease_expired_reclaimable") {
  return changed(before, {{"outcome", outcome},
                          {"lease_expires_at_ms", nullptr},
                          {"lease_epoch", before["lease_epoch"].get<int>() + 1}});
}

/// The same where its execution goes on.
Json reclaimed(const Json& before, int reclaims) {
  Json raw_fields = before["raw_fields"].is_object() ? before["raw_fields"] : Json::object();
  raw_fields["lease_reclaims"] = reclaims;
  return changed(released(before), {{"raw_fields", raw_fields}});
}

/// Rows that lease_expiry must leave alone.
std::vector<reconcile::RowKey> insert_bystanders(pg::Connection& db) {
  const auto add = [&](const State& state, std::optional<std::int64_t> expires) {
    const Uuid id = insert_core(db, {.partition = {3}, .state = state});
    insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = expires});
    return attempt_key({3}, id);
  };
  const Uuid without_core = new_uuid();
  insert_attempt(db,
                 {.partition = {3}, .execution = without_core, .lease_expires_at_ms = now_ms(db) + 60'000});
  return {add(active(), now_ms(db) + 60'000), add(suspended(), now_ms(db) + 60'000), add(active(), {}),
          add(terminal(), {}), attempt_key({3}, without_core)};
}

std::vector<std::string> without(std::vector<std::string> lines, const Uuid& id) {
  std::erase_if(lines, [&](const std::string& line) { return line.find(to_string(id)) != line.npos; });
  return lines;
}

}  // namespace

TEST_CASE("lease_expiry gives an active execution back for the same attempt and touches nothing else") {
  const Database database;
  auto db = database.connect();
  insert_bystanders(db);
  const auto others = snapshot(db);
  const Uuid id = insert_lapsed(db,
                                {.partition = {3},
                                 .flow = new_uuid(),
                                 .attempt_index = 2,
                                 .priority = 7,
                                 .deadline_at_ms = 1'700'000'500'000,
                                 .policy = max_retries(9),
                                 .raw_fields = origin("payments", "i-7")},
                                {.lease_epoch = 41, .raw_fields = {{"note", 1}, {"lease_reclaims", 4}}});
  const Json core_before = core(db, id);
  const Json attempt_before = attempt(db, id, 2);
  EngineFixture engine(database, "lease_expiry");
  const auto from = now_ms(db);
  const TickReport report = engine->tick();

  const Json at = core(db, id)["raw_fields"]["lease_expired_at_ms"];
  REQUIRE(at.is_number_integer());
  CHECK(at >= from);
  CHECK(at <= now_ms(db));
  CHECK(core(db, id) ==
        changed(core_before,
                {{"lifecycle_phase", "runnable"},
                 {"ownership_state", "unowned"},
                 {"eligibility_state", "eligible_now"},
                 {"public_state", "waiting"},
                 {"attempt_state", "pending_retry_attempt"},
                 {"raw_fields", changed(origin("payments", "i-7"),
                                        {{"lease_expired_at_ms", at}, {"total_attempt_count", "2"}})}}));
  CHECK(attempt(db, id, 2) == reclaimed(attempt_before, 5));
  CHECK(lease_events(db) ==
        Json::array({changed(expired_lease(id, at), {{"namespace", "payments"}, {"instance_tag", "i-7"}})}));
  CHECK(without(snapshot(db), id) == others);
  CHECK(outcomes(report) == "reclaimable=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
  CHECK(report.error_count() == 0);
}

TEST_CASE("lease_expiry releases the lease of an execution in any other phase without touching its core") {
  const Database database;
  auto db = database.connect();
  const auto state = GENERATE(runnable(), delayed(), suspended(), blocked(), submitted(), terminal(),
                              State{"cancelled", "unowned", "not_applicable", "cancelled", "cancelled"});
  const Uuid id = insert_lapsed(db, {.partition = {3}, .state = state}, {.outcome = "success"});
  const Uuid untold = insert_lapsed(db, {.partition = {3}, .state = state});
  const Json untold_before = attempt(db, untold);
  const Json core_before = core(db, id);
  const Json attempt_before = attempt(db, id);
  EngineFixture engine(database, "lease_expiry");
  CHECK(outcomes(engine->tick()) == "released=2");
  CHECK(core(db, id) == core_before);
  CHECK(attempt(db, id) == released(attempt_before, "success"));
  CHECK(attempt(db, untold) == released(untold_before));
  db.execute("DELETE FROM ff_lease_event WHERE execution_id <> $1", pg::Params::of(to_string(id)));
  const Json events = lease_events(db);
  REQUIRE(events.size() == 1);
  CHECK(events[0] == expired_lease(id, events[0]["occurred_at_ms"]));
}

TEST_CASE("lease_expiry takes the owner of an execution that is not active but still says it is leased") {
  const Database database;
  auto db = database.connect();
  // FlowFabric's claims refuse what has an owner.
  State state = GENERATE(runnable(), suspended(), terminal());
  state.ownership_state = "leased";
  const Uuid id = insert_lapsed(db, {.partition = {3}, .state = state});
  const Json before = core(db, id);
  EngineFixture engine(database, "lease_expiry");
  CHECK(outcomes(engine->tick()) == "released=1");
  CHECK(core(db, id) == changed(before, {{"ownership_state", "unowned"}}));
}

TEST_CASE(
    "lease_expiry clears the lease of an older attempt without a word and leaves the current one healthy") {
  const Database database;
  auto db = database.connect();
  const auto outcome = GENERATE(std::optional<std::string>(), std::optional<std::string>("retry"));
  const Uuid id =
      insert_lapsed(db, {.partition = {3}, .attempt_index = 1}, {.lease_expires_at_ms = now_ms(db) + 60'000});
  insert_attempt(
      db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000, .outcome = outcome});
  const Json core_before = core(db, id);
  const Json current_before = attempt(db, id, 1);
  const Json old_before = attempt(db, id, 0);
  EngineFixture engine(database, "lease_expiry");
  CHECK(outcomes(engine->tick()) == "stale_cleared=1");
  CHECK(core(db, id) == core_before);
  CHECK(attempt(db, id, 1) == current_before);
  CHECK(attempt(db, id, 0) == changed(old_before, {{"outcome", outcome.value_or("interrupted")},
                                                   {"lease_expires_at_ms", nullptr},
                                                   {"lease_epoch", 2}}));
  CHECK(lease_events(db).empty());
}

TEST_CASE("lease_expiry gives an execution back once when its old and current attempts have both lapsed") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .attempt_index = 1});
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  EngineFixture engine(database, "lease_expiry");
  CHECK(outcomes(engine->tick()) == "reclaimable=1 stale_cleared=1");
  CHECK(core(db, id)["attempt_index"] == 1);
  CHECK(core(db, id)["lifecycle_phase"] == "runnable");
  CHECK(lease_events(db).size() == 1);
}

TEST_CASE("lease_expiry leaves a lapsed lease alone for as long as its grace") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  const Uuid within = insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = now - 30'000});
  const Uuid beyond = insert_lapsed(db, {.partition = {4}}, {.lease_expires_at_ms = now - 90'000});
  EngineFixture engine(database, "lease_expiry", {.settings = {{"grace", 60'000}}});
  const TickReport report = engine->tick({.scan_ahead = std::chrono::minutes{5}});
  CHECK(report.processed == 1);
  CHECK(report.scanned == 1);
  CHECK(core(db, within)["lifecycle_phase"] == "active");
  CHECK(core(db, beyond)["lifecycle_phase"] == "runnable");
  CHECK(report.next_due == unix_millis(now - 30'000 + 60'001));
  // It is late since the grace was over.
  CHECK(report.oldest_due == unix_millis(now - 30'000));
  REQUIRE(report.lateness.rows() == 1);
  CHECK(report.lateness.worst() >= Milliseconds{30'000});
  CHECK(report.lateness.worst() < std::chrono::minutes{1});
}

TEST_CASE("lease_expiry releases a lease without a core row and writes its event with nulls") {
  const Database database;
  auto db = database.connect();
  const Uuid id = new_uuid();
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  // Neither another core of the partition nor its namesake in another partition is its core.
  insert_core(db, {.partition = {3}});
  insert_core(db, {.partition = {4}, .execution = id, .raw_fields = origin("a", "1")});
  const auto cores_before = snapshot(db, "ff_exec_core");
  insert_lapsed(db, {.partition = {4}, .state = terminal()});
  const Json attempt_before = attempt(db, id);
  EngineFixture engine(database, "lease_expiry");
  CHECK(outcomes(engine->tick()) == "released=2");
  CHECK(attempt(db, id) == released(attempt_before));
  db.execute("DELETE FROM ff_lease_event WHERE execution_id <> $1", pg::Params::of(to_string(id)));
  const Json events = lease_events(db);
  REQUIRE(events.size() == 1);
  CHECK(events[0] == expired_lease(id, events[0]["occurred_at_ms"]));
  db.execute("DELETE FROM ff_exec_core WHERE lifecycle_phase = 'terminal'");
  CHECK(snapshot(db, "ff_exec_core") == cores_before);
}

TEST_CASE("lease_expiry leaves a lease without a core row alone as soon as a filter asks for anything") {
  const Database database;
  auto db = database.connect();
  const Uuid id = new_uuid();
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  const auto filter = GENERATE(for_namespace("a"), for_tag("1"));
  const auto before = snapshot(db);
  EngineFixture engine(database, "lease_expiry", {.filter = filter});
  CHECK(engine->tick().scanned == 0);
  CHECK(act_on(db, reconciler(), {attempt_key({3}, id)}, filter).empty());
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("lease_expiry repeats each of its conditions under the lock") {
  const Database database;
  auto db = database.connect();
  const auto bystanders = insert_bystanders(db);
  const Uuid due = insert_lapsed(db, {.partition = {3}, .raw_fields = origin("a", "1")});
  const auto before = snapshot(db);
  for (const auto& row : bystanders) CHECK(act_on(db, reconciler(), {row}).empty());
  CHECK(act_on(db, reconciler(), {attempt_key({3}, due)}, for_namespace("b")).empty());
  CHECK(act_on(db, reconciler(), {attempt_key({3}, due)}, for_tag("2")).empty());
  CHECK(diff(before, snapshot(db)).empty());
  CHECK(act_on(db, reconciler(), {attempt_key({3}, due)}) == std::vector<std::string>{"reclaimable"});
}

TEST_CASE("lease_expiry counts how often an attempt was reclaimed") {
  const Database database;
  auto db = database.connect();
  const auto id = simulation::create(db, {.partition = {3}});
  simulation::Worker worker(db, "w1", Milliseconds{30'000});
  EngineFixture engine(database, "lease_expiry");
  for (int round = 1; round <= 5; ++round) {
    REQUIRE(worker.claim_one(id));
    db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 5");
    // Alone it goes on without end, whatever max_reclaims (3) says.
    CHECK(outcomes(engine->tick()) == "reclaimable=1");
    CHECK(attempt(db, id.uuid)["raw_fields"]["lease_reclaims"] == round);
  }
}

TEST_CASE("lease_expiry starts counting anew where the number of reclaims is none") {
  const auto raw_fields =
      GENERATE(R"(null)", R"([])", R"("text")", R"(7)", R"({"lease_reclaims": null})",
               R"({"lease_reclaims": "2"})", R"({"lease_reclaims": -2})", R"({"lease_reclaims": 2.0})",
               R"({"lease_reclaims": [2]})", R"({"lease_reclaims": 4294967296})", R"({"kept": 1})");
  static const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  db.execute("UPDATE ff_attempt SET raw_fields = $1::jsonb WHERE execution_id = $2",
             pg::Params::of(raw_fields, id));
  const Json before = attempt(db, id);
  EngineFixture engine(database, "lease_expiry");
  CHECK(outcomes(engine->tick()) == "reclaimable=1");
  CHECK(attempt(db, id) == reclaimed(before, 1));
}

TEST_CASE("lease_expiry is not disturbed by a core's raw_fields of any type") {
  const auto raw_fields = GENERATE(R"(null)", R"(5)", R"("text")", R"([{"tags": 1}])", R"(true)",
                                   R"({"namespace": null, "tags": null})", R"({"namespace": 5, "tags": 5})",
                                   R"({"namespace": {"a": 1}, "tags": ["cairn.instance_id"]})");
  static const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}});
  db.execute("UPDATE ff_exec_core SET raw_fields = $1::jsonb, policy = $1::jsonb WHERE execution_id = $2",
             pg::Params::of(raw_fields, id));
  EngineFixture engine(database, "lease_expiry");
  const TickReport report = engine->tick();
  CAPTURE(raw_fields);
  CHECK(outcomes(report) == "reclaimable=1");
  CHECK(report.error_count() == 0);
  CHECK(core(db, id)["raw_fields"]["lease_expired_at_ms"].is_number());
}
