#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reconcile/candidate.hpp"

namespace ff::reconcile {

/// What is due while it is more than may be given back: one queue for each namespace, and each has its turn. Where it is
/// full, the youngest row of the namespace that has the most gives way: it is found when the queue is filled anew. Not
/// thread-safe.
class FairQueue {
 public:
  FairQueue() = default;
  FairQueue(const FairQueue&) = delete;  // it refers to its own keys, which a move leaves where they are
  FairQueue(FairQueue&&) = default;
  FairQueue& operator=(const FairQueue&) = delete;
  FairQueue& operator=(FairQueue&&) = default;
  ~FairQueue() = default;

  /// A row takes about half a kilobyte, and up to eight pairs of a daemon may have a queue.
  static constexpr std::size_t kMost = 40'000;

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
  using ByNamespace = std::map<std::string, std::multimap<UnixMillis, Candidate>, std::less<>>;
  using Place = std::multimap<UnixMillis, Candidate>::iterator;
  void insert(Candidate row);
  Candidate remove(ByNamespace::iterator its, Place place);

  ByNamespace by_namespace_;                                    // none of them empty
  std::set<std::pair<std::size_t, std::string_view>> by_size_;  // how many each of them has
  std::set<RowKey> keys_;
  std::string last_;  // whose turn it was
  std::size_t left_out_ = 0;
};

}  // namespace ff::reconcile
