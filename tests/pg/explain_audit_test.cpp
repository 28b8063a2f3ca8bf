// What `audit` finds is no other for `explain`: it has the same word and the same remedy there, and nothing that is said
// beside it contradicts it.
#include <catch2/catch.hpp>

#include "audit/remedy.hpp"
#include "explain/words.hpp"
#include "explain_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::string words_of(const Found& found) {
  std::string all;
  for (const explain::Finding& each : found) all += (all.empty() ? "" : " ") + std::string(each.cause);
  return all;
}

Uuid just_ended(ExplainStage& stage, State state) {
  return stage.core({.state = std::move(state), .terminal_at_ms = stage.now});
}

void mend(ExplainStage& stage, const Uuid& id, std::string_view cause) {
  const Found found = found_of(stage, id);
  CHECK(text_of(found, cause) == audit::check_named(cause).meaning);
  stage.db.execute_script(next_of(found, cause));
}

// Every one waits for the one before it, and the first for the last; all are blocked, and of one flow.
std::vector<Uuid> circle_of(ExplainStage& stage, std::size_t size, const std::string& kind = "all_of") {
  const Uuid flow = new_uuid();
  std::vector<Uuid> all;
  for (std::size_t i = 0; i < size; ++i) all.push_back(stage.core({.flow = flow, .state = blocked()}));
  for (std::size_t i = 0; i < size; ++i) {
    insert_group(stage.db, {.flow = flow, .downstream = all[i], .policy = {{"kind", kind}}, .running = 1});
    insert_edge(stage.db, {3}, flow, all[(i + size - 1) % size], all[i]);
  }
  return all;
}

}  // namespace

TEST_CASE("explain names what has ended in part, at no time or as resumable, and mends it as audit does") {
  ExplainStage stage;
  const Uuid in_part = just_ended(stage, terminal());
  stage.set(in_part, "attempt_state = 'running_attempt'");
  const Uuid eligible = just_ended(stage, terminal());
  stage.set(eligible, "eligibility_state = 'eligible_now'");
  for (const Uuid& id : {in_part, eligible}) mend(stage, id, "ended_in_part");
  const Uuid at_no_time = stage.core(in_state(cancelled()));
  mend(stage, at_no_time, "ended_without_time");
  for (const Uuid& id : {in_part, eligible, at_no_time}) CHECK(words_of(found_of(stage, id)) == "ended");
}

TEST_CASE("explain does not say that nothing moves what has ended and is called resumable") {
  ExplainStage stage;
  const auto resumable = [&](const std::string& phase) {
    const Uuid id = just_ended(stage, phase == "terminal" ? terminal() : cancelled());
    stage.set(id, "public_state = 'resumable'");
    return id;
  };
  const auto public_state = [&](const Uuid& id) { return core(stage.db, id)["public_state"]; };
  // By the event of its end, by its attempt, or by its phase.
  const Uuid told = resumable("terminal");
  insert_completion(stage.db, {.execution = told, .outcome = "failed", .dispatched_at_ms = 5});
  CHECK(next_of(found_of(stage, told), "ended") ==
        "it has ended, but for what the other lines say; FlowFabric's replay begins it anew");
  mend(stage, told, "ended_but_resumable");
  CHECK(public_state(told) == "failed");
  CHECK_THAT(next_of(found_of(stage, told), "ended"), Catch::StartsWith("nothing moves it any more; "));
  const Uuid untold = resumable("terminal");
  stage.attempt({.execution = untold});
  stage.db.execute("UPDATE ff_attempt SET outcome = 'success' WHERE execution_id = $1",
                   pg::Params::of(untold));
  mend(stage, untold, "ended_but_resumable");
  CHECK(public_state(untold) == "completed");
  const Uuid by_cancel = resumable("cancelled");
  mend(stage, by_cancel, "ended_but_resumable");
  CHECK(public_state(by_cancel) == "cancelled");
  // What an end can be, nothing tells: the server refuses the statement.
  CHECK_THROWS_AS(
      stage.db.execute_script(next_of(found_of(stage, resumable("terminal")), "ended_but_resumable")),
      pg::Error);
}

TEST_CASE("explain names two leases that run, and an end that was told of who lives, beside the lease") {
  ExplainStage stage;
  const Uuid id = stage.leased(kHour);
  stage.attempt({.execution = id, .attempt_index = 1, .lease_expires_at_ms = stage.now + kHour});
  CHECK(words_of(found_of(stage, id)) == "two_leases lease_runs");
  mend(stage, id, "two_leases");
  CHECK(words_of(found_of(stage, id)) == "lease_runs");
  // FlowFabric's reclaim leaves the lease, and marks its attempt.
  stage.db.execute_script("UPDATE ff_attempt SET outcome = 'interrupted_reclaimed', lease_expires_at_ms = " +
                          std::to_string(stage.now + kHour) + " WHERE attempt_index = 0");
  CHECK(words_of(found_of(stage, id)) == "lease_runs");

  const std::int64_t event = insert_completion(stage.db, {.execution = id});
  const Found told = found_of(stage, id);
  CHECK(words_of(told) == "told_but_alive lease_runs end_not_dispatched");
  CHECK_THAT(next_of(told, "told_but_alive"), Catch::Contains(" event_id = " + std::to_string(event) + ";"));
  for (const explain::Finding& each : told) CHECK_THAT(each.next, !Catch::Contains("tick "));
  mend(stage, id, "told_but_alive");
  CHECK(words_of(found_of(stage, id)) == "lease_runs");
  // Of the run before a replay.
  insert_completion(stage.db, {.execution = id, .dispatched_at_ms = 5});
  stage.set(id, "raw_fields = '{\"replay_count\": \"1\"}'");
  CHECK(words_of(found_of(stage, id)) == "lease_runs");
}

TEST_CASE("explain says of a circle that it is one, and mends it as audit does") {
  const auto size = static_cast<std::size_t>(GENERATE(2, 3, 6));
  ExplainStage stage;
  const std::vector<Uuid> all = circle_of(stage, size);
  if (GENERATE(false, true)) stage.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'submitted'");
  for (const Uuid& id : all) {
    const Found found = found_of(stage, id);
    CHECK(words_of(found) == "waits_in_circle");
    CHECK_THAT(text_of(found, "waits_in_circle"),
               Catch::StartsWith(std::string(audit::check_named("waits_in_circle").meaning)));
    for (const explain::Finding& each : found) CHECK_THAT(each.next, !Catch::Contains("explain"));
    CHECK(next_of(found, "waits_in_circle") == next_of(found_of(stage, all[0]), "waits_in_circle"));
  }
  stage.db.execute_script(next_of(found_of(stage, all[0]), "waits_in_circle"));
  for (const Uuid& id : all) CHECK(finding(found_of(stage, id), "waits_in_circle") == nullptr);
  CHECK(stage.db.execute("SELECT FROM ff_edge").size() == static_cast<int>(size) - 1);
}

TEST_CASE(
    "explain names audit where an upstream waits for others as well, and calls no circle what may end") {
  ExplainStage stage;
  const std::string hint = "ff-reconcilerd audit finds those";
  const auto next = [&](const Uuid& id) { return next_of(found_of(stage, id), "waits_for_upstreams"); };
  const FanIn at_work = fan_in(stage, {});
  CHECK_THAT(next(at_work.downstream), !Catch::Contains(hint));
  const Uuid last = stage.core({.flow = at_work.flow, .state = blocked()});
  insert_group(stage.db,
               {.flow = at_work.flow, .downstream = last, .policy = {{"kind", "all_of"}}, .running = 1});
  insert_edge(stage.db, {3}, at_work.flow, at_work.downstream, last);
  CHECK_THAT(next(last),
             Catch::StartsWith("ff-reconcilerd explain '{fp:3}:" + to_string(at_work.downstream)) &&
                 Catch::Contains("' # ") && Catch::EndsWith(hint));
  // It is longer than what is followed.
  const std::vector<Uuid> long_one = circle_of(stage, 20);
  CHECK_THAT(next(long_one[0]), Catch::EndsWith(hint));
  // Whom one of several is enough for may be woken by another.
  const std::vector<Uuid> by_any = circle_of(stage, 2, "any_of");
  CHECK_THAT(next(by_any[0]), !Catch::Contains(hint));
}

TEST_CASE("explain does not advise include_waiting for a deadline that passed before a replay") {
  ExplainStage stage;
  stage.settings["execution_deadline"] = {{"include_waiting", GENERATE(0, 1)}};
  const CoreRow late{.deadline_at_ms = stage.now - kHour,
                     .raw_fields = {{"replay_count", "1"}, {"last_mutation_at", std::to_string(stage.now)}}};
  const Uuid id = stage.leased(kHour, Json::object(), late);
  const Found found = found_of(stage, id);
  CHECK_THAT(text_of(found, "deadline_ignored"), Catch::EndsWith("it is of the run before it was replayed"));
  CHECK_THAT(next_of(found, "deadline_ignored"), !Catch::Contains("include_waiting"));
  stage.db.execute_script(next_of(found, "deadline_ignored"));
  CHECK(words_of(found_of(stage, id)) == "lease_runs");

  CoreRow waits = late;
  waits.execution = new_uuid();
  waits.state = runnable();
  const Found of_waiting = found_of(stage, stage.core(waits));
  if (stage.settings["execution_deadline"]["include_waiting"] == 1)
    CHECK(next_of(of_waiting, "deadline_ignored") ==
          explain::update_core({{3}, waits.execution}, "deadline_at_ms = NULL") +
              " -- or the moment of another deadline, for this run");
  else
    CHECK_THAT(next_of(of_waiting, "deadline_ignored"),
               Catch::Contains("include_waiting") &&
                   Catch::EndsWith("but for a deadline that passed before the replay"));
}
