#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "histories/snapshot.hpp"

namespace ff::test {

/// What a group counts when an upstream ends: success, skip or fail.
struct Word {
  std::int64_t at_ms = 0;
  std::string word;
};

bool is_applied(const Json& edge);
std::int64_t applied_at(const Json& edge);
/// The ends of its upstream that were passed on over an edge: those that were dispatched after it was applied.
std::vector<Word> told_of(const Json& edge, const ExecutionRows& upstream);
/// The one end that an execution should have passed on; none while it has not ended.
std::vector<Word> told_by_its_end(const ExecutionRows& upstream);

/// The counts that a group should have.
class Tally {
 public:
  void add(std::int64_t applied_at_ms, const std::vector<Word>& words);
  /// "" where they are those of this row.
  std::string differs_from(const Json& group) const;

 private:
  std::int64_t running() const;

  std::map<std::string, std::int64_t> counts_;
  std::multimap<std::int64_t, int> changes_;  // of running_count, which is never below 0
};

}  // namespace ff::test
