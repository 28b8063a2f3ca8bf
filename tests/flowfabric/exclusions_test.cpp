// What random histories forgive: each entry is shown to be FlowFabric's own doing by a history without any daemon, and
// the like of it, where no such call was made, is not forgiven.
#include <catch2/catch.hpp>

#include "histories/trial.hpp"

using namespace ff;
using namespace ff::test;

namespace {

/// Damage of the same kind that no call of FlowFabric's made, to the bystander e9 or to what is its own. (Each
/// execution has a lane of its name.)
struct Likeness {
  std::string_view shown_by;  ///< the exclusion's call
  std::string_view bystander;
  std::string_view damage;
};

constexpr std::string_view kNine =
    R"({"do":"create_execution","as":"e9","partition":1,"runnable":"pending_first_attempt"})";
constexpr std::string_view kNineEnded =
    R"({"do":"create_execution","as":"e9","partition":1,"runnable":"pending_first_attempt"}
{"do":"claim","execution":"e9","as":"h9","ttl_ms":60000}
{"do":"complete","handle":"h9"})";
constexpr std::string_view kNineInFlow = R"({"do":"create_flow","as":"f9","partition":1}
{"do":"create_execution","as":"e8","flow":"f9","runnable":"pending"}
{"do":"create_execution","as":"e9","flow":"f9"}
{"do":"stage_edge","flow":"f9","upstream":"e8","downstream":"e9","apply":true})";
constexpr std::string_view kNineSpends =
    R"({"do":"create_execution","as":"e9","partition":1,"runnable":"pending_first_attempt"}
{"do":"create_budget","as":"b9","partition":1,"hard":{"tokens":100}}
{"do":"record_spend","budget":"b9","execution":"e9","deltas":{"tokens":7}})";

constexpr std::string_view kEndSilently =
    "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', eligibility_state = 'not_applicable', "
    "public_state ="
    " 'cancelled', attempt_state = 'cancelled', terminal_at_ms = created_at_ms WHERE lane_id = 'e9'";
constexpr std::string_view kTellAgain =
    "INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, occurred_at_ms)"
    " SELECT partition_key, execution_id, flow_id, outcome, occurred_at_ms FROM ff_completion_event e"
    " WHERE execution_id = (SELECT execution_id FROM ff_exec_core WHERE lane_id = 'e9')";
constexpr std::string_view kCountOneMore =
    "UPDATE ff_edge_group SET running_count = running_count + 1"
    " WHERE downstream_eid = (SELECT execution_id FROM ff_exec_core WHERE lane_id = 'e9')";
constexpr std::string_view kBlock =
    "UPDATE ff_exec_core SET eligibility_state = 'blocked_by_dependencies' WHERE lane_id = 'e9'";
constexpr std::string_view kLeaveLeased =
    "UPDATE ff_exec_core SET ownership_state = 'leased' WHERE lane_id = 'e9'";
constexpr std::string_view kSpendUnseen =
    "UPDATE ff_budget_usage SET current_value = 8 WHERE current_value = 7";

const std::vector<Likeness> kLikenesses{{"cancel_execution", kNine, kEndSilently},
                                        {"cancel", kNine, kEndSilently},
                                        {"cancel_flow_header, ack_cancel_member", kNine, kEndSilently},
                                        {"cancel_flow", kNineEnded, kTellAgain},
                                        {"complete, fail", kNineEnded, kTellAgain},
                                        {"replay_execution", kNineInFlow, kCountOneMore},
                                        {"wait_children", kNine, kBlock},
                                        {"deliver_signal", kNine, kLeaveLeased},
                                        {"reset_budget", kNineSpends, kSpendUnseen}};

void perform(Stage& stage, std::string_view script) {
  for (const Step& step : from_script(script)) REQUIRE(stage.perform(step));
}

void spoil(std::string_view damage) {
  pg::ConnectOptions options;
  options.conninfo = FlowFabricDatabase::server().conninfo(FlowFabricDatabase::kName);
  pg::Connection connection = pg::Connector(options).connect(Clock::system().now() + Milliseconds{10'000});
  connection.execute(damage);
}

}  // namespace

TEST_CASE("what histories forgive happens with no daemon running") {
  for (const Exclusion& exclusion : exclusions()) {
    const StageOptions nobody{.rescue = Rescue::nobody, .forgive = false};
    const Trial trial = replay(nobody, from_script(exclusion.shortest));
    INFO(exclusion.name << "\n" << report(trial));
    CHECK(tally(trial.verdicts)[exclusion.shown] > 0);
  }
}

TEST_CASE("the like of what histories forgive is seen where no such call was made") {
  for (const Exclusion& exclusion : exclusions()) {
    const auto like = std::find_if(kLikenesses.begin(), kLikenesses.end(),
                                   [&](const Likeness& one) { return one.shown_by == exclusion.call; });
    REQUIRE(like != kLikenesses.end());
    Stage stage({.rescue = Rescue::nobody});
    perform(stage, exclusion.shortest);
    perform(stage, like->bystander);
    spoil(like->damage);
    stage.run_out();
    std::set<std::string> blamed;
    for (const Verdict& verdict : stage.verdicts())
      if (verdict.fault == exclusion.shown) blamed.insert(verdict.who);
    INFO(exclusion.name);
    CHECK(blamed == std::set<std::string>{exclusion.call == "reset_budget" ? "b9" : "e9"});
  }
}
