#include "reconcile/batch_size.hpp"

#include <algorithm>

namespace ff::reconcile {

void BatchSize::start_over(int most) {
  most_ = static_cast<std::size_t>(most);
  now_ = most_;
}

// Passes side by side may overwrite what the other has just learned: the next transaction tells again.
void BatchSize::learn(std::size_t rows, Milliseconds took, Milliseconds acted) {
  if (took > kBudget && 2 * rows >= now_) {
    const std::size_t fitting =
        rows * static_cast<std::size_t>(kBudget.count()) / static_cast<std::size_t>(took.count());
    const std::size_t least = acted > 10 * kBudget ? 1 : std::min<std::size_t>(most_ / 8, now_);
    now_ = std::clamp(fitting, std::max<std::size_t>(1, least), most_);
  } else if (took < kBudget / 2 && rows >= now_) {
    now_ = std::min(most_, 2 * rows);
  }
}

}  // namespace ff::reconcile
