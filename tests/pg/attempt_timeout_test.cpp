#include <catch2/catch.hpp>

#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::TickReport;

namespace {

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("attempt_timeout");
}

Json event(const Uuid& id, const std::string& column, const std::string& word, const Json& at) {
  Json row = {{"partition_key", 3},   {"execution_id", to_string(id)}, {column, word},
              {"occurred_at_ms", at}, {"namespace", nullptr},          {"instance_tag", nullptr}};
  if (column == "event_type")
    row["lease_id"] = nullptr;
  else
    row.update({{"flow_id", nullptr}, {"dispatched_at_ms", nullptr}});
  return row;
}
Json expired_lease(const Uuid& id, const Json& at) {
  return event(id, "event_type", "expired", at);
}
Json expired_execution(const Uuid& id, const Json& at) {
  return event(id, "outcome", "expired", at);
}

/// Rows that attempt_timeout must leave alone, beside whatever a test is about.
std::vector<reconcile::RowKey> insert_bystanders(pg::Connection& db) {
  const auto now = now_ms(db);
  std::vector<reconcile::RowKey> keys;
  const auto add = [&](const CoreRow& core, const AttemptRow& attempt) {
    keys.push_back(attempt_key(core.partition, insert_lapsed(db, core, attempt), core.attempt_index));
  };
  for (const State& state : {runnable(), delayed(), suspended(), blocked(), submitted(), terminal(),
                             State{"cancelled", "unowned", "not_applicable", "cancelled", "cancelled"}})
    add({.partition = {3}, .state = state, .policy = max_retries(5)}, {});
  add({.partition = {3}, .policy = max_retries(5)}, {.lease_expires_at_ms = now + 60'000});
  const Uuid without_lease = insert_core(db, {.partition = {3}});
  insert_attempt(db, {.partition = {3}, .execution = without_lease});
  keys.push_back(attempt_key({3}, without_lease));
  const Uuid without_core = new_uuid();
  insert_attempt(db, {.partition = {3}, .execution = without_core, .lease_expires_at_ms = now - 1000});
  keys.push_back(attempt_key({3}, without_core));
  return keys;
}

/// One execution that a test is about among bystanders, and what a tick makes of it.
struct OneTick {
  Database database;
  pg::Connection db = database.connect();
  EngineFixture engine{database, "attempt_timeout"};
  std::vector<std::string> others;
  Uuid id;
  Json core_before;
  Json attempt_before;

  explicit OneTick(CoreRow core, const AttemptRow& attempt = {}) {
    insert_bystanders(db);
    others = snapshot(db);
    core.partition = {3};
    id = insert_lapsed(db, core, attempt);
    core_before = test::core(db, id);
    attempt_before = test::attempt(db, id, core.attempt_index);
  }

  TickReport tick() {
    const auto from = now_ms(db);
    const TickReport report = engine->tick();
    CHECK_FALSE(report.failure);
    const Json attempt_now = attempt();
    at = attempt_now["terminal_at_ms"];
    CHECK(at >= from);
    CHECK(at <= now_ms(db));
    CHECK(attempt_now ==
          changed(attempt_before, {{"outcome", "interrupted"},
                                   {"lease_expires_at_ms", nullptr},
                                   {"lease_epoch", attempt_before["lease_epoch"].get<int>() + 1},
                                   {"terminal_at_ms", at}}));
    return report;
  }
  Json core() { return test::core(db, id); }
  Json attempt() { return test::attempt(db, id, core_before["attempt_index"]); }
  /// Every row but those of the execution and its events.
  std::vector<std::string> others_now() {
    std::vector<std::string> lines = snapshot(db);
    std::erase_if(lines, [&](const std::string& line) { return line.find(to_string(id)) != line.npos; });
    return lines;
  }
  Json at;
};

}  // namespace

TEST_CASE("attempt_timeout retries an attempt while retries are left and touches nothing else") {
  OneTick t({.attempt_index = 1,
             .priority = 7,
             .deadline_at_ms = 1'700'000'500'000,
             .policy = max_retries(2),
             .raw_fields = {{"color", "red"}, {"last_failure_message", "old"}}},
            {.lease_epoch = 41, .raw_fields = {{"note", 1}}});
  const TickReport report = t.tick();
  CHECK(t.core() == changed(t.core_before, {{"lifecycle_phase", "runnable"},
                                            {"ownership_state", "unowned"},
                                            {"eligibility_state", "eligible_now"},
                                            {"public_state", "waiting"},
                                            {"attempt_state", "pending_retry_attempt"},
                                            {"attempt_index", 2},
                                            {"raw_fields",
                                             {{"color", "red"},
                                              {"last_failure_message", "attempt_timeout"},
                                              {"total_attempt_count", "2"}}}}));
  CHECK(lease_events(t.db) == Json::array({expired_lease(t.id, t.at)}));
  CHECK(completion_events(t.db) == Json::array());
  CHECK(t.others_now() == t.others);
  CHECK(outcomes(report) == "retried=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
  CHECK(report.error_count() == 0);
}

TEST_CASE("attempt_timeout ends an execution without retries and tells whoever depends on it") {
  const Uuid flow = new_uuid();
  OneTick t(
      {.flow = flow, .attempt_index = 2, .policy = max_retries(2), .raw_fields = origin("payments", "i-7")});
  const TickReport report = t.tick();
  CHECK(t.core() ==
        changed(t.core_before, {{"lifecycle_phase", "terminal"},
                                {"ownership_state", "unowned"},
                                {"eligibility_state", "not_applicable"},
                                {"public_state", "expired"},
                                {"attempt_state", "attempt_terminal"},
                                {"terminal_at_ms", t.at},
                                {"raw_fields", changed(origin("payments", "i-7"),
                                                       {{"last_failure_message", "attempt_timeout"}})}}));
  const Json from = {{"namespace", "payments"}, {"instance_tag", "i-7"}};
  CHECK(lease_events(t.db) == Json::array({changed(expired_lease(t.id, t.at), from)}));
  CHECK(completion_events(t.db) ==
        Json::array({changed(changed(expired_execution(t.id, t.at), from), {{"flow_id", to_string(flow)}})}));
  CHECK(t.others_now() == t.others);
  CHECK(outcomes(report) == "expired=1");
}

TEST_CASE("attempt_timeout deletes the suspension and the waitpoints of what it ends, and of nothing else") {
  const Database database;
  auto db = database.connect();
  const auto add_parts = [&](PartitionKey partition, const Uuid& id) {
    insert_suspension(db, {.partition = partition, .execution = id});
    insert_waitpoint(db, {.partition = partition, .execution = id, .waitpoint_key = "old"});
    insert_waitpoint(db, {.partition = partition, .execution = id, .waitpoint_key = "new"});
  };
  add_parts({3}, insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)}));
  const Uuid twin = insert_core(db, {.partition = {4}});
  add_parts({4}, twin);
  std::map<std::string, std::vector<std::string>> others;
  for (const char* table : {"ff_suspension_current", "ff_waitpoint_pending"})
    others[table] = snapshot(db, table);
  const Uuid id = insert_lapsed(db, {.partition = {3}, .execution = twin});
  add_parts({3}, id);

  EngineFixture engine(database, "attempt_timeout");
  CHECK(outcomes(engine->tick()) == "expired=1 retried=1");
  for (const auto& [table, rows] : others) CHECK(snapshot(db, table) == rows);
}

TEST_CASE("attempt_timeout leaves no lease of an older attempt to what it ends") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  const Uuid id = insert_lapsed(db, {.partition = {3}, .attempt_index = 2});
  const auto add = [&](int index, std::int64_t expires) {
    insert_attempt(db, {.partition = {3},
                        .execution = id,
                        .attempt_index = index,
                        .lease_epoch = 5,
                        .lease_expires_at_ms = expires});
    return attempt(db, id, index);
  };
  const Json lapsed = add(0, now - 2000);
  const Json live = add(1, now + 60'000);

  EngineFixture engine(database, "attempt_timeout");
  CHECK(outcomes(engine->tick()) == "expired=1 stale_cleared=1");
  const Json cleared = {{"lease_expires_at_ms", nullptr}, {"lease_epoch", 6}, {"outcome", "interrupted"}};
  CHECK(attempt(db, id, 0) == changed(lapsed, cleared));
  CHECK(attempt(db, id, 1) == changed(live, cleared));
  CHECK(lease_events(db).size() == 1);
  CHECK(completion_events(db).size() == 1);
}

TEST_CASE("attempt_timeout repeats each of its conditions under the lock") {
  const Database database;
  auto db = database.connect();
  const auto bystanders = insert_bystanders(db);
  const auto before = snapshot(db);
  for (const auto& row : bystanders) CHECK(act_on(db, reconciler(), {row}).empty());
  CHECK(diff(before, snapshot(db)).empty());

  const Uuid due = insert_lapsed(db, {.partition = {3}, .raw_fields = origin("a", "1")});
  const auto with_due = snapshot(db);
  CHECK(act_on(db, reconciler(), {attempt_key({3}, due)}, for_namespace("b")).empty());
  CHECK(act_on(db, reconciler(), {attempt_key({3}, due)}, for_tag("2")).empty());
  CHECK(diff(with_due, snapshot(db)).empty());
  CHECK(act_on(db, reconciler(), {attempt_key({3}, due)}) == std::vector<std::string>{"expired"});
}

TEST_CASE("attempt_timeout grants as many retries as the policy says in a whole number and else none") {
  struct Case {
    const char* policy;  // JSON, or null for none
    int attempt_index;
    const char* public_state;
  };
  // 1e2 is 100 for the database: jsonb stores numbers, not their spelling, but keeps a fraction of zero.
  const auto c = GENERATE(values<Case>({
      {nullptr, 0, "expired"},
      {"null", 0, "expired"},
      {"5", 0, "expired"},
      {"\"x\"", 0, "expired"},
      {"[]", 0, "expired"},
      {R"([{"retry_policy": {"max_retries": 5}}])", 0, "expired"},
      {"{}", 0, "expired"},
      {R"({"max_retries": 5})", 0, "expired"},
      {R"({"retry_policy": null})", 0, "expired"},
      {R"({"retry_policy": 5})", 0, "expired"},
      {R"({"retry_policy": "max_retries"})", 0, "expired"},
      {R"({"retry_policy": [5]})", 0, "expired"},
      {R"({"retry_policy": ["max_retries", 5]})", 0, "expired"},
      {R"({"retry_policy": {}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": null}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": "5"}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": true}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": [5]}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": {"n": 5}}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": -1}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": 3.0}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": 2.5}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": 4294967296}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": 1e400}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": 99999999999999999999}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": 0}})", 0, "expired"},
      {R"({"retry_policy": {"max_retries": 1}})", 0, "waiting"},
      {R"({"retry_policy": {"max_retries": 1}})", 1, "expired"},
      {R"({"retry_policy": {"max_retries": 3}})", 2, "waiting"},
      {R"({"retry_policy": {"max_retries": 3}})", 3, "expired"},
      {R"({"retry_policy": {"max_retries": 3}})", 4, "expired"},
      {R"({"retry_policy": {"max_retries": 1e2}})", 99, "waiting"},
      {R"({"retry_policy": {"max_retries": 1e2}})", 100, "expired"},
      {R"({"retry_policy": {"max_retries": 4294967295}})", 2'147'483'646, "waiting"},
  }));
  // One database for all of them: each case adds its row and sees only its own change.
  static const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .attempt_index = c.attempt_index});
  db.execute("UPDATE ff_exec_core SET policy = $1::jsonb WHERE execution_id = $2",
             pg::Params::of(c.policy == nullptr ? std::nullopt : std::optional<std::string>(c.policy), id));
  EngineFixture engine(database, "attempt_timeout");
  const TickReport report = engine->tick();
  CAPTURE(c.policy == nullptr ? "no policy" : c.policy, c.attempt_index);
  CHECK(report.processed == 1);
  CHECK(report.error_count() == 0);
  // Not as JSON: the test's parser has no room for 1e400.
  CHECK(db.execute("SELECT public_state FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(id))
            .one()
            .get<std::string>(0) == c.public_state);
}

TEST_CASE("attempt_timeout only clears a lapsed lease that a newer attempt has left behind") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  // The current attempt is healthy, below one that is dead; an older one lapsed without an outcome, another with one.
  const Uuid id = insert_core(db, {.partition = {3}, .attempt_index = 3, .policy = max_retries(9)});
  const auto add = [&](int index, std::optional<std::int64_t> expires,
                       const std::optional<std::string>& outcome) {
    insert_attempt(db, {.partition = {3},
                        .execution = id,
                        .attempt_index = index,
                        .lease_epoch = 5,
                        .lease_expires_at_ms = expires,
                        .terminal_at_ms = outcome ? std::optional(now - 5000) : std::nullopt,
                        .outcome = outcome});
  };
  add(0, now - 1000, std::nullopt);
  add(1, now - 1000, "retry");
  add(2, now + 60'000, std::nullopt);
  add(3, std::nullopt, "retry");
  std::vector<Json> attempts;
  for (int i = 0; i < 4; ++i) attempts.push_back(attempt(db, id, i));
  const Json core_before = core(db, id);

  EngineFixture engine(database, "attempt_timeout");
  CHECK(outcomes(engine->tick()) == "stale_cleared=2");
  const Json cleared = {{"lease_expires_at_ms", nullptr}, {"lease_epoch", 6}};
  CHECK(attempt(db, id, 0) == changed(changed(attempts[0], cleared), {{"outcome", "interrupted"}}));
  CHECK(attempt(db, id, 1) == changed(attempts[1], cleared));
  CHECK(attempt(db, id, 2) == attempts[2]);
  CHECK(attempt(db, id, 3) == attempts[3]);
  CHECK(core(db, id) == core_before);
  CHECK(lease_events(db).empty());
  CHECK(completion_events(db).empty());
}

TEST_CASE("attempt_timeout moves an execution once when its old and current attempts have both lapsed") {
  const Database database;
  auto db = database.connect();
  const Uuid id = insert_lapsed(db, {.partition = {3}, .attempt_index = 1, .policy = max_retries(2)});
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 2000});
  EngineFixture engine(database, "attempt_timeout");
  CHECK(outcomes(engine->tick()) == "retried=1 stale_cleared=1");
  CHECK(core(db, id)["attempt_index"] == 2);
  CHECK(lease_events(db).size() == 1);
}

TEST_CASE("attempt_timeout is not disturbed by raw_fields of any type") {
  const auto raw_fields = GENERATE(R"(null)", R"(5)", R"("text")", R"([])", R"([{"tags": 1}])", R"(true)",
                                   R"({"namespace": null, "tags": null})", R"({"namespace": 5, "tags": 5})",
                                   R"({"namespace": {"a": 1}, "tags": ["cairn.instance_id"]})",
                                   R"({"namespace": [], "tags": {"cairn.instance_id": [1]}})");
  static const Database database;
  auto db = database.connect();
  const Uuid retried = insert_lapsed(db, {.partition = {3}, .policy = max_retries(1)});
  const Uuid expired = insert_lapsed(db, {.partition = {3}});
  for (const char* table : {"ff_exec_core", "ff_attempt"})
    db.execute("UPDATE " + std::string(table) + " SET raw_fields = $1::jsonb WHERE execution_id = ANY($2)",
               pg::Params::of(raw_fields, std::vector<Uuid>{retried, expired}));
  EngineFixture engine(database, "attempt_timeout");
  const TickReport report = engine->tick();
  CAPTURE(raw_fields);
  CHECK(outcomes(report) == "expired=1 retried=1");
  CHECK(report.error_count() == 0);
  CHECK(core(db, retried)["raw_fields"]["last_failure_message"] == "attempt_timeout");
  CHECK(core(db, expired)["raw_fields"]["last_failure_message"] == "attempt_timeout");
  CHECK(attempt(db, expired)["raw_fields"] == Json::parse(raw_fields));
}

TEST_CASE("attempt_timeout goes by the database's clock to the millisecond's neighbourhood") {
  // The engine's own clock stands in 2023.
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  const Uuid just_lapsed = insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = now - 2});
  const Uuid soon = insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = now + 60'000});
  EngineFixture engine(database, "attempt_timeout");
  const TickReport report = engine->tick({.scan_ahead = std::chrono::minutes{5}});
  CHECK(report.processed == 1);
  CHECK(core(db, just_lapsed)["lifecycle_phase"] == "terminal");
  CHECK(core(db, soon)["lifecycle_phase"] == "active");
  CHECK(count(report.database_time) >= now);
  CHECK(report.next_due == unix_millis(now + 60'001));
}

TEST_CASE("attempt_timeout leaves a lapsed lease alone for as long as its grace") {
  const Database database;
  auto db = database.connect();
  const auto now = now_ms(db);
  const Uuid within = insert_lapsed(db, {.partition = {3}}, {.lease_expires_at_ms = now - 30'000});
  const Uuid beyond = insert_lapsed(db, {.partition = {4}}, {.lease_expires_at_ms = now - 90'000});
  EngineFixture engine(database, "attempt_timeout", {.settings = {{"grace", 60'000}}});
  const TickReport report = engine->tick({.scan_ahead = std::chrono::minutes{5}});
  CHECK(report.processed == 1);
  CHECK(report.scanned == 1);
  CHECK(core(db, within)["lifecycle_phase"] == "active");
  CHECK(core(db, beyond)["lifecycle_phase"] == "terminal");
  CHECK(report.next_due == unix_millis(now - 30'000 + 60'001));
}
