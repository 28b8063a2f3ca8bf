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

/// Whether the upstream of an edge had ended before the edge was applied.
bool is_late(const Json& edge, const ExecutionRows& upstream);

/// A group that group_recount has counted anew: its row then, and when that was.
struct Recounted {
  Json group;
  std::int64_t at_ms = 0;
};
/// "" where the counts of such a group are how its upstreams have ended, and how many live, each over every edge.
std::string wrongly_recounted(const Snapshot& before, const Json& group);
/// Whether group_recount has to have seen to it by the end: all are over, and it still counts one as running.
bool should_be_recounted(const Snapshot& end, const std::string& downstream, const Json& group);

/// The counts that a group should have.
class Tally {
 public:
  /// Those that it had at some moment, before all that is added.
  void begin_with(const Json& group);
  void add(std::int64_t applied_at_ms, const std::vector<Word>& words);
  /// What was told over an edge that is counted already.
  void add(const std::vector<Word>& words);
  /// "" where they are those of this row.
  std::string differs_from(const Json& group) const;

 private:
  std::int64_t running() const;

  std::map<std::string, std::int64_t> counts_;
  std::multimap<std::int64_t, int> changes_;  // of running_count, which is never below 0
};

}  // namespace ff::test
