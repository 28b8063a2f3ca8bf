#pragma once

#include <cstdint>

#include "base/time.hpp"

namespace ff::lease {

/// Told of what happens to the subscriptions of a process, from the thread in which it happens: must be safe
/// from any thread, quick, and must not call the history.
class HistoryObserver {
 public:
  virtual ~HistoryObserver() = default;
  /// An event was handed to its consumer.
  virtual void lease_event_delivered() noexcept {}
  /// The session was lost and there is a new one.
  virtual void lease_history_reconnected() noexcept {}
  /// For how long the oldest event has been seen that may not be delivered yet; 0: there is none.
  virtual void lease_history_held_back(Milliseconds /*since*/) noexcept {}
};

}  // namespace ff::lease
