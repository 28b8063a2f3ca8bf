#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explain/facts.hpp"

namespace ff::explain {

/// What one reconciler makes of the execution.
struct Verdict {
  std::string_view reconciler;
  /// "due", "later" (also what has to stand still first), "paused" (and due), "held" (more is due than hold_above),
  /// "promised", "locked", "failed", "quarantined" (it failed before), "filtered", "moved" (while it was asked), "none" (none of its rows).
  std::string_view word;
  std::optional<UnixMillis> at;  ///< when its rows may be taken, or might have been
  std::string text;              ///< for people: why, or what it would do
};

/// One for each inspection, in their order. A pure function.
std::vector<Verdict> verdicts(const Facts& facts);

}  // namespace ff::explain
