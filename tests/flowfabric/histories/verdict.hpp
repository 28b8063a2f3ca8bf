#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ff::test {

/// What must never be true after a history, and seldom is before it ends.
enum class Fault {
  stuck,  ///< an execution without a future: not ended, not claimable, waits for nothing that can happen
  ended_healthy,  ///< ended by nobody's failure, deadline, time-out or dependency
  robbed,         ///< a worker lost a lease that had not lapsed
  ended_twice,    ///< more than one end in a run
  untold,         ///< an end without a completion event
  unfenced,       ///< a worker whose lease was taken for good goes on with it
  unnoticed,      ///< a lapse that was not announced, or more than once
  miscounted,     ///< a group or a budget says something else than a recount
  refused,        ///< what was given back is not taken by a claim that the documentation names
  meddled,        ///< a reconciler changed what was none of its business
};
std::string_view name(Fault fault);

struct Verdict {
  Fault fault;
  std::string who;        ///< the name of an execution, or of a budget
  std::string what;       ///< for people
  std::string call = {};  ///< the operation that was refused, where one was
};

std::string to_text(const Verdict& verdict);
std::map<Fault, int> tally(const std::vector<Verdict>& verdicts);

}  // namespace ff::test
