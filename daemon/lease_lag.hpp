#pragma once

#include "base/time.hpp"
#include "lease/event.hpp"

namespace ff::daemon {

/// How far behind the present a reader of the lease history is, who must not fall behind what outbox_retention keeps. Says
/// so in the log at its first event, and warns when what it reads is older than half the retention: once, until it
/// has caught up. One thread.
class LeaseLag {
 public:
  /// `database_time` was read just now.
  LeaseLag(UnixMillis database_time, lease::Cursor newest, Milliseconds retention, const Clock& clock);

  void read(const lease::Occurrence& event);

 private:
  UnixMillis database_time_;
  SteadyTime read_at_;
  lease::Cursor newest_;
  Milliseconds retention_;
  const Clock& clock_;
  bool begun_ = false;
  bool warned_ = false;
};

}  // namespace ff::daemon
