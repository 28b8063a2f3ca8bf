#pragma once

#include <string_view>
#include <vector>

#include "histories/snapshot.hpp"
#include "histories/step.hpp"
#include "histories/verdict.hpp"

namespace ff::test {

/// What FlowFabric does by itself and no reconciler of today can mend. What the daemon changes is never
/// excluded: what a reconciler's turn does is judged for every execution alike.
struct Exclusion {
  std::string_view name;
  std::string_view call;    ///< the operation of FlowFabric
  std::string_view source;  ///< where, in the published crate ff-backend-postgres 0.15.0
  std::string_view harm;    ///< for people
  /// Whether a step that succeeded is such a call: the step, and its execution as it stood before.
  bool (*is)(const Step& step, const ExecutionRows& before);
  std::vector<Fault> of_the_execution;        ///< what is forgiven to the execution itself
  std::vector<Fault> of_its_dependents = {};  ///< and to everything downstream of it
  /// Only while the execution is like this; null: whatever became of it.
  bool (*still)(const ExecutionRows& now) = nullptr;
  Fault shown;  ///< what the shortest history shows, with no daemon running
  std::string_view shortest;
};

const std::vector<Exclusion>& exclusions();

}  // namespace ff::test
