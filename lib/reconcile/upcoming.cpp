#include "reconcile/upcoming.hpp"

#include <algorithm>

namespace ff::reconcile {

void Upcoming::replace(std::vector<Candidate> rows, UnixMillis complete_until) {
  rows_ = std::move(rows);
  complete_until_ = complete_until;
  std::sort(rows_.begin(), rows_.end(),
            [](const Candidate& a, const Candidate& b) { return a.due_at > b.due_at; });
}

std::vector<Candidate> Upcoming::take(UnixMillis due) {
  std::vector<Candidate> taken;
  for (; !rows_.empty() && rows_.back().due_at <= due; rows_.pop_back())
    taken.push_back(std::move(rows_.back()));
  return taken;
}

std::optional<UnixMillis> Upcoming::next() const {
  return rows_.empty() ? std::nullopt : std::optional(rows_.back().due_at);
}

}  // namespace ff::reconcile
