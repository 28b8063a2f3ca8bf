// What ending.hpp promises to every reconciler that ends executions, told by one made for the purpose.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "reconcile/ending.hpp"
#include "reconcile/phrases.hpp"
#include "sandbox/audit.hpp"
#include "support/engine.hpp"
#include "support/stalled_act.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

/// Ends every execution with a deadline, as its raw_fields say: attempt_outcome, and `spare` for one
/// that is doomed and then is not ended after all.
Reconciler ender() {
  return {.name = "ender",
          .summary = "Ends what a test wants ended.",
          .outcomes = {"ended"},
          .key = {{"execution_id", "uuid"}},
          .execution_column = "execution_id",
          .scan =
              "SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms FROM ff_exec_core c"
              " WHERE c.partition_key = ANY($1) AND c.deadline_at_ms IS NOT NULL",
          .act = R"sql(
doomed AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.flow_id, 1234567 AS now_ms,
         )sql" + reconcile::phrases::current_attempt("c") +
                 R"sql( AS attempt_index,
         'space' AS name_space, 'tag' AS instance_tag, 'cancelled' AS public_state,
         'cancelled' AS attempt_state, c.raw_fields->>'attempt_outcome' AS attempt_outcome,
         'revoked' AS lease_event,
         'why' AS cancellation_reason, 'who' AS cancelled_by,
         '{"patched": {"by": "ender"}}'::jsonb AS raw_patch,
         coalesce((c.raw_fields->>'spare')::boolean, false) AS spare, c.deadline_at_ms AS due_at_ms
    FROM clock, key
    JOIN ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
    )sql" + reconcile::phrases::as_seen("c") +
                 R"sql(
   WHERE c.partition_key = ANY($1) AND c.deadline_at_ms <= clock.due_ms
     FOR NO KEY UPDATE OF c SKIP LOCKED
),)sql" + reconcile::ending::hold_doomed() +
                 "\nending AS MATERIALIZED (SELECT * FROM endable WHERE NOT spare)," +
                 reconcile::ending::end_executions() +
                 "\nmoved AS (SELECT partition_key, execution_id, due_at_ms, 'ended' AS outcome FROM ending)",
          .interval = Milliseconds{1000}};
}

/// An execution with all that can belong to one, and others that look like it.
struct Stage {
  Database database;
  pg::Connection db = database.connect();
  const Reconciler reconciler = ender();

  /// An execution to be ended, with a suspension and two waitpoints. It was claimed at 2, below a dead attempt, as a
  /// typed claim does it; without a lease its current attempt is 3.
  Uuid add(const Json& raw_fields, std::optional<std::int64_t> lease_expires_at_ms = 5, int partition = 3) {
    const Uuid id = new_uuid();
    add_parts(id, partition, lease_expires_at_ms);
    return insert_core(db, {.partition = {static_cast<std::int16_t>(partition)},
                            .execution = id,
                            .flow = new_uuid(),
                            .attempt_index = 3,
                            .priority = 7,
                            .deadline_at_ms = 1000,
                            .policy = max_retries(3),
                            .raw_fields = raw_fields});
  }
  void add_parts(const Uuid& id, int partition_key, std::optional<std::int64_t> lease_expires_at_ms) {
    const PartitionKey partition{static_cast<std::int16_t>(partition_key)};
    for (int index : {1, 2, 3})
      insert_attempt(db, {.partition = partition,
                          .execution = id,
                          .attempt_index = index,
                          .lease_epoch = 40 + index,
                          .lease_expires_at_ms = index == 2 ? lease_expires_at_ms : std::nullopt,
                          .outcome = "retry",
                          .raw_fields = {{"note", index}}});
    insert_suspension(db, {.partition = partition, .execution = id, .timeout_at_ms = 9});
    insert_waitpoint(db, {.partition = partition, .execution = id, .expires_at_ms = 9});
    insert_waitpoint(db, {.partition = partition, .execution = id, .waitpoint_key = "k"});
  }
  /// The same numbers in the next partition, and another execution in this one.
  std::vector<std::string> add_bystanders(const Uuid& twin) {
    insert_core(db, {.partition = {4}, .execution = twin, .attempt_index = 2});
    add_parts(twin, 4, 5);
    const Uuid neighbour = insert_core(db, {.partition = {3}, .attempt_index = 2});
    add_parts(neighbour, 3, 5);
    return snapshot(db);
  }
  Json own_core(const Uuid& id) {
    return row(db, "SELECT * FROM ff_exec_core WHERE partition_key = 3 AND execution_id = $1",
               pg::Params::of(id));
  }
  Json own_attempt(const Uuid& id, int index = 2) {
    return row(
        db, "SELECT * FROM ff_attempt WHERE partition_key = 3 AND execution_id = $1 AND attempt_index = $2",
        pg::Params::of(id, index));
  }
  TickReport tick() {
    EngineFixture engine(database, reconciler);
    TickReport report = engine->tick();
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    return report;
  }
};

Json lease_event(const Uuid& id) {
  return {{"partition_key", 3},        {"execution_id", to_string(id)}, {"event_type", "revoked"},
          {"occurred_at_ms", 1234567}, {"namespace", "space"},          {"instance_tag", "tag"},
          {"lease_id", nullptr}};
}

std::size_t lines_of(const std::vector<std::string>& lines, std::string_view beginning) {
  return static_cast<std::size_t>(std::count_if(
      lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(beginning); }));
}

}  // namespace

TEST_CASE(
    "an ending writes core, attempt and both events, takes suspension and waitpoints, and nothing else") {
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}, {"color", "red"}});
  t.db.execute("UPDATE ff_exec_core SET eligibility_state = 'eligible_now'");
  const auto before = t.add_bystanders(id);
  const Json core_before = t.own_core(id);
  const Json attempt_before = t.own_attempt(id);
  CHECK(outcomes(t.tick()) == "ended=1");
  CHECK(t.own_core(id) == changed(core_before, {{"lifecycle_phase", "terminal"},
                                                {"ownership_state", "unowned"},
                                                {"eligibility_state", "not_applicable"},
                                                {"public_state", "cancelled"},
                                                {"attempt_state", "cancelled"},
                                                {"terminal_at_ms", 1234567},
                                                {"cancellation_reason", "why"},
                                                {"cancelled_by", "who"},
                                                {"raw_fields", changed(core_before["raw_fields"],
                                                                       {{"patched", {{"by", "ender"}}}})}}));
  CHECK(t.own_attempt(id) == changed(attempt_before, {{"outcome", "stopped"},
                                                      {"lease_expires_at_ms", nullptr},
                                                      {"lease_epoch", 43},
                                                      {"terminal_at_ms", 1234567}}));
  CHECK(lease_events(t.db) == Json::array({lease_event(id)}));
  CHECK(completion_events(t.db) == Json::array({{{"partition_key", 3},
                                                 {"execution_id", to_string(id)},
                                                 {"flow_id", core_before["flow_id"]},
                                                 {"outcome", "cancelled"},
                                                 {"namespace", "space"},
                                                 {"instance_tag", "tag"},
                                                 {"occurred_at_ms", 1234567},
                                                 {"dispatched_at_ms", nullptr}}}));
  const auto changes = diff(before, snapshot(t.db));
  CHECK(lines_of(changes, "- ff_suspension_current") == 1);
  CHECK(lines_of(changes, "- ff_waitpoint_pending") == 2);
  CHECK(changes.size() == 9);
}

TEST_CASE("an ending without an outcome for the attempt touches one that holds a lease and no other") {
  Stage t;
  const Uuid leased = t.add(Json::object());
  const Uuid idle = t.add(Json::object(), std::nullopt);
  const Json leased_before = t.own_attempt(leased);
  const Json idle_before = t.own_attempt(idle, 3);
  CHECK(outcomes(t.tick()) == "ended=2");
  CHECK(t.own_attempt(leased) == changed(leased_before, {{"outcome", "interrupted"},
                                                         {"lease_expires_at_ms", nullptr},
                                                         {"lease_epoch", 43},
                                                         {"terminal_at_ms", 1234567}}));
  CHECK(t.own_attempt(idle, 3) == idle_before);
  CHECK(lease_events(t.db) == Json::array({lease_event(leased)}));
  CHECK(completion_events(t.db).size() == 2);
}

TEST_CASE("an ending tells of no lease where none is held") {
  Stage t;
  t.add({{"attempt_outcome", "stopped"}}, std::nullopt);
  // The attempts of a namesake are none of its own.
  const Uuid bare = insert_core(
      t.db, {.partition = {3}, .deadline_at_ms = 1000, .raw_fields = {{"attempt_outcome", "stopped"}}});
  insert_attempt(t.db, {.partition = {4}, .execution = bare, .lease_expires_at_ms = 5});
  CHECK(outcomes(t.tick()) == "ended=2");
  CHECK(lease_events(t.db).empty());
  CHECK(completion_events(t.db).size() == 2);
  CHECK(number(t.db, "SELECT count(*) FROM ff_attempt WHERE execution_id = $1 AND lease_epoch = 1",
               pg::Params::of(bare)) == 1);
}

TEST_CASE("an ending takes every lease of the execution and tells of the current attempt's") {
  // In any other phase than active the greatest attempt is the current one, whoever holds a lease.
  const bool is_active = GENERATE(true, false);
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 6, outcome = NULL WHERE attempt_index = 1");
  if (!is_active) t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'suspended'");
  std::vector<Json> before;
  for (int i : {1, 2, 3}) before.push_back(t.own_attempt(id, i));
  CHECK(outcomes(t.tick()) == "ended=1");
  const auto cleared = [](const Json& row, const std::string& outcome) {
    return changed(row, {{"outcome", outcome},
                         {"lease_expires_at_ms", nullptr},
                         {"lease_epoch", row["lease_epoch"].get<int>() + 1}});
  };
  CHECK(t.own_attempt(id, 1) == cleared(before[0], "interrupted"));
  if (is_active) {
    CHECK(t.own_attempt(id, 2) == changed(cleared(before[1], "stopped"), {{"terminal_at_ms", 1234567}}));
    CHECK(t.own_attempt(id, 3) == before[2]);
  } else {
    CHECK(t.own_attempt(id, 2) == cleared(before[1], "retry"));
    CHECK(t.own_attempt(id, 3) == changed(before[2], {{"terminal_at_ms", 1234567}, {"lease_epoch", 44}}));
  }
  CHECK(lease_events(t.db) == (is_active ? Json::array({lease_event(id)}) : Json::array()));
}

TEST_CASE("an ending waits for a lease of an older attempt that somebody holds") {
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = 6 WHERE attempt_index = 1");
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_attempt WHERE execution_id = $1 AND attempt_index = 1 FOR UPDATE",
                  pg::Params::of(id));
  const auto before = snapshot(t.db);
  CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(diff(before, snapshot(t.db)).empty());
  holding.rollback();
  CHECK(outcomes(t.tick()) == "ended=1");
}

TEST_CASE(
    "an ending keeps the moment at which an execution has ended before, and takes raw_fields of any type") {
  Stage t;
  std::vector<Uuid> ids;
  for (const Json& raw_fields :
       {Json("null"), Json(5), Json("text"), Json(true), Json::array({1, "patched"})})
    ids.push_back(t.add(raw_fields));
  t.db.execute("UPDATE ff_exec_core SET raw_fields = 'null' WHERE raw_fields = '\"null\"'");
  t.db.execute("UPDATE ff_exec_core SET terminal_at_ms = 77");
  CHECK(outcomes(t.tick()) == "ended=5");
  for (const Uuid& id : ids) {
    CHECK(t.own_core(id)["terminal_at_ms"] == 77);
    CHECK(t.own_core(id)["raw_fields"] == Json{{"patched", {{"by", "ender"}}}});
  }
}

TEST_CASE("what is doomed and not ended after all stays as it is") {
  Stage t;
  t.add({{"spare", true}, {"attempt_outcome", "stopped"}});
  const auto before = snapshot(t.db);
  CHECK(t.tick().processed == 0);
  CHECK(diff(before, snapshot(t.db)).empty());
  const Uuid ended = t.add(Json::object());
  CHECK(outcomes(t.tick()) == "ended=1");
  const auto changes = diff(before, snapshot(t.db));
  CHECK(lines_of(changes, "- ") == 0);
  CHECK(lease_events(t.db) == Json::array({lease_event(ended)}));
}

TEST_CASE("an ending waits while somebody holds any row of the execution and lets the others end") {
  const std::string held =
      GENERATE("ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending");
  Stage t;
  const Uuid busy = t.add(Json::object());
  const auto before = snapshot(t.db);
  const Uuid free = t.add(Json::object());
  auto other = t.database.connect();
  pg::Transaction holding(other);
  // One waitpoint of two, and of the attempts the current one.
  const std::string which = held == "ff_waitpoint_pending" ? " AND waitpoint_key = 'k'"
                            : held == "ff_attempt"         ? " AND attempt_index = 2"
                                                           : "";
  holding.execute("SELECT FROM " + held + " WHERE execution_id = $1" + which + " FOR UPDATE",
                  pg::Params::of(busy));
  const TickReport report = t.tick();
  CAPTURE(held);
  CHECK(outcomes(report) == "ended=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(lines_of(diff(before, snapshot(t.db)), "- ") == 0);
  CHECK(t.own_core(free)["lifecycle_phase"] == "terminal");
  holding.rollback();
  t.db.execute("UPDATE ff_exec_core SET deadline_at_ms = NULL WHERE execution_id = $1", pg::Params::of(free));
  CHECK(outcomes(t.tick()) == "ended=1");
  CHECK(lease_events(t.db) == Json::array({lease_event(free), lease_event(busy)}));
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
  CHECK(snapshot(t.db, "ff_waitpoint_pending").empty());
}

TEST_CASE(
    "an ending does not wait for an attempt that is not the current one nor for rows of another partition") {
  Stage t;
  const Uuid id = t.add(Json::object());
  t.add_bystanders(id);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_attempt WHERE partition_key = 3 AND attempt_index <> 2 FOR UPDATE");
  for (const char* table : {"ff_attempt", "ff_suspension_current", "ff_waitpoint_pending"})
    holding.execute("SELECT FROM " + std::string(table) + " WHERE partition_key = 4 FOR UPDATE");
  CHECK(outcomes(t.tick()) == "ended=1");
}

TEST_CASE("an ending does not mind that others refer to the keys of core and attempt") {
  Stage t;
  t.add(Json::object());
  auto other = t.database.connect();
  pg::Transaction referring(other);
  referring.execute("SELECT FROM ff_exec_core FOR KEY SHARE");
  referring.execute("SELECT FROM ff_attempt FOR KEY SHARE");
  CHECK(outcomes(t.tick()) == "ended=1");
}

TEST_CASE("many endings in one statement each leave their own marks") {
  Stage t;
  constexpr int kMany = 30;
  for (int i = 0; i < kMany; ++i) t.add(Json::object(), i % 2 == 0 ? std::optional(5) : std::nullopt, i % 3);
  CHECK(t.tick().processed == kMany);
  CHECK(completion_events(t.db).size() == kMany);
  CHECK(lease_events(t.db).size() == kMany / 2);
  CHECK(number(t.db,
               "SELECT count(DISTINCT execution_id) FROM ff_completion_event e WHERE flow_id ="
               " (SELECT flow_id FROM ff_exec_core c WHERE c.execution_id = e.execution_id)") == kMany);
  CHECK(snapshot(t.db, "ff_suspension_current").empty());
  CHECK(snapshot(t.db, "ff_waitpoint_pending").empty());
}

TEST_CASE("an ending keeps outcome and end of an attempt without a lease, and fences it all the same") {
  Stage t;
  const Uuid delayed = t.add({{"attempt_outcome", "stopped"}}, std::nullopt);
  const Uuid retried = t.add({{"attempt_outcome", "stopped"}}, std::nullopt);
  const Uuid untold = t.add({{"attempt_outcome", "stopped"}}, std::nullopt);
  t.db.execute("UPDATE ff_attempt SET terminal_at_ms = 77 WHERE execution_id = $1", pg::Params::of(retried));
  t.db.execute("UPDATE ff_attempt SET outcome = NULL WHERE execution_id = $1", pg::Params::of(untold));
  const std::vector<Json> before{t.own_attempt(delayed, 3), t.own_attempt(retried, 3),
                                 t.own_attempt(untold, 3)};
  CHECK(outcomes(t.tick()) == "ended=3");
  const Json fenced = {{"lease_epoch", 44}, {"terminal_at_ms", 1234567}};
  CHECK(t.own_attempt(delayed, 3) == changed(before[0], fenced));
  CHECK(t.own_attempt(retried, 3) == changed(before[1], {{"lease_epoch", 44}}));
  CHECK(t.own_attempt(untold, 3) == changed(changed(before[2], fenced), {{"outcome", "stopped"}}));
  CHECK(lease_events(t.db).empty());
}

TEST_CASE("an ending leaves an execution alone that was claimed since the statement began") {
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  StalledAct act(t.database, t.reconciler, {{{3}, {to_string(id)}}});
  // Phase and index of the core are as before.
  insert_attempt(t.db, {.partition = {3}, .execution = id, .attempt_index = 4, .lease_expires_at_ms = 9});
  t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'active' WHERE execution_id = $1",
               pg::Params::of(id));
  const auto claimed = snapshot(t.db);
  CHECK(act.finish().empty());
  CHECK(diff(claimed, snapshot(t.db)).empty());
  CHECK(outcomes(t.tick()) == "ended=1");
  CHECK(t.own_attempt(id, 4)["outcome"] == "stopped");
}

TEST_CASE("an ending tells executions of the same number in two partitions of one statement apart") {
  const bool twin_is_held = GENERATE(false, true);
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  t.add_bystanders(id);
  const auto in_four = [&] {
    auto lines = snapshot(t.db);
    std::erase_if(lines, [&](const auto& line) {
      return line.find("\"partition_key\":4,") == line.npos || line.find(to_string(id)) == line.npos;
    });
    return lines;
  };
  const auto twin = in_four();
  REQUIRE(twin.size() == 7);
  t.add(Json::object(), 5, 4);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  if (twin_is_held)
    for (const char* table : {"ff_attempt", "ff_suspension_current", "ff_waitpoint_pending"})
      holding.execute(
          "SELECT FROM " + std::string(table) + " WHERE partition_key = 4 AND execution_id = $1 FOR UPDATE",
          pg::Params::of(id));
  CHECK(outcomes(t.tick()) == "ended=2");
  CHECK(in_four() == twin);
  CHECK(t.own_core(id)["lifecycle_phase"] == "terminal");
  CHECK(t.own_attempt(id)["outcome"] == "stopped");
  CHECK(lease_events(t.db).size() == 2);
}

TEST_CASE("an ending waits for its own rows although those of a namesake in another partition are free") {
  const std::string held = GENERATE("ff_attempt", "ff_suspension_current", "ff_waitpoint_pending");
  Stage t;
  const Uuid id = t.add({{"attempt_outcome", "stopped"}});
  insert_core(t.db, {.partition = {4}, .execution = id, .attempt_index = 2, .deadline_at_ms = 1000});
  for (int index : {1, 2})
    insert_attempt(t.db,
                   {.partition = {4}, .execution = id, .attempt_index = index, .lease_expires_at_ms = 5});
  insert_suspension(t.db, {.partition = {4}, .execution = id});
  for (const pg::Row found : t.db.execute("SELECT waitpoint_id::text FROM ff_waitpoint_pending"))
    insert(t.db, "ff_waitpoint_pending",
           {{"partition_key", 4},
            {"waitpoint_id", found.get<std::string>(0)},
            {"execution_id", to_string(id)},
            {"token_kid", "k1"},
            {"token", "t1"},
            {"created_at_ms", 1},
            {"waitpoint_key", ""}});
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + held + " WHERE partition_key = 3 FOR UPDATE");
  const TickReport report = t.tick();
  CAPTURE(held);
  CHECK(outcomes(report) == "ended=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.own_core(id)["lifecycle_phase"] == "active");
  CHECK(t.own_attempt(id)["lease_epoch"] == 42);
}

TEST_CASE("an ending locks no row of another execution") {
  Stage t;
  const Uuid id = t.add(Json::object());
  t.add_bystanders(id);
  const Uuid in_four = t.add(Json::object(), 5, 4);
  // Behind those of the others, where whoever looks for them too widely meets the others first.
  for (const char* table : {"ff_attempt", "ff_suspension_current", "ff_waitpoint_pending"})
    t.db.execute("UPDATE " + std::string(table) +
                     " SET execution_id = execution_id WHERE partition_key = 3 AND execution_id = $1"
                     " OR execution_id = $2",
                 pg::Params::of(id, in_four));
  CHECK(outcomes(t.tick()) == "ended=2");
  // A lock leaves its mark in the row's header.
  for (const char* table : {"ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending"})
    CHECK(number(
              t.db,
              "SELECT count(*) FROM " + std::string(table) +
                  " WHERE NOT (partition_key = 3 AND execution_id = $1 OR execution_id = $2) AND xmax <> '0'",
              pg::Params::of(id, in_four)) == 0);
}
