// group_recount: fan-ins that count one as running that is over, while a sibling of it lives.
#include <utility>

#include "recount_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const State kWaitsForChildren{"runnable", "unowned", "blocked_by_dependencies", "running",
                              "attempt_interrupted"};

struct SiblingStage : RecountStage {
  /// Whose first upstream has ended, which nobody has counted; the others live.
  FanIn add_lost(Json policy, int upstreams = 2, const std::string& outcome = "success") {
    const FanIn fan_in = insert_fan_in(db, upstreams, {.policy = std::move(policy)}, {.state = its_state});
    if (its_state.eligibility_state == kWaitsForChildren.eligibility_state)
      set_core(fan_in.downstream, "blocking_reason = 'waiting_for_children'");
    end(fan_in, 0, outcome);
    return fan_in;
  }
  /// Who is to be cancelled, as the group says, and as edge_cancel_dispatcher finds it.
  Json to_cancel(const FanIn& fan_in) {
    const Json group = edge_group(db, fan_in.downstream);
    const std::int64_t entries =
        row(db, "SELECT count(*) AS n FROM ff_pending_cancel_groups WHERE downstream_eid = $1",
            pg::Params::of(fan_in.downstream))["n"];
    CHECK(group["cancel_siblings_pending_flag"] == (entries == 1));
    return group["cancel_siblings_pending_members"];
  }
  Json names(const FanIn& fan_in, const std::vector<std::size_t>& numbers) {
    std::vector<std::string> all;
    for (const std::size_t number : numbers) all.push_back(to_string(fan_in.upstreams.at(number)));
    std::ranges::sort(all);
    return all;
  }

  State its_state = blocked();
};

}  // namespace

TEST_CASE("group_recount lets go on whom one success is enough, and has the siblings at work cancelled") {
  SiblingStage t;
  t.its_state = GENERATE(blocked(), submitted(), kWaitsForChildren);
  const FanIn lost = t.add_lost(policy("any_of"), 3);
  const auto before = snapshot(t.db);
  const auto report = t.tick();
  CHECK(report.scanned == 1);
  CHECK(outcomes(report) == "recounted=1");
  CHECK(counts(t.db, lost.downstream) == "1/0/0/2");
  const std::string phase = t.its_state.lifecycle_phase == "submitted" ? "submitted" : "runnable";
  CHECK(t.state(lost) == phase + "/eligible_now/waiting");
  CHECK(t.to_cancel(lost) == t.names(lost, {1, 2}));
  CHECK(row(t.db, "SELECT * FROM ff_pending_cancel_groups")["enqueued_at_ms"] == kNow);
  // Its group, its row and the entry.
  CHECK(diff(before, snapshot(t.db)).size() == 5);
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("group_recount lets siblings run where the policy says so") {
  SiblingStage t;
  Json let_run = policy("any_of");
  let_run["on_satisfied"] = "let_run";
  const FanIn lost = t.add_lost(let_run);
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(t.state(lost) == "runnable/eligible_now/waiting");
  CHECK(t.to_cancel(lost) == Json::array());
}

TEST_CASE("group_recount counts each lost end of a quorum once there are enough, or never can be") {
  SiblingStage t;
  const FanIn enough = t.add_lost(policy("quorum", 2), 4);
  t.end(enough, 2);
  const FanIn too_few = t.add_lost(policy("quorum", 2), 3);
  const FanIn never = t.add_lost(policy("quorum", 2), 2, "failed");
  CHECK(t.tick().processed == 2);
  CHECK(counts(t.db, enough.downstream) == "2/0/0/2");
  CHECK(t.state(enough) == "runnable/eligible_now/waiting");
  CHECK(t.to_cancel(enough) == t.names(enough, {1, 3}));
  CHECK(counts(t.db, too_few.downstream) == "0/0/0/3");
  CHECK(t.state(too_few) == "blocked/blocked_by_dependencies/waiting");
  CHECK(t.to_cancel(too_few) == Json::array());
  CHECK(counts(t.db, never.downstream) == "0/1/0/1");
  CHECK(t.state(never) == "terminal/not_applicable/skipped");
}

TEST_CASE("group_recount ends whom one failure is enough, and leaves the siblings at work") {
  SiblingStage t;
  t.its_state = GENERATE(blocked(), kWaitsForChildren);
  const FanIn failed = t.add_lost(policy("all_of"), 3, "failed");
  const FanIn succeeded = t.add_lost(policy("all_of"), 3);
  CHECK(t.tick().processed == 1);
  CHECK(counts(t.db, failed.downstream) == "0/1/0/2");
  CHECK(t.state(failed) == "terminal/not_applicable/skipped");
  CHECK(row(t.db, "SELECT outcome FROM ff_completion_event WHERE execution_id = $1",
            pg::Params::of(failed.downstream))["outcome"] == "skipped");
  CHECK(t.to_cancel(failed) == Json::array());
  CHECK(core(t.db, failed.upstreams.at(1))["lifecycle_phase"] == "active");
  // What decides nothing waits until all are over: an end that is counted once more would let it begin too early.
  CHECK(counts(t.db, succeeded.downstream) == "0/0/0/3");
  for (const std::size_t number : {1U, 2U}) t.end(succeeded, number);
  CHECK(t.tick().processed == 1);
  CHECK(counts(t.db, succeeded.downstream) == "3/0/0/0");
}

TEST_CASE(
    "group_recount leaves a parent alone that waits for the rest of those that had let it begin, until all "
    "are over") {
  SiblingStage t;
  const FanIn lost = insert_fan_in(t.db, 3, {.policy = policy("any_of"), .success = 1, .running = 2},
                                   {.state = kWaitsForChildren});
  t.set_core(lost.downstream, "blocking_reason = 'waiting_for_children'");
  for (const std::size_t number : {0U, 1U}) t.end(lost, number);
  t.check_left_alone();
  t.end(lost, 2);
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(counts(t.db, lost.downstream) == "3/0/0/0");
  CHECK(t.state(lost) == "runnable/eligible_now/waiting");
}

TEST_CASE("group_recount does not wait for a sibling that goes on working") {
  SiblingStage t;
  const FanIn lost = t.add_lost(policy("any_of"));
  Looks looks(t);
  CHECK(looks.at(0).empty());
  t.set_core(lost.upstreams.at(1), "lifecycle_phase = 'suspended', public_state = 'suspended'");
  CHECK(looks.at(30).empty());
  t.set_core(lost.upstreams.at(1), "lifecycle_phase = 'runnable', attempt_index = 3");
  CHECK(looks.at(59).empty());
  CHECK(looks.at(61) == "recounted=1");
}

TEST_CASE("group_recount begins its minute anew when a sibling ends") {
  SiblingStage t;
  const FanIn lost = t.add_lost(policy("any_of"), 3);
  Looks looks(t);
  CHECK(looks.at(0).empty());
  t.end(lost, 1);
  CHECK(looks.at(40).empty());
  CHECK(looks.at(80).empty());
  CHECK(looks.at(101) == "recounted=1");
  CHECK(counts(t.db, lost.downstream) == "2/0/0/1");
}

TEST_CASE("group_recount leaves a fan-in alone of which an upstream was replayed, until all are over") {
  SiblingStage t;
  const FanIn lost = t.add_lost(policy("any_of"));
  const std::size_t who = GENERATE(0U, 1U);
  insert(t.db, "ff_operator_event",
         {{"partition_key", 3},
          {"execution_id", to_string(lost.upstreams.at(who))},
          {"event_type", "replayed"},
          {"occurred_at_ms", kNow - 200'000}});
  t.set_core(lost.upstreams.at(who), "raw_fields = '{\"replay_count\": 1}'");
  t.check_left_alone();
  t.end(lost, 1, "failed");
  CHECK(outcomes(t.tick()) == "recounted=1");
  CHECK(counts(t.db, lost.downstream) == "1/1/0/0");
}

TEST_CASE("group_recount leaves a fan-in alone that may be right while a sibling lives") {
  SiblingStage t;
  const FanIn lost = t.add_lost(policy("any_of"));
  const Uuid sibling = lost.upstreams.at(1);
  SECTION("it counts as many as running as live") {
    t.db.execute("UPDATE ff_edge_group SET running_count = 1");
  }
  SECTION("it counts an end that nobody told") {
    t.db.execute("UPDATE ff_edge_group SET fail_count = 1");
  }
  SECTION("it counts an end twice") {
    t.db.execute("UPDATE ff_edge_group SET success_count = 2");
  }
  SECTION("an edge is only staged") {
    const Uuid another = insert_core(t.db, {.partition = {3}, .flow = lost.flow});
    insert_edge(t.db, {3}, lost.flow, another, lost.downstream, {{"edge_state", "pending"}});
  }
  SECTION("an end is still to be passed on") {
    t.tell(lost, 0, "success", 90'000, nullptr);
  }
  SECTION("a sibling has just been cancelled, and nobody is told") {
    t.set_core(sibling, "lifecycle_phase = 'cancelled', terminal_at_ms = " + std::to_string(kNow));
  }
  SECTION("a sibling is gone") {
    t.db.execute("DELETE FROM ff_exec_core WHERE execution_id = $1", pg::Params::of(sibling));
  }
  SECTION("nobody has ended") {
    t.set_core(lost.upstreams.at(0), "lifecycle_phase = 'active', terminal_at_ms = NULL");
    t.db.execute("UPDATE ff_edge_group SET running_count = 3");
  }
  SECTION("siblings are to be cancelled") {
    t.db.execute("UPDATE ff_edge_group SET cancel_siblings_pending_flag = true");
  }
  t.check_left_alone();
}

TEST_CASE("group_recount leaves a fan-in alone whose sibling ends between its scan and its act") {
  SiblingStage t;
  const FanIn lost = t.add_lost(policy("any_of"));
  const std::string sql = GENERATE(
      "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', terminal_at_ms = 5 WHERE execution_id = $1",
      "UPDATE ff_exec_core SET raw_fields = '{\"replay_count\": 1}' WHERE execution_id = $1",
      "UPDATE ff_edge SET policy = '{\"edge_state\": \"pending\"}' WHERE upstream_eid = $1",
      "UPDATE ff_edge_group SET running_count = 1 WHERE downstream_eid <> $1");
  t.check_left_alone_after(sql, pg::Params::of(lost.upstreams.at(1)));
}
