#pragma once

#include <optional>
#include <vector>

#include "reconcile/candidate.hpp"

namespace ff::reconcile {

/// The rows that a scan has seen coming: they are taken when their moment has come, without another scan. Not
/// thread-safe.
class Upcoming {
 public:
  /// Of the rows that fall due up to `complete_until`, all are in `rows` but those written since.
  void replace(std::vector<Candidate> rows, UnixMillis complete_until);
  void clear() { replace({}, {}); }
  /// Some more: of a row that it has already, what is known of it now. No more than the kMost that fall due first are kept.
  void add(std::vector<Candidate> rows);
  static constexpr std::size_t kMost = 20'000;

  /// Takes out the rows with a due time up to `due`, oldest first; or all of them.
  std::vector<Candidate> pop(UnixMillis due = UnixMillis::max());

  /// The due time of the next row.
  std::optional<UnixMillis> next() const;
  UnixMillis complete_until() const { return complete_until_; }

 private:
  std::vector<Candidate> rows_;  // the latest first
  UnixMillis complete_until_{};
};

}  // namespace ff::reconcile
