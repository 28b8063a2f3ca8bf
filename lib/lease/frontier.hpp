#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "base/time.hpp"

namespace ff::lease {

/// What one look at the outbox and at the server's transactions saw, in one snapshot.
struct Sighting {
  std::int64_t newest = 0;          ///< the highest event id that is visible; 0: there is none
  std::int64_t oldest_running = 0;  ///< every transaction with a lower id has ended, and can be seen whole
  /// A transaction id that was handed out after the snapshot: every id handed out before the snapshot is
  /// lower.
  std::optional<std::int64_t> mark;
};

/// Up to which id the outbox is settled: nothing at or below it will ever be added. Only settled events may
/// be delivered, because ids are handed out at INSERT and transactions commit in another order.
///
/// Whoever holds a lower event id than one that is seen drew it earlier, and held a transaction id by then
/// (producers write other rows before the outbox row). So that transaction's id is below a mark that is taken
/// after the event was seen; once all transactions below the mark have ended, all lower events are there, or
/// never will be. pg_snapshot_xmax would not do as the mark: it is one past the last transaction that has
/// ENDED, and the one in the way may have started after that.
///
/// Pure: no database, no clock. Not thread-safe.
class Frontier {
 public:
  /// A look has to take a mark when it sees an event above this id.
  std::int64_t marks_above() const;

  void note(const Sighting& sighting, SteadyTime at);

  std::int64_t settled() const { return settled_; }
  /// When the oldest event was first seen that is not settled yet.
  std::optional<SteadyTime> held_since() const;

  /// After another server was reached or this one was restarted: a mark that was lost in a crash may never be
  /// reached again. What was settled stays settled.
  void forget_unsettled() { waiting_.clear(); }

 private:
  // With a transaction in the way for hours, what is seen later waits for its mark until some have settled.
  static constexpr std::size_t kMostMarks = 64;

  struct Mark {
    std::int64_t event_id;
    std::int64_t transaction;
    SteadyTime seen_at;
  };

  std::int64_t settled_ = 0;
  std::deque<Mark> waiting_;  // rising in all three
};

}  // namespace ff::lease
