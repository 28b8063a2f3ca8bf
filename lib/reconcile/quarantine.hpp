#pragma once

#include <map>

#include "base/time.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// Rows that failed by themselves, each left out for a growing while: 5 s, doubling, to 10 min. Kept in
/// memory only: another process, or a restart, tries them at once. Not thread-safe.
class Quarantine {
 public:
  /// Whether the row is to be left alone now.
  bool holds(const RowKey& key, SteadyTime now) const;
  /// The row failed (again). Returns for how long it is left out.
  Milliseconds add(const RowKey& key, SteadyTime now);
  /// The row was moved, or is no longer due.
  void release(const RowKey& key);
  /// Forgets rows that nobody has met for long after their time was up: something else has moved them.
  void forget_old(SteadyTime now);

  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  bool contains(const RowKey& key) const { return rows_.contains(key); }

 private:
  struct Entry {
    SteadyTime until;
    Milliseconds pause;
  };
  std::map<RowKey, Entry> rows_;
};

}  // namespace ff::reconcile
