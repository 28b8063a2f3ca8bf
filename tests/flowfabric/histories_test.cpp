// Random histories: real operations of FlowFabric's workers, clients and operators, with the daemon's
// reconcilers in between. What is said about a failing seed is enough to make a test of it.
//
//   FF_HISTORY_SEEDS=100-199   these instead of the fixed ones
//   FF_HISTORY_STEPS=600 FF_HISTORY_EXECUTIONS=60
//   FF_HISTORY_RAW=1           without shortening what fails
//
// The case "[compare]", which runs only by name, plays the same histories with FlowFabric's own scanners and counts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <map>

#include "histories/trial.hpp"

using namespace ff;
using namespace ff::test;

namespace {

struct Seeds {
  std::uint64_t first;
  std::uint64_t last;
};

int number_of(const char* variable, int otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::stoi(given);
}

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

StageOptions stage_of(std::uint64_t seed, bool behind) {
  return {Rescue::daemon, behind ? kBehindMs : 0, seed};
}

// The shortest history whose first fault is of the same kind.
Trial shortest(const Trial& trial, const StageOptions& options) {
  const Fault fault = trial.verdicts.front().fault;
  const auto same = [&](const Trial& other) {
    return std::any_of(other.verdicts.begin(), other.verdicts.end(),
                       [&](const Verdict& v) { return v.fault == fault; });
  };
  return replay(
      options, shrink(trial.history, [&](const History& history) { return same(replay(options, history)); }));
}

void try_seed(std::uint64_t seed, bool behind) {
  const StageOptions options = stage_of(seed, behind);
  const Trial trial = invent(options, generator_of(seed, behind));
  std::cout << std::flush << "seed " << seed << ": " << trial.executions << " executions, "
            << trial.history.size() << " steps, " << trial.verdicts.size() << " faults\n";
  if (trial.verdicts.empty()) return;
  std::string all;
  for (const Verdict& verdict : trial.verdicts) all += to_text(verdict) + '\n';
  if (std::getenv("FF_HISTORY_RAW") != nullptr) {
    FAIL_CHECK("seed " << seed << ":\n" << all);
    return;
  }
  FAIL_CHECK("seed " << seed << ":\n" << all << "\nthe shortest:\n" << report(shortest(trial, options)));
}

}  // namespace

TEST_CASE("after a random history everybody has a future and nobody was harmed") {
  const Seeds seeds = seeds_or({1, 12});
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) try_seed(seed, false);
}

TEST_CASE("workers whose clock is behind are not harmed where grace covers it") {
  const Seeds seeds = seeds_or({1001, 1004});
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) try_seed(seed, true);
}

// Not a test: no fault of the scanners is ours.
TEST_CASE("FlowFabric's own scanners in the daemon's place are counted", "[.][compare]") {
  const Seeds seeds = seeds_or({1, 12});
  std::map<Fault, int> ours;
  std::map<Fault, int> theirs;
  std::size_t executions = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const Trial daemon = invent(stage_of(seed, false), generator_of(seed, false));
    const Trial scanners = replay({.rescue = Rescue::scanners, .seed = seed}, daemon.history);
    executions += daemon.executions;
    for (const auto& [fault, count] : tally(daemon.verdicts)) ours[fault] += count;
    for (const auto& [fault, count] : tally(scanners.verdicts)) theirs[fault] += count;
  }
  std::cout << executions << " executions\n";
  for (const auto& [fault, count] : theirs)
    std::cout << name(fault) << ": daemon " << ours[fault] << ", FlowFabric's scanners " << count << '\n';
}
