#pragma once

#include <catch2/catch.hpp>

#include "support/still_stage.hpp"

/// What tests of cancel_backlog and its companions begin with.
namespace ff::test {

constexpr std::int64_t kGrace = 5'000;
constexpr std::int64_t kLongAgo = kNow - 60'000;

/// As cancel_flow_header leaves a member that a worker held.
const State kHeaderCancelled{"cancelled", "leased", "cancelled", "cancelled", "running_attempt"};

struct CancelStage : StillStage {
  CancelStage() : StillStage(*reconcile::find_reconciler("cancel_backlog")) {}

  Uuid add_core(const std::optional<Uuid>& flow, const State& state,
                std::optional<std::int64_t> terminal_at_ms, const Json& raw_fields) {
    return insert_core(db, {.partition = {3},
                            .flow = flow,
                            .state = state,
                            .terminal_at_ms = terminal_at_ms,
                            .raw_fields = raw_fields});
  }
  void lease(const Uuid& id, std::int64_t until, int index = 0) {
    insert_attempt(db, {.partition = {3},
                        .execution = id,
                        .attempt_index = index,
                        .lease_epoch = 7,
                        .lease_expires_at_ms = until});
  }
  void add_event(const Uuid& id, const std::string& outcome, std::int64_t at) {
    insert(db, "ff_completion_event",
           {{"partition_key", 3},
            {"execution_id", to_string(id)},
            {"outcome", outcome},
            {"occurred_at_ms", at}});
  }
};

}  // namespace ff::test
