#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "histories/snapshot.hpp"
#include "histories/verdict.hpp"

namespace ff::test {

/// What one turn of a reconciler did, held against what it may do. It does not know the reconcilers, only why
/// an execution may change at all: each change wants a cause in the rows as they stood before.
struct Turn {
  const Snapshot& before;
  const Snapshot& after;
  std::int64_t grace_ms = 0;
  /// The name that the history gave to the execution of this uuid.
  std::function<std::string(const std::string&)> name_of;
};

struct Judgement {
  std::vector<Verdict> verdicts;
  std::set<std::string> ended;                           ///< executions that this turn ended, by uuid
  std::set<std::string> repaired;                        ///< that had ended, and whose end it told, by uuid
  std::set<std::string> reset;                           ///< budgets whose period began anew
  std::set<std::pair<std::string, std::int64_t>> taken;  ///< attempts that lost a lease, by uuid and index
  std::set<std::pair<std::string, std::int64_t>>
      lapsed;  ///< those of them that lost it because it had lapsed
};

Judgement judge(const Turn& turn);

/// By the rules of the documentation: what a group's counts and policy decide.
enum class GroupState { open, satisfied, impossible };
GroupState decide(const Json& group);

}  // namespace ff::test
