#pragma once

#include <optional>

#include "base/time.hpp"
#include "lease/event.hpp"

namespace ff::daemon {

/// How far behind the present a reader of the lease history is, who must not fall behind what outbox_retention keeps. Says
/// so in the log at its first event, and warns when what it reads is older than half the retention: once, until it
/// has caught up. Warns as well of a cursor that has been overtaken already. One thread.
class LeaseLag {
 public:
  struct Beginning {
    UnixMillis database_time;  // read just now
    lease::Cursor newest;
    std::optional<lease::Cursor> gone{};  // the reader's, where the event that it names is not there any more
    bool reads_all = true;                // of what is behind it: neither a partition nor a filter
  };
  LeaseLag(const Beginning& beginning, Milliseconds retention, const Clock& clock);

  void read(const lease::Occurrence& event);
  /// All has been read that was there at the beginning.
  void caught_up();

 private:
  void warn_if_gone(std::optional<lease::Cursor> first);

  Beginning beginning_;
  SteadyTime read_at_;
  Milliseconds retention_;
  const Clock& clock_;
  bool begun_ = false;
  bool warned_ = false;
};

}  // namespace ff::daemon
