#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "base/time.hpp"
#include "pg/error.hpp"
#include "reconcile/walk.hpp"

namespace ff::reconcile {

/// Groups of partitions that the server could not read within statement_timeout. What Quarantine is for rows: each is left
/// out of scans for a minute, then longer, to ten minutes, or the others would wait for it in each of them. Not thread-safe.
class SlowGroups {
 public:
  void gave_up(std::size_t group, SteadyTime now, const pg::Error& error);
  void was_read(std::size_t group) { groups_.erase(group); }
  void clear() { groups_.clear(); }

  /// Takes away those that are left out now, but for one where nothing else remains. Returns why, of one of them, or null.
  /// The error lives until the next call of another member.
  const pg::Error* leave_out(std::vector<GroupSlice>& slices, SteadyTime now) const;

 private:
  struct Entry {
    Milliseconds rest;
    SteadyTime until;
    pg::Error error;
  };
  std::map<std::size_t, Entry> groups_;
};

}  // namespace ff::reconcile
