#include "reconcile/fair_queue.hpp"

#include <algorithm>

namespace ff::reconcile {

void FairQueue::add(std::vector<Candidate> rows) {
  for (Candidate& row : rows) {
    if (keys_.contains(row.key)) continue;
    const auto its = by_namespace_.find(row.name_space);
    if (size() >= kMost || (its != by_namespace_.end() && its->second.size() >= kMostOfOne)) {
      ++left_out_;
      continue;
    }
    keys_.insert(row.key);
    by_namespace_[row.name_space].emplace(row.due_at, std::move(row));
  }
}

std::vector<Candidate> FairQueue::pop(std::size_t most) {
  std::vector<Candidate> taken;
  while (taken.size() < most && !by_namespace_.empty()) {
    auto turn = by_namespace_.upper_bound(last_);
    if (turn == by_namespace_.end()) turn = by_namespace_.begin();
    last_ = turn->first;
    const auto oldest = turn->second.begin();
    keys_.erase(oldest->second.key);
    taken.push_back(std::move(oldest->second));
    turn->second.erase(oldest);
    if (turn->second.empty()) by_namespace_.erase(turn);
  }
  return taken;
}

std::optional<UnixMillis> FairQueue::oldest() const {
  std::optional<UnixMillis> found;
  for (const auto& [name_space, rows] : by_namespace_)
    if (!found || rows.begin()->first < *found) found = rows.begin()->first;
  return found;
}

void FairQueue::clear() {
  by_namespace_.clear();
  keys_.clear();
  left_out_ = 0;
}

}  // namespace ff::reconcile
