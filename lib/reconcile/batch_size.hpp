#pragma once

#include <atomic>
#include <cstddef>

#include "base/time.hpp"

namespace ff::reconcile {

/// How many rows the next transaction takes: as many as configured while transactions are quick, fewer while
/// they are slow, so that whoever waits for one of their rows, or for the server, does not wait for long. Safe
/// from any thread.
class BatchSize {
 public:
  /// What a transaction may take before the next ones become smaller.
  static constexpr Milliseconds kBudget{100};

  explicit BatchSize(int most) { start_over(most); }

  /// With another `most`; no transaction is under way.
  void start_over(int most);

  std::size_t now() const { return now_; }

  /// A transaction over so many rows took so long, of which `acted` before its commit. Where they were half a batch or more,
  /// one over the budget makes the next as large as would have fitted it, but not less than an eighth of
  /// `most`: what is slow may be the commit, whatever the number of rows. Not so where the changes alone took ten times
  /// the budget, as those of rows that stand for many others do: an end that hundreds wait for. A whole batch in less than
  /// half of the budget makes the next twice as large.
  void learn(std::size_t rows, Milliseconds took, Milliseconds acted);

 private:
  std::size_t most_ = 0;
  std::atomic<std::size_t> now_{0};
};

}  // namespace ff::reconcile
