#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "pg/error.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// Rows that failed by themselves, each left out for a growing while: 5 s, doubling, to 10 min; for 5 s each time where
/// the server lacked something. Kept in memory only: another process, or a restart, tries them at once. Safe from any
/// thread.
class Quarantine {
 public:
  /// Whether the row is to be left alone now.
  bool holds(const RowKey& key, SteadyTime now) const;
  /// The row failed (again), for this reason. Returns for how long it is left out.
  Milliseconds add(const RowKey& key, SteadyTime now, const pg::Error& error);
  /// The row was moved, or is no longer due.
  void release(const RowKey& key);
  /// Forgets rows that nobody has met for long after their time was up: something else has moved them.
  void forget_old(SteadyTime now);

  /// So many of the rows are told of, those first that are tried next: where there are thousands, they have a reason in
  /// common.
  static constexpr std::size_t kMostTold = 100;
  std::vector<QuarantinedRow> told(SteadyTime now) const;

  std::size_t size() const;
  bool empty() const { return size() == 0; }
  bool contains(const RowKey& key) const;

 private:
  struct Entry {
    SteadyTime until;
    Milliseconds pause;
    int tries = 0;
    std::string sqlstate = {};
    std::string message = {};
  };
  mutable std::mutex mutex_;
  std::map<RowKey, Entry> rows_;  // guarded by mutex_
};

}  // namespace ff::reconcile
