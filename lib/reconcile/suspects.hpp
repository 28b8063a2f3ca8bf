#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "pg/error.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// The rows of one tick that failed alone, with an error that may be theirs (a trigger that misspells a column) or
/// everybody's (a column that is gone): what it is, the other rows of the tick tell. Safe from any thread.
class Suspects {
 public:
  void start_over();
  /// A row was moved: not everybody fails.
  void another_went_well();
  /// This row failed. False: there are too many of them, and it looks as if nothing could be moved at all.
  [[nodiscard]] bool add(const Fault& row);

  /// The error of all, where all that was tried failed alike.
  std::optional<pg::Error> error_of_all() const;
  std::vector<Fault> rows() const;

 private:
  bool all_alike() const;

  mutable std::mutex mutex_;
  std::vector<Fault> rows_;  // guarded by mutex_, as is the next
  bool another_went_well_ = false;
};

}  // namespace ff::reconcile
