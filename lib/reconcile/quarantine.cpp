#include "reconcile/quarantine.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/printable.hpp"

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

Milliseconds Quarantine::add(const RowKey& key, SteadyTime now, const pg::Error& error) {
  const std::lock_guard lock(mutex_);
  const auto [row, fresh] = rows_.try_emplace(key, Entry{now, kFirstPause});
  Entry& entry = row->second;
  if (error.lacks_resources())
    entry.pause = kFirstPause;
  else if (!fresh)
    entry.pause = std::min(entry.pause * 2, kLongestPause);
  entry.until = now + entry.pause;
  ++entry.tries;
  entry.sqlstate = error.sqlstate();
  entry.message = printable(error.what());
  return entry.pause;
}

void Quarantine::release(const RowKey& key) {
  const std::lock_guard lock(mutex_);
  rows_.erase(key);
}

void Quarantine::forget_old(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rows_, [&](const auto& row) { return row.second.until + kLongestPause < now; });
}

std::vector<QuarantinedRow> Quarantine::told(SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::map<RowKey, Entry>::const_iterator> next;
  for (auto row = rows_.begin(); row != rows_.end(); ++row) next.push_back(row);
  const auto most = next.begin() + static_cast<std::ptrdiff_t>(std::min(next.size(), kMostTold));
  std::partial_sort(next.begin(), most, next.end(), [](const auto& a, const auto& b) {
    return std::tie(a->second.until, a->first) < std::tie(b->second.until, b->first);
  });
  std::vector<QuarantinedRow> told;
  for (auto row = next.begin(); row != most; ++row) {
    const auto& [key, entry] = **row;
    told.push_back({key, nullptr, entry.tries, entry.sqlstate, entry.message,
                    std::max(std::chrono::ceil<Milliseconds>(entry.until - now), Milliseconds{0})});
  }
  return told;
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
