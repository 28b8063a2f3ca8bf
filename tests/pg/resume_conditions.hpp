#pragma once

#include <string>
#include <vector>

namespace ff::test {

namespace resume_conditions {
inline const std::string kSingle = R"({"Single": {"waitpoint_key": "k", "matcher": {"ByName": "go"}}})";
inline const std::string kCount =
    R"({"Composite": {"kind": "Count", "n": 2, "count_kind": "DistinctSources", "waitpoints": ["k"])";
inline const std::string kMembers = R"({"Composite": {"kind": "AllOf", "members": [)";
}  // namespace resume_conditions

/// What FlowFabric reads as a ResumeCondition, in JSON.
inline std::vector<std::string> readable_conditions() {
  using namespace resume_conditions;
  return {R"("OperatorOnly")",
          R"("TimeoutOnly")",
          kSingle,
          kCount + "}}",
          kCount + R"(, "matcher": null}})",
          kCount + R"(, "matcher": "Wildcard"}})",
          kMembers + "]}}",
          kMembers + kSingle + ", " + kMembers + kCount + "}}]}}]}}"};
}

/// What it refuses to read, and every signal with it.
inline std::vector<std::string> unreadable_conditions() {
  using namespace resume_conditions;
  return {"null",
          "[]",
          "7",
          R"("Single")",
          R"({"Single": {"waitpoint_key": "k"}})",
          R"({"Single": {"matcher": "Wildcard"}})",
          kCount + R"(, "matcher": "Any"}})",
          kMembers + kSingle + ", " + kMembers + R"("Anything"]}}]}})",
          R"({"Composite": {"kind": "Count", "n": 2, "count_kind": "DistinctSources", "waitpoints": [1]}})",
          R"({"Composite": {"kind": "AllOf"}})"};
}

}  // namespace ff::test
