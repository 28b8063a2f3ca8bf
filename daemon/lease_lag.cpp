#include "lease_lag.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/duration.hpp"

namespace ff::daemon {

LeaseLag::LeaseLag(UnixMillis database_time, lease::Cursor newest, Milliseconds retention, const Clock& clock)
    : database_time_(database_time),
      read_at_(clock.now()),
      newest_(newest),
      retention_(retention),
      clock_(clock) {}

void LeaseLag::read(const lease::Occurrence& event) {
  const UnixMillis now = database_time_ + std::chrono::duration_cast<Milliseconds>(clock_.now() - read_at_);
  const Milliseconds age = std::max(now - event.at, Milliseconds{0});
  if (!begun_ && event.cursor < newest_)
    spdlog::info("lease history: the first event is {} old, and the newest is {}, {} ids later",
                 spoken_duration(age), newest_.event_id, newest_.event_id - event.cursor.event_id);
  begun_ = true;
  if (age <= retention_ / 2) {
    warned_ = false;
  } else if (!warned_) {
    spdlog::warn(
        "lease history: event {} is {} old, which is more than half of what is kept where outbox_retention "
        "is on "
        "(retention {}): what is older than that is deleted, read or not",
        event.cursor.event_id, spoken_duration(age), format_duration(retention_));
    warned_ = true;
  }
}

}  // namespace ff::daemon
