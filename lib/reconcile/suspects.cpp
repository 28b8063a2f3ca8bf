#include "reconcile/suspects.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

// Each is a round trip for nothing where the error is everybody's, and the next tick tries again.
constexpr std::size_t kMostAlike = 100;

}  // namespace

void Suspects::start_over() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
  another_went_well_ = false;
}

void Suspects::another_went_well() {
  const std::lock_guard lock(mutex_);
  another_went_well_ = true;
}

bool Suspects::add(const Fault& row) {
  const std::lock_guard lock(mutex_);
  rows_.push_back(row);
  return rows_.size() < kMostAlike || !all_alike();
}

std::optional<pg::Error> Suspects::error_of_all() const {
  const std::lock_guard lock(mutex_);
  return all_alike() ? std::optional(rows_.front().error) : std::nullopt;
}

std::vector<Fault> Suspects::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

// With mutex_ held.
bool Suspects::all_alike() const {
  return !rows_.empty() && !another_went_well_ && std::ranges::all_of(rows_, [&](const Fault& row) {
    return row.error.sqlstate() == rows_.front().error.sqlstate();
  });
}

}  // namespace ff::reconcile
