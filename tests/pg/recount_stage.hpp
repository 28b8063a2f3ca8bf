#pragma once

#include <catch2/catch.hpp>
#include <utility>

#include "support/flow.hpp"
#include "support/still_stage.hpp"

namespace ff::test {

inline const reconcile::Reconciler& recount() {
  return *reconcile::find_reconciler("group_recount");
}

inline Json policy(const std::string& kind, int k = 1) {
  return {{"kind", kind}, {"k", k}};
}

/// Fan-ins that have lost an end, beside a clock that stands still.
struct RecountStage : StillStage {
  RecountStage() : StillStage(recount()) {}

  /// An upstream that has ended this long ago, told of and passed on unless it is to be told with no word.
  void end(const FanIn& fan_in, std::size_t number, const std::string& outcome = "success",
           std::int64_t ago_ms = 90'000) {
    db.execute(
        "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', public_state = 'failed', terminal_at_ms = $2"
        " WHERE execution_id = $1",
        pg::Params::of(fan_in.upstreams.at(number), kNow - ago_ms));
    if (!outcome.empty()) tell(fan_in, number, outcome, ago_ms, kNow);
  }
  void tell(const FanIn& fan_in, std::size_t number, const std::string& outcome, std::int64_t ago_ms,
            const Json& dispatched_at_ms) {
    insert(db, "ff_completion_event",
           {{"partition_key", 3},
            {"execution_id", to_string(fan_in.upstreams.at(number))},
            {"flow_id", to_string(fan_in.flow)},
            {"outcome", outcome},
            {"occurred_at_ms", kNow - ago_ms},
            {"committed_at_ms", kNow - ago_ms},
            {"dispatched_at_ms", dispatched_at_ms}});
  }
  /// A group of one upstream that has ended as a success, and counts it as running.
  FanIn add_misled(CoreRow downstream = {.state = blocked()}) {
    FanIn fan_in = insert_fan_in(db, 1, {.policy = policy("all_of")}, std::move(downstream));
    end(fan_in, 0);
    return fan_in;
  }
  /// The flow of a fan-in, which is looked at for its graph only.
  void add_flow(const FanIn& fan_in) {
    insert(db, "ff_flow_core",
           {{"partition_key", 3},
            {"flow_id", to_string(fan_in.flow)},
            {"graph_revision", 7},
            {"public_flow_state", "open"},
            {"created_at_ms", 1}});
  }
  void set_core(const Uuid& execution, const std::string& what) {
    db.execute("UPDATE ff_exec_core SET " + what + " WHERE execution_id = $1", pg::Params::of(execution));
  }
  void check_left_alone() {
    const auto before = snapshot(db);
    const auto report = tick();
    CHECK(report.scanned == 0);
    CHECK(report.watched == 0);
    CHECK(diff(before, snapshot(db)).empty());
  }
  std::string state(const FanIn& fan_in) {
    const Json row = core(db, fan_in.downstream);
    return row["lifecycle_phase"].get<std::string>() + "/" + row["eligibility_state"].get<std::string>() +
           "/" + row["public_state"].get<std::string>();
  }
};

/// A daemon that looks at a stage so many seconds after its first look, and what comes of each.
class Looks {
 public:
  explicit Looks(RecountStage& stage) : stage_(stage) {}
  std::string at(int seconds) {
    stage_.advance(engine_, std::chrono::seconds{seconds - std::exchange(at_, seconds)});
    return outcomes(engine_->tick());
  }

 private:
  RecountStage& stage_;
  EngineFixture engine_{stage_.database, recount(), {.still_for = std::nullopt}};
  int at_ = 0;
};

}  // namespace ff::test
