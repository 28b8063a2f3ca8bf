#include "reconcile/still_rows.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

// What no scan has shown for so long is forgotten even where no scan has come to its end: it may be of partitions that are
// no longer this engine's.
constexpr std::chrono::hours kForgetAfter{1};

// Two clocks that nobody sets differ by less over the minute that a row has to stand still. Ours is read before the row.
constexpr Milliseconds kClockDrift{1000};

}  // namespace

void StillRows::begin_scan(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  ++scan_;
  std::erase_if(rows_, [&](const auto& row) { return row.second.shown + kForgetAfter < now; });
}

bool StillRows::has_stood(const Candidate& row, Milliseconds span, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  if (rows_.size() >= kMost && !rows_.contains(row.key)) return false;
  Entry& entry = rows_.try_emplace(row.key, Entry{row.seen_at, now, scan_, now}).first->second;
  // Another server, or its clock was set back.
  entry.since = std::min(entry.since, row.seen_at);
  entry.scan = scan_;
  entry.shown = now;
  return row.seen_at - entry.since >= span && now - entry.met + kClockDrift >= span;
}

void StillRows::end_scan(const Partitions& partitions) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rows_, [&](const auto& row) {
    return row.second.scan != scan_ && std::ranges::binary_search(partitions, row.first.partition);
  });
}

UnixMillis StillRows::since(const RowKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(key);
  return found == rows_.end() ? UnixMillis{} : found->second.since;
}

std::size_t StillRows::size() const {
  const std::lock_guard lock(mutex_);
  return rows_.size();
}

}  // namespace ff::reconcile
