#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "demo/simulation/books.hpp"

namespace ff::faults {

/// Something that was timed beside the recovery: its worst, and how bad it may be.
struct Measure {
  Milliseconds worst{0};
  Milliseconds wanted{0};
  int times = 0;
};

struct FaultResult {
  std::string name;
  std::string what;
  Milliseconds wanted{0};
  std::vector<Milliseconds> recoveries{};  ///< one for each repetition
  std::map<std::string, Measure> measures{};
  std::vector<std::string> complaints{};  ///< what went wrong beyond being late

  bool good() const;
};

/// One load and what went wrong under it.
struct ChapterResult {
  std::string name;
  std::vector<FaultResult> faults{};
  std::vector<simulation::Verdict> verdicts{};
  simulation::WorkCounts work{};
  std::string failure{};  ///< what ended it before its time

  bool good() const;
};

/// "12 ms", "1.5 s"
std::string to_text(Milliseconds length);
/// Of at least one, in any order.
Milliseconds median(std::vector<Milliseconds> lengths);
Milliseconds worst(const std::vector<Milliseconds>& lengths);

void print(const FaultResult& result);
void print(const ChapterResult& result);
void write_json(const std::string& file, std::uint64_t seed, bool brief,
                const std::vector<ChapterResult>& chapters);

}  // namespace ff::faults
