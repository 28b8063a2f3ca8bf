#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ff::check {

enum class Verdict {
  fine,
  skipped,  ///< could not be looked at, for a reason that another line tells
  warning,  ///< the daemon works; but something costs time, or may do harm
  problem   ///< it does not work, or not as it should
};

/// What was looked at in a database, and how it is.
struct Line {
  std::string_view check;  ///< a word that stays the same: scripts may rely on it
  Verdict verdict = Verdict::fine;
  std::string text;
  std::string next = {};  ///< what to paste or to do; empty: nothing
};
using Lines = std::vector<Line>;

/// "fine", "skipped", "warning", "problem".
constexpr std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::fine:
      return "fine";
    case Verdict::skipped:
      return "skipped";
    case Verdict::warning:
      return "warning";
    case Verdict::problem:
      break;
  }
  return "problem";
}

}  // namespace ff::check
