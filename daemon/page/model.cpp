#include "page/model.hpp"

#include <algorithm>

namespace ff::daemon::page {
namespace {

using namespace std::chrono_literals;

// As the alert FfReconcilerRowsLate has it.
constexpr Milliseconds kLate = 30s;
// What a tick has not come to is met by the next, at once.
constexpr Milliseconds kBacklog = 5s;

// Of the partitions only that have no row in quarantine: which row is the oldest of another nobody knows.
std::optional<Milliseconds> overdue_beside_quarantine(const ReconcilerView& view, UnixMillis now) {
  if (view.left() <= static_cast<std::int64_t>(view.quarantined())) return std::nullopt;
  const reconcile::TickReport& last = view.seen->last;
  std::optional<UnixMillis> oldest;
  for (const auto& [partition, since] : last.oldest_due_in) {
    const auto is_there = [&its = partition](const reconcile::QuarantinedRow& row) {
      return row.key.partition == its;
    };
    if (std::ranges::none_of(last.quarantine_rows, is_there))
      oldest = std::min(oldest.value_or(since), since);
  }
  if (!oldest) return std::nullopt;
  return waited(*oldest, database_now(*view.seen, now));
}

}  // namespace

Milliseconds waited(UnixMillis since, UnixMillis now) {
  return std::max(now - std::max(since, UnixMillis{}), Milliseconds{0});
}

UnixMillis database_now(const StatusBoard::Entry& seen, UnixMillis now) {
  if (count(seen.last_scan) == 0 || count(seen.last.database_time) == 0) return now;
  return seen.last.database_time + (now - seen.last_scan);
}

std::optional<Milliseconds> overdue(const ReconcilerView& view, UnixMillis now) {
  if ((view.left() <= 0 && !view.has_more()) || !view.seen->last.oldest_due) return std::nullopt;
  return waited(*view.seen->last.oldest_due, database_now(*view.seen, now));
}

std::optional<Milliseconds> late_by(const ReconcilerView& view, UnixMillis now) {
  if (view.paused || view.held()) return std::nullopt;
  const auto waited = view.quarantined() == 0 ? overdue(view, now) : overdue_beside_quarantine(view, now);
  if (!waited || *waited < (view.has_more() ? kBacklog : kLate)) return std::nullopt;
  return waited;
}

}  // namespace ff::daemon::page
