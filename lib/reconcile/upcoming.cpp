#include "reconcile/upcoming.hpp"

#include <algorithm>
#include <iterator>

namespace ff::reconcile {

void Upcoming::replace(std::vector<Candidate> rows, UnixMillis complete_until) {
  rows_ = std::move(rows);
  complete_until_ = complete_until;
  std::sort(rows_.begin(), rows_.end(),
            [](const Candidate& a, const Candidate& b) { return a.due_at > b.due_at; });
}

void Upcoming::add(std::vector<Candidate> rows) {
  if (rows.empty()) return;
  std::ranges::move(rows_, std::back_inserter(rows));
  // Stable: of two of one key, the new one comes first.
  std::ranges::stable_sort(rows, {}, &Candidate::key);
  const auto is_repeated = [](const Candidate& a, const Candidate& b) { return a.key == b.key; };
  rows.erase(std::unique(rows.begin(), rows.end(), is_repeated), rows.end());
  replace(std::move(rows), complete_until_);
  if (rows_.size() <= kMost) return;
  rows_.erase(rows_.begin(), rows_.end() - kMost);
  complete_until_ = std::min(complete_until_, rows_.front().due_at);
}

std::vector<Candidate> Upcoming::pop(UnixMillis due) {
  std::vector<Candidate> taken;
  for (; !rows_.empty() && rows_.back().due_at <= due; rows_.pop_back())
    taken.push_back(std::move(rows_.back()));
  return taken;
}

std::optional<UnixMillis> Upcoming::next() const {
  return rows_.empty() ? std::nullopt : std::optional(rows_.back().due_at);
}

}  // namespace ff::reconcile
