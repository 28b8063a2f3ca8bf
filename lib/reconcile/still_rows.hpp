#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "reconcile/candidate.hpp"

namespace ff::reconcile {

/// Since when scans have shown rows with the same key, for pairs whose rows have to stand still for a while (see
/// Reconciler::still_for). By the database's clock and by ours, so that none of them has to be right where it is set. In
/// memory only: another process, or a restart, sees them for the first time. Safe from any thread.
class StillRows {
 public:
  /// As many rows are remembered. Others are shown again once some of these are gone.
  static constexpr std::size_t kMost = 100'000;

  /// Called before the rows of a scan are read.
  void begin_scan(SteadyTime now);
  /// The scan has shown the row. Returns whether it had stood still for `span` by then.
  bool has_stood(const Candidate& row, Milliseconds span);
  /// The scan has shown all rows of these partitions: the others are forgotten.
  void end_scan(const Partitions& partitions);

  /// Since when the row has stood still; 1970 where nothing is known of it.
  UnixMillis since(const RowKey& key) const;
  std::size_t size() const;

 private:
  struct Entry {
    UnixMillis since;
    SteadyTime met;      // the same by our clock: when that scan began
    std::uint64_t scan;  // that has shown it last
    SteadyTime shown;
  };
  mutable std::mutex mutex_;
  std::uint64_t scan_ = 0;        // guarded by mutex_
  SteadyTime began_{};            // the same: when the scan did
  std::map<RowKey, Entry> rows_;  // guarded by mutex_
};

}  // namespace ff::reconcile
