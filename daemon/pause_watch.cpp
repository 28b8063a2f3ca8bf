#include "pause_watch.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>

namespace ff::daemon {
namespace {

const pause::Pause* of(const std::vector<pause::Pause>& pauses, const std::string& reconciler) {
  const auto found = std::ranges::find(pauses, reconciler, &pause::Pause::reconciler);
  return found == pauses.end() ? nullptr : &*found;
}

}  // namespace

void PauseWatch::look(pg::Connection& connection) {
  std::string why;
  try {
    why = learn(connection);
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!why.empty() && why != why_unread_)
    spdlog::warn("pauses cannot be read, and those that are known stay: {}", why);
  if (why.empty() && !why_unread_.empty()) spdlog::info("pauses are read again");
  why_unread_ = why;
  tell();
}

// Why it was not to be learned; empty: it was.
std::string PauseWatch::learn(pg::Connection& connection) {
  using Table = pause::Reading::Table;
  pause::Reading reading = pause::try_to_read(connection);
  if (reading.table == Table::unreadable) return reading.why_unreadable;
  if (reading.table == Table::missing && !pauses_.in_force().empty())
    return "table ff_reconciler_pause is gone; `migrate up` makes it";
  pauses_.learn(std::move(reading.in_force), reading.database_time);
  return {};
}

void PauseWatch::tell() {
  const std::vector<pause::Pause> now = pauses_.in_force();
  if (now == told_) return;
  for (const pause::Pause& pause : told_)
    if (of(now, pause.reconciler) == nullptr)
      spdlog::info("the pause of {} is over, or was lifted", pause::subject_of(pause));
  for (const pause::Pause& pause : now)
    if (const pause::Pause* before = of(told_, pause.reconciler); before == nullptr || *before != pause)
      spdlog::warn("{} paused {}", pause::subject_of(pause), pause::text_of(pause, pause.since));
  told_ = now;
  changed_(now);
}

}  // namespace ff::daemon
