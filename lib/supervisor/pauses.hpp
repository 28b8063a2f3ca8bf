#pragma once

#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "pause/pause.hpp"

namespace ff::supervisor {

/// Which reconcilers are paused, as was last read. While nothing more can be read, what is known stays, but a pause with
/// an end is over at its end: that is taken from the database's clock when it is read, and waited for by our own.
/// Safe from any thread.
class Pauses {
 public:
  /// The clock must outlive this.
  explicit Pauses(const Clock& clock) : clock_(clock) {}

  /// All that are in force at this moment of the database's clock.
  void learn(std::vector<pause::Pause> in_force, UnixMillis database_time);

  std::vector<pause::Pause> in_force() const;
  /// One of them is of this reconciler, or of all.
  bool hold(std::string_view reconciler) const;

 private:
  struct Known {
    pause::Pause pause;
    std::optional<SteadyTime> end;
  };
  bool is_over(const Known& known) const { return known.end && clock_.now() >= *known.end; }

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::vector<Known> known_;  // guarded by mutex_
};

}  // namespace ff::supervisor
