#include "reconcile/batch_size.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

// Below this the round trips weigh more than the rows.
constexpr std::size_t kLeast = 16;

}  // namespace

void BatchSize::start_over(int most) {
  most_ = static_cast<std::size_t>(most);
  now_ = most_;
}

// Passes side by side may overwrite what the other has just learned: the next transaction tells again.
void BatchSize::learn(std::size_t rows, Milliseconds took) {
  if (took > kBudget) {
    const std::size_t fitting =
        rows * static_cast<std::size_t>(kBudget.count()) / static_cast<std::size_t>(took.count());
    now_ = std::clamp(fitting, std::min(kLeast, most_), most_);
  } else if (took < kBudget / 2 && rows >= now_) {
    now_ = std::min(most_, 2 * rows);
  }
}

}  // namespace ff::reconcile
