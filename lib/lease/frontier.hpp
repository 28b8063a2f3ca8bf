#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "base/time.hpp"

namespace ff::lease {

/// Transactions that may still commit events, each by the name that pg_locks gives it in `virtualtransaction`
/// ("3/1017"): it has it alone as long as the server runs, and keeps it when it is prepared.
using Writers = std::set<std::string>;

/// An event, and a hash of what it says: another event that is given the same id has another.
struct Fingerprint {
  std::int64_t event_id = 0;
  std::int64_t hash = 0;
};

/// What one poll of the outbox saw.
struct Sighting {
  Fingerprint newest;  ///< of the events that are visible, the one with the highest id; 0: there is none
  /// Who may add events, read after `newest` was; nothing: nobody asked.
  std::optional<Writers> writers{};
};

/// Up to which id the outbox is settled: nothing at or below it will ever be added. Only settled events may
/// be delivered, because ids are handed out at INSERT and transactions commit in another order.
///
/// Whoever holds a lower event id than one that is seen drew it earlier, and held a RowExclusiveLock on the
/// outbox by then: INSERT locks the table before it draws. A transaction gives its locks back after it has
/// ended for everybody else. So it is among the writers that are read after the event was seen, or has ended;
/// and once all of these have ended, a snapshot that is taken afterwards has all lower events that will ever
/// be. Who comes to write later draws a higher id, and nobody else's transaction matters.
///
/// Pure: no database, no clock. Not thread-safe.
class Frontier {
 public:
  /// Whether a poll that saw this event as the newest has to read the writers, too.
  bool asks(std::int64_t newest) const { return !waiting_.empty() || is_new(newest); }
  /// Whether it begins to wait with that poll.
  bool is_new(std::int64_t newest) const;
  /// All that some event waits for.
  Writers awaited() const;

  void note(const Sighting& sighting, SteadyTime at);

  /// The last event that is settled.
  const Fingerprint& settled() const { return settled_; }
  /// When the oldest event was first seen that is not settled yet, and for whom it waits.
  std::optional<SteadyTime> held_since() const;
  Writers in_the_way() const;

  /// After another server was reached or this one was restarted: those who are waited for are gone, and their
  /// names may be given to others. What was settled stays settled.
  void forget_unsettled() { waiting_.clear(); }

 private:
  // With a transaction in the way for hours, what is seen later begins to wait when some have settled.
  static constexpr std::size_t kMostWaiting = 64;

  struct Waiting {
    Fingerprint event;
    Writers writers;
    SteadyTime seen_at;
  };

  Fingerprint settled_;
  std::deque<Waiting> waiting_;  // rising by event
};

}  // namespace ff::lease
