#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "base/time.hpp"

namespace ff::reconcile {

/// Since when versions of rows have been there, by the database's clock, without having been read before: from time to
/// time a snapshot of the server is noted, and a version whose transaction was over by then has stood still ever since.
/// So what is to be known of a million rows costs one small statement, and they are looked at once somebody asks.
///
/// Whatever writes a row makes another version of it. A version that was written under a savepoint seems older than it
/// is by up to as long as its transaction took. In memory only: a restart, or another server, knows nothing. Not
/// thread-safe.
class Sightings {
 public:
  /// As many snapshots are kept: for an hour, one a second; what is older is kept in longer steps.
  static constexpr std::size_t kMost = 4096;

  /// `snapshot` is what pg_current_snapshot() said at `now`, `server` tells one server, and each of its starts, from
  /// another. Throws std::runtime_error for a snapshot that does not read as one.
  void note(UnixMillis now, std::string_view snapshot, std::int64_t server);

  /// When a version was written.
  struct When {
    UnixMillis after;  ///< not before that; where nothing is known, when it was seen
    UnixMillis seen;   ///< and then it was there
  };
  /// Of a version with this xmin that is visible by now. There must be a snapshot.
  When written(std::uint32_t xmin) const;

  bool empty() const { return all_.empty(); }
  std::size_t size() const { return all_.size(); }

 private:
  struct Snapshot {
    UnixMillis at;
    std::uint64_t next;                 // the first transaction that had not begun
    std::vector<std::uint64_t> active;  // of those before it, in their order
    bool knows(std::uint64_t transaction) const;
  };
  static Snapshot read(UnixMillis at, std::string_view text);
  void thin_out();

  std::deque<Snapshot> all_;
  std::int64_t server_ = 0;
};

/// Whether a transaction was begun after another, by what rows say of them (xmin).
constexpr bool is_younger(std::uint32_t xmin, std::uint32_t than) {
  return static_cast<std::int32_t>(xmin - than) > 0;
}

}  // namespace ff::reconcile
