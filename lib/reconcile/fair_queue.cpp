#include "reconcile/fair_queue.hpp"

#include <iterator>

namespace ff::reconcile {

void FairQueue::add(std::vector<Candidate> rows) {
  for (Candidate& row : rows) {
    if (keys_.contains(row.key)) continue;
    insert(std::move(row));
    if (size() <= kMost) continue;
    const auto largest = by_namespace_.find(by_size_.rbegin()->second);
    remove(largest, std::prev(largest->second.end()));
    ++left_out_;
  }
}

std::vector<Candidate> FairQueue::pop(std::size_t most) {
  std::vector<Candidate> taken;
  while (taken.size() < most && !by_namespace_.empty()) {
    auto turn = by_namespace_.upper_bound(last_);
    if (turn == by_namespace_.end()) turn = by_namespace_.begin();
    last_ = turn->first;
    taken.push_back(remove(turn, turn->second.begin()));
  }
  return taken;
}

void FairQueue::insert(Candidate row) {
  keys_.insert(row.key);
  const auto its = by_namespace_.try_emplace(row.name_space).first;
  by_size_.erase({its->second.size(), its->first});
  its->second.emplace(row.due_at, std::move(row));
  by_size_.emplace(its->second.size(), its->first);
}

Candidate FairQueue::remove(ByNamespace::iterator its, Place place) {
  by_size_.erase({its->second.size(), its->first});
  Candidate row = std::move(place->second);
  keys_.erase(row.key);
  its->second.erase(place);
  if (its->second.empty())
    by_namespace_.erase(its);
  else
    by_size_.emplace(its->second.size(), its->first);
  return row;
}

std::optional<UnixMillis> FairQueue::oldest() const {
  std::optional<UnixMillis> found;
  for (const auto& [name_space, rows] : by_namespace_)
    if (!found || rows.begin()->first < *found) found = rows.begin()->first;
  return found;
}

void FairQueue::clear() {
  by_size_.clear();
  by_namespace_.clear();
  keys_.clear();
  left_out_ = 0;
}

}  // namespace ff::reconcile
