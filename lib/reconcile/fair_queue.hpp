#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reconcile/candidate.hpp"

namespace ff::reconcile {

/// What is due while it is more than may be given back: one queue for each namespace, and each has its turn. What it has
/// no room for is left out, and found when it is filled anew. Not thread-safe.
class FairQueue {
 public:
  /// A row takes about half a kilobyte, and up to eight pairs of a daemon may have a queue.
  static constexpr std::size_t kMost = 40'000;
  /// So that others have room beside one that has everything.
  static constexpr std::size_t kMostOfOne = 20'000;

  /// Those that are in it already are not added again.
  void add(std::vector<Candidate> rows);
  /// Up to so many, the namespaces in turn, of each the oldest first.
  std::vector<Candidate> pop(std::size_t most);

  std::size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  std::optional<UnixMillis> oldest() const;
  /// For how many there was no room since it was last cleared.
  std::size_t left_out() const { return left_out_; }
  /// Whose turn it was is remembered.
  void clear();

 private:
  std::map<std::string, std::multimap<UnixMillis, Candidate>, std::less<>>
      by_namespace_;  // none of them empty
  std::set<RowKey> keys_;
  std::string last_;  // whose turn it was
  std::size_t left_out_ = 0;
};

}  // namespace ff::reconcile
