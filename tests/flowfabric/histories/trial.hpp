#pragma once

#include <functional>
#include <string>
#include <vector>

#include "histories/generator.hpp"
#include "histories/stage.hpp"

namespace ff::test {

/// What came of one history.
struct Trial {
  History history;
  std::vector<Verdict> verdicts;
  std::size_t executions = 0;
  Coverage coverage;
};

/// Invents and plays one.
Trial invent(const StageOptions& stage, const GeneratorOptions& generator);
/// Plays one that is given. `run_out`: and lets all clocks run out.
Trial replay(const StageOptions& stage, const History& history, bool run_out = true);

/// The shortest history to be found that still fails in this way, by leaving out halves, quarters, … of the
/// steps for at most `at_most` trials.
History shrink(const History& history, const std::function<bool(const History&)>& fails, int at_most = 400);

/// For people: the verdicts, and the history to be pasted into a test.
std::string report(const Trial& trial);

}  // namespace ff::test
