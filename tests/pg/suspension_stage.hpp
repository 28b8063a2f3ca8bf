#pragma once

#include <array>

#include "support/still_stage.hpp"

namespace ff::test {

constexpr std::int64_t kPast = kNow - 5000;
constexpr const char* kAutoResume = "auto_resume_with_timeout_signal";
[[maybe_unused]] constexpr std::array kBehaviors{"fail",     "cancel",    "expire",
                                                 "escalate", kAutoResume, "no such word"};

inline const reconcile::Reconciler& suspension_timeout() {
  return *reconcile::find_reconciler("suspension_timeout");
}

/// Suspended executions before suspension_timeout.
struct SuspensionStage : StillStage {
  SuspensionStage() : StillStage(suspension_timeout()) {}

  /// A suspended execution with its attempt and two waitpoints.
  Uuid add(const std::optional<std::string>& behavior, std::optional<std::int64_t> timeout_at_ms = kPast,
           const CoreRow& like = {.partition = {3}, .state = suspended()}) {
    CoreRow core = like;
    core.execution = new_uuid();
    insert_core(db, core);
    insert_attempt(db, {.partition = core.partition, .execution = core.execution, .lease_epoch = 7});
    add_suspension(core.execution, behavior, timeout_at_ms, core.partition);
    return core.execution;
  }
  void add_suspension(const Uuid& id, const std::optional<std::string>& behavior,
                      std::optional<std::int64_t> timeout_at_ms, PartitionKey partition = {3}) {
    insert_suspension(db, {.partition = partition,
                           .execution = id,
                           .timeout_at_ms = timeout_at_ms,
                           .timeout_behavior = behavior,
                           .member_map = {{"m", 1}}});
    insert_waitpoint(db, {.partition = partition, .execution = id, .expires_at_ms = kNow + 60'000});
    insert_waitpoint(db, {.partition = partition, .execution = id, .waitpoint_key = "k"});
  }
  Json suspension(const Uuid& id) {
    return row(db, "SELECT * FROM ff_suspension_current WHERE execution_id = $1", pg::Params::of(id));
  }
  void set_member_map(const Uuid& id, const std::string& json) {
    db.execute("UPDATE ff_suspension_current SET member_map = $1::jsonb WHERE execution_id = $2",
               pg::Params::of(json, id));
  }
};
}  // namespace ff::test
