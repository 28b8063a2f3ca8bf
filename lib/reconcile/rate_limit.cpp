#include "reconcile/rate_limit.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

constexpr Milliseconds kMostAhead{1000};

}  // namespace

void RateLimit::set_rate(std::int64_t rows_a_second) {
  const std::lock_guard lock(mutex_);
  rate_ = rows_a_second;
}

void RateLimit::did(std::int64_t rows, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0) return;
  const std::chrono::duration<double> cost(static_cast<double>(rows) / static_cast<double>(rate_));
  paid_until_ = std::max(paid_until_, now) + std::chrono::duration_cast<SteadyTime::duration>(cost);
}

bool RateLimit::is_spent(SteadyTime now) const {
  return rest(now) >= kMostAhead;
}

Milliseconds RateLimit::rest(SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0 || paid_until_ <= now) return Milliseconds{0};
  return std::chrono::ceil<Milliseconds>(paid_until_ - now);
}

}  // namespace ff::reconcile
