#include "pause_watch.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace ff::daemon {
namespace {

const pause::Pause* of(const std::vector<pause::Pause>& pauses, const std::string& reconciler) {
  const auto found = std::ranges::find(pauses, reconciler, &pause::Pause::reconciler);
  return found == pauses.end() ? nullptr : &*found;
}

}  // namespace

void PauseWatch::poll(pg::Connection& connection) {
  Failure failure;
  try {
    failure = learn(connection);
  } catch (const std::exception& error) {
    failure.why = error.what();
  }
  tell_of_failure(failure);
  tell();
}

PauseWatch::Failure PauseWatch::learn(pg::Connection& connection) {
  using Table = pause::Reading::Table;
  const SteadyTime began = clock_.now();
  pause::Reading reading = pause::try_to_read(connection);
  if (reading.table == Table::unreadable)
    return {.why = std::move(reading.why_unreadable), .for_good = reading.lacks_privilege};
  if (reading.table == Table::missing && !pauses_.in_force().empty())
    return {.why = "table ff_reconciler_pause is gone; `migrate up` makes it", .for_good = true};
  if (pauses_.learn(std::move(reading.in_force), reading.database_time, began)) hooks_.released();
  return {};
}

void PauseWatch::tell_of_failure(const Failure& failure) {
  const std::string before = std::exchange(why_unread_, failure.why);
  if (failure.why != before) hooks_.unread(failure.why);
  if (failure.why.empty()) {
    if (!before.empty()) spdlog::info("pauses are read again");
    return;
  }
  const bool goes_on = pauses_.could_not_read(failure.for_good);
  if (failure.why != before)
    spdlog::warn("pauses cannot be read, and those that are known stay: {}", failure.why);
  if (!goes_on) return;
  if (!failure.for_good)
    spdlog::error("pauses were not read {} times in a row: reconcilers go by what is known of them: {}",
                  supervisor::Pauses::kFailuresHeldFor, failure.why);
  hooks_.released();
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
  hooks_.changed(now);
}

}  // namespace ff::daemon
