#include "reconcile/quarantine.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

using namespace std::chrono_literals;
constexpr Milliseconds kFirstPause = 5s;
constexpr Milliseconds kLongestPause = 10min;

}  // namespace

bool Quarantine::holds(const RowKey& key, SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(key);
  return found != rows_.end() && now < found->second.until;
}

Milliseconds Quarantine::add(const RowKey& key, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  const auto [row, fresh] = rows_.try_emplace(key, Entry{now, kFirstPause});
  if (!fresh) row->second.pause = std::min(row->second.pause * 2, kLongestPause);
  row->second.until = now + row->second.pause;
  return row->second.pause;
}

void Quarantine::release(const RowKey& key) {
  const std::lock_guard lock(mutex_);
  rows_.erase(key);
}

void Quarantine::forget_old(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rows_, [&](const auto& row) { return row.second.until + kLongestPause < now; });
}

std::size_t Quarantine::size() const {
  const std::lock_guard lock(mutex_);
  return rows_.size();
}

bool Quarantine::contains(const RowKey& key) const {
  const std::lock_guard lock(mutex_);
  return rows_.contains(key);
}

}  // namespace ff::reconcile
