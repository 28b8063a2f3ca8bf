#include "reconcile/quarantine.hpp"

#include <algorithm>
#include <tuple>

#include "base/printable.hpp"

namespace ff::reconcile {
namespace {

using namespace std::chrono_literals;
constexpr Milliseconds kFirstPause = 5s;
constexpr Milliseconds kLongestPause = 10min;
constexpr int kRestToTry = 4;

}  // namespace

void Quarantine::begin_scan() {
  const std::lock_guard lock(mutex_);
  ++scan_;
}

bool Quarantine::holds(const RowKey& key, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(key);
  if (found == rows_.end()) return false;
  found->second.scan = scan_;
  return now < found->second.turn->first;
}

void Quarantine::end_scan(const Partitions& partitions) {
  const std::lock_guard lock(mutex_);
  for (const PartitionKey partition : partitions)
    for (auto next = rows_.lower_bound({partition, {}});
         next != rows_.end() && next->first.partition == partition;) {
      const Row& row = *next++;
      if (row.second.scan != scan_) forget(row);
    }
}

Milliseconds Quarantine::add(const RowKey& key, SteadyTime now, const pg::Error& error,
                             const std::optional<ExecutionId>& execution, Milliseconds took) {
  const std::lock_guard lock(mutex_);
  const auto [found, fresh] = rows_.try_emplace(key);
  Row& row = *found;
  Entry& entry = row.second;
  if (!fresh)
    leave(entry);
  else if (rows_.size() > kMost)
    forget(*turns_.begin()->second);  // not itself: it has no turn yet
  entry.pause = fresh || error.lacks_resources()
                    ? kFirstPause
                    : std::clamp(kRestToTry * took, std::min(entry.pause * 2, kLongestPause), kLongestPause);
  ++entry.tries;
  entry.scan = scan_;
  entry.turn = turns_.emplace(now + entry.pause, &row);
  keep_reason(row, error, execution);
  return entry.pause;
}

void Quarantine::keep_reason(Row& row, const pg::Error& error, const std::optional<ExecutionId>& execution) {
  row.second.reason =
      reasons_.insert(reasons_.end(), {&row, error.sqlstate(), printable(error.what()), execution});
  if (reasons_.size() <= kMostReasons) return;
  reasons_.front().row->second.reason = reasons_.end();
  reasons_.pop_front();
}

void Quarantine::leave(const Entry& entry) {
  turns_.erase(entry.turn);
  if (entry.reason != reasons_.end()) reasons_.erase(entry.reason);
}

void Quarantine::forget(const Row& row) {
  leave(row.second);
  rows_.erase(rows_.find(row.first));
}

void Quarantine::release(const RowKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = rows_.find(key); found != rows_.end()) forget(*found);
}

void Quarantine::forget_old(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  while (!turns_.empty() && turns_.begin()->first + kLongestPause < now) forget(*turns_.begin()->second);
}

std::vector<QuarantinedRow> Quarantine::told(SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  std::vector<const Row*> next;
  for (const Reason& reason : reasons_) next.push_back(reason.row);
  const auto most = next.begin() + static_cast<std::ptrdiff_t>(std::min(next.size(), kMostTold));
  std::partial_sort(next.begin(), most, next.end(), [](const auto& a, const auto& b) {
    return std::tie(a->second.turn->first, a->first) < std::tie(b->second.turn->first, b->first);
  });
  std::vector<QuarantinedRow> told;
  for (auto row = next.begin(); row != most; ++row) {
    const auto& [key, entry] = **row;
    told.push_back({key, nullptr, entry.reason->execution, entry.tries, entry.reason->sqlstate,
                    entry.reason->message,
                    std::max(std::chrono::ceil<Milliseconds>(entry.turn->first - now), Milliseconds{0})});
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
