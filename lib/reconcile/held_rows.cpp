#include "reconcile/held_rows.hpp"

#include <algorithm>
#include <utility>

namespace ff::reconcile {
namespace {

// A row that no tick has met for so long is another one's, or gone.
constexpr Milliseconds kForgottenAfter = std::chrono::minutes{10};
constexpr Milliseconds kAnewAfter = std::chrono::minutes{1};

}  // namespace

void HeldRows::begin_tick() {
  const std::lock_guard lock(mutex_);
  ++tick_;
}

void HeldRows::found(const RowKey& key, const std::optional<ExecutionId>& execution, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  auto row = rows_.find(key);
  if (row == rows_.end()) {
    if (rows_.size() >= kMostRemembered) return;
    row = rows_.emplace(key, Entry{.execution = execution, .first = now, .last = now}).first;
  }
  Entry& entry = row->second;
  // One that was met again only now has not been held all the while, as far as anybody knows.
  if (now >= entry.last + kAnewAfter) entry = {.execution = execution, .first = now, .last = now};
  if (entry.tick != tick_) ++entry.ticks;
  entry.tick = tick_;
  entry.last = now;
}

std::vector<HeldRow> HeldRows::to_inspect(SteadyTime now) {
  {
    const std::lock_guard lock(mutex_);
    if (inspected_at_ && now < *inspected_at_ + kInspectEvery) return {};
  }
  auto rows = told(now);
  const std::lock_guard lock(mutex_);
  if (!rows.empty()) inspected_at_ = now;
  return rows;
}

bool HeldRows::note(const RowKey& key, std::vector<Holder> holders) {
  const std::lock_guard lock(mutex_);
  const auto row = rows_.find(key);
  if (row == rows_.end()) return false;
  row->second.holders = std::move(holders);
  return !std::exchange(row->second.noted, true);
}

std::vector<HeldRow> HeldRows::end_tick(bool all_seen, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  std::vector<HeldRow> gone;
  for (auto row = rows_.begin(); row != rows_.end();) {
    const Entry& entry = row->second;
    if ((!all_seen || entry.tick == tick_) && now < entry.last + kForgottenAfter) {
      ++row;
      continue;
    }
    if (entry.noted) gone.push_back(row_of(row->first, entry, now));
    row = rows_.erase(row);
  }
  return gone;
}

std::vector<HeldRow> HeldRows::told(SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  std::vector<HeldRow> told;
  for (const auto& [key, entry] : rows_)
    if (entry.ticks >= kNoticedFrom) told.push_back(row_of(key, entry, now));
  std::ranges::stable_sort(told, std::greater{}, &HeldRow::held_for);
  if (told.size() > kMostTold) told.resize(kMostTold);
  return told;
}

HeldRow HeldRows::row_of(const RowKey& key, const Entry& entry, SteadyTime now) {
  return {
      key,         nullptr,      entry.execution, std::chrono::duration_cast<Milliseconds>(now - entry.first),
      entry.ticks, entry.holders};
}

}  // namespace ff::reconcile
