#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reconcile/candidate.hpp"

namespace ff::reconcile {

/// What is due while it is more than may be given back: one queue for each namespace, and each has its turn. Not
/// thread-safe.
class FairQueue {
 public:
  /// Once so many are remembered, what else was due before is left to be found when these are gone.
  static constexpr std::size_t kMost = 150'000;

  /// Those that are in it already are not added again.
  void add(std::vector<Candidate> rows);
  bool is_full() const { return size() >= kMost; }
  /// Up to so many, the namespaces in turn, of each the oldest first.
  std::vector<Candidate> take(std::size_t most);

  std::size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  std::optional<UnixMillis> oldest() const;
  void clear();

 private:
  std::map<std::string, std::multimap<UnixMillis, Candidate>, std::less<>>
      by_namespace_;  // none of them empty
  std::set<RowKey> keys_;
  std::string last_;  // whose turn it was
};

}  // namespace ff::reconcile
