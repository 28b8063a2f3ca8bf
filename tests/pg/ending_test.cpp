// What ending.hpp promises to every reconciler that ends executions, told by one made for the purpose.
#include <catch2/catch.hpp>

#include "ending_stage.hpp"
#include "pg/transaction.hpp"

using namespace ff;
using namespace ff::test;
using Stage = EndingStage;

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
