#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "pg/error.hpp"
#include "reconcile/candidate.hpp"

namespace ff::reconcile {

/// The rows of one tick that failed alone, with an error that may be theirs (a trigger that misspells a column) or
/// everybody's (a column that is gone): what it is, the other rows of the tick tell. Safe from any thread.
class Suspects {
 public:
  using Rows = std::vector<std::pair<Candidate, pg::Error>>;

  void start_over();
  /// A row was moved: not everybody fails.
  void another_went_well();
  /// This row failed. False: there are too many of them, and it looks as if nothing could be moved at all.
  [[nodiscard]] bool add(const Candidate& row, const pg::Error& error);

  /// The error of all, where all that was tried failed alike.
  std::optional<pg::Error> error_of_all() const;
  Rows rows() const;

 private:
  bool all_alike() const;

  mutable std::mutex mutex_;
  Rows rows_;  // guarded by mutex_, as is the next
  bool another_went_well_ = false;
};

}  // namespace ff::reconcile
