#include "reconcile/still_rows.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

// What no scan has shown for so long is forgotten even where no scan has come to its end: it may be of partitions that are
// no longer this engine's. A walk through millions takes hours to come by again.
constexpr std::chrono::hours kForgetAfter{24};

// Ours is read when a scan begins, the database's when it reads the row: one scan may take so much longer to come to it than
// another.
constexpr Milliseconds kSlack{1000};

}  // namespace

void StillRows::begin_scan(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  ++scan_;
  began_ = now;
  std::erase_if(rows_, [&](const auto& row) { return row.second.shown + kForgetAfter < now; });
}

bool StillRows::has_stood(const Candidate& row, Milliseconds span) {
  const std::lock_guard lock(mutex_);
  if (rows_.size() >= kMost && !rows_.contains(row.key)) return false;
  Entry& entry = rows_.try_emplace(row.key, Entry{row.seen_at, began_, scan_, began_}).first->second;
  // Another server, or its clock was set back.
  entry.since = std::min(entry.since, row.seen_at);
  entry.scan = scan_;
  entry.shown = began_;
  return row.seen_at - entry.since >= span && began_ - entry.met + kSlack >= span;
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
