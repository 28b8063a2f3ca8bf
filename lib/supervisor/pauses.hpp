#pragma once

#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "pause/pause.hpp"

namespace ff::supervisor {

/// Which reconcilers are paused, as was last read. A pause with an end is over at its end: that is taken from the
/// database's clock when it is read, and waited for by our own.
///
/// Before the first reading, and when the last one began too long ago, all are held: something may have been paused
/// meanwhile. But not for ever, because the reconcilers do not need that table: after a few readings in a row that
/// failed, or one that shows that the next will fail as well, what is known is gone by until one succeeds.
/// Safe from any thread.
class Pauses {
 public:
  /// Who acts by a reading that began no longer ago begins no act later than 6 s after a pause was written: the rest is
  /// for the act to begin.
  static constexpr Milliseconds kReadingCounts{5500};
  /// With each check of the database, that is about every 2 s.
  static constexpr int kFailuresHeldFor = 5;

  /// The clock must outlive this.
  explicit Pauses(const Clock& clock) : clock_(clock) {}

  /// All that are in force at this moment of the database's clock, by a reading that began then by ours. True: until now
  /// all were held for want of it.
  bool learn(std::vector<pause::Pause> in_force, UnixMillis database_time, SteadyTime began);
  /// A reading failed; `for_good`: so will the next. True: from now on what is known is gone by.
  bool could_not_read(bool for_good);

  std::vector<pause::Pause> in_force() const;
  /// One of them is of this reconciler, or of all; or nobody knows.
  bool hold(std::string_view reconciler) const;

 private:
  struct Known {
    pause::Pause pause;
    std::optional<SteadyTime> end;
  };
  bool wants_reading() const;  // under mutex_
  bool is_over(const Known& known) const { return known.end && clock_.now() >= *known.end; }

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::vector<Known> known_;           // guarded by mutex_, as are the next
  std::optional<SteadyTime> read_at_;  // when the last good reading began
  int failures_ = 0;                   // since then
  bool goes_on_ = false;               // though the table cannot be read
};

}  // namespace ff::supervisor
