#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "explain/facts.hpp"

namespace ff::explain {

/// One reason why the execution is where it is, and what can be done about it.
struct Finding {
  std::string_view cause;  ///< a word that stays the same: scripts may rely on it
  std::string text;
  std::string next;  ///< a command or a statement to paste, or in words who is to do what
};

/// What holds the execution up: first what is in the way of the daemon, then what the execution itself waits for,
/// then what else is to be known. At least one. A pure function.
std::vector<Finding> findings(const Facts& facts);

}  // namespace ff::explain
