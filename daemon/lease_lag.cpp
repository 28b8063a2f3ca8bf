#include "lease_lag.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/duration.hpp"

namespace ff::daemon {

LeaseLag::LeaseLag(const Beginning& beginning, Milliseconds retention, const Clock& clock)
    : beginning_(beginning), read_at_(clock.now()), retention_(retention), clock_(clock) {}

void LeaseLag::read(const lease::Occurrence& event) {
  warn_if_gone(event.cursor);
  const UnixMillis now =
      beginning_.database_time + std::chrono::duration_cast<Milliseconds>(clock_.now() - read_at_);
  const Milliseconds age = std::max(now - event.at, Milliseconds{0});
  if (const std::int64_t newest = beginning_.newest.event_id; !begun_ && event.cursor.event_id < newest)
    spdlog::info("lease history: the first event is {} old, and the newest is {}, {} ids later",
                 spoken_duration(age), newest, newest - event.cursor.event_id);
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

void LeaseLag::caught_up() {
  warn_if_gone(std::nullopt);
}

// Whoever has the cursor had the event. Right behind it nothing can be missing where the next id is there.
void LeaseLag::warn_if_gone(std::optional<lease::Cursor> first) {
  const auto gone = std::exchange(beginning_.gone, std::nullopt);
  if (!gone) return;
  const std::int64_t between = first ? first->event_id - gone->event_id - 1 : 0;
  if (first && between == 0) return;
  const std::string events =
      first ? fmt::format("up to {} events behind it", between) : "whatever was behind it";
  spdlog::warn(
      "lease history: event {}, whose cursor this is, is not there any more: outbox_retention has gone past "
      "it, and {} may have been deleted unread, or a failover has lost it{}",
      gone->event_id, events,
      !first || beginning_.reads_all
          ? ""
          : " (counted by ids: what is of other partitions, or the filter refuses, is among them)");
}

}  // namespace ff::daemon
