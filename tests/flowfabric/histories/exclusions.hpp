#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
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
  /// Whether a step that succeeded is such a call about an execution (or a budget), which stood like this before and
  /// after.
  bool (*is)(const Step& step, const ExecutionRows& before, const ExecutionRows& after);
  /// Groups downstream are told otherwise than it stands with the execution.
  bool misleads_groups = false;
  /// Those downstream that do not wait for it are told nothing; to those that do completion_repair tells it.
  bool tells_nobody = false;
  /// Whether what was said of the execution comes from the call: as it stands now, and stood before the call.
  bool (*explains)(const Verdict& verdict, const ExecutionRows& now, const ExecutionRows& before) = nullptr;
  Fault shown;  ///< what the shortest history shows, with no daemon running
  std::string shortest;
};

const std::vector<Exclusion>& exclusions();

/// What was excluded in one history, by the name of the execution or budget.
class Excluded {
 public:
  /// A step that succeeded.
  void note(const std::string& who, const Step& step, const ExecutionRows& before,
            const ExecutionRows& after);
  /// A budget's period begins anew, and what was wrong in the old one is over.
  void forget(const std::string& budget) { calls_.erase(budget); }

  /// The exclusion that explains it; null: none.
  const Exclusion* explains(const Verdict& verdict, const ExecutionRows& now) const;
  /// Its end was told after all.
  void repaired(const std::string& execution) { ++repaired_[execution]; }

  /// How many completion events too many (below 0: too few) its calls have left.
  std::int64_t ends_told(const std::string& execution) const;
  /// The first exclusion by which groups were told otherwise; null: none.
  const Exclusion* misleads_groups(const std::string& execution) const;
  /// The first exclusion by which groups whose downstream does not wait were told nothing; null: none.
  const Exclusion* tells_nobody(const std::string& execution) const;

 private:
  struct Call {
    const Exclusion* exclusion;
    ExecutionRows before;
    std::int64_t ends_told;
  };
  const Exclusion* first(const std::string& execution, bool Exclusion::*flag) const;

  std::map<std::string, std::vector<Call>> calls_;
  std::map<std::string, std::int64_t> repaired_;
};

}  // namespace ff::test
