#include "histories/campaign.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

namespace ff::test {
namespace {

int number_of(const char* variable, int otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::stoi(given);
}

// The shortest history that still has a fault of the same kind.
Trial shortest(const Trial& trial, const StageOptions& options) {
  const Fault fault = trial.verdicts.front().fault;
  const auto same = [&](const Trial& other) {
    return std::any_of(other.verdicts.begin(), other.verdicts.end(),
                       [&](const Verdict& v) { return v.fault == fault; });
  };
  return replay(
      options, shrink(trial.history, [&](const History& history) { return same(replay(options, history)); }));
}

}  // namespace

Seeds seeds_or(Seeds otherwise) {
  const char* given = std::getenv("FF_HISTORY_SEEDS");
  if (given == nullptr) return otherwise;
  const std::string text(given);
  const auto dash = text.find('-');
  const std::uint64_t first = std::stoull(text.substr(0, dash));
  return {first, dash == text.npos ? first : std::stoull(text.substr(dash + 1))};
}

GeneratorOptions generator_of(std::uint64_t seed, bool behind) {
  return {seed, number_of("FF_HISTORY_EXECUTIONS", 60), number_of("FF_HISTORY_STEPS", 600), behind};
}

Coverage play(Seeds seeds, bool behind) {
  Coverage coverage;
  std::size_t executions = 0;
  std::size_t steps = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const StageOptions options{.grace_ms = behind ? kBehindMs : 0, .seed = seed};
    const Trial trial = invent(options, generator_of(seed, behind));
    executions += trial.executions;
    steps += trial.history.size();
    coverage.add(trial.coverage);
    if (trial.verdicts.empty()) continue;
    std::string all;
    for (const Verdict& verdict : trial.verdicts) all += to_text(verdict) + '\n';
    if (std::getenv("FF_HISTORY_RAW") == nullptr)
      all += "\nthe shortest:\n" + report(shortest(trial, options));
    FAIL_CHECK("seed " << seed << ":\n" << all);
  }
  std::cout << executions << " executions, " << steps << " steps\n" << coverage.to_text() << std::flush;
  return coverage;
}

}  // namespace ff::test
