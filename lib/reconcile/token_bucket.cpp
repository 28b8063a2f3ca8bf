#include "reconcile/token_bucket.hpp"

#include <algorithm>
#include <cmath>

namespace ff::reconcile {

double TokenBucket::at(SteadyTime now) const {
  const std::chrono::duration<double> passed = std::max(now - filled_at_, SteadyTime::duration::zero());
  return std::min(depth(), tokens_ + rate_ * passed.count());
}

void TokenBucket::fill(SteadyTime now) {
  tokens_ = at(now);
  filled_at_ = std::max(filled_at_, now);
}

void TokenBucket::set_rate(double tokens_a_second, SteadyTime now) {
  fill(now);
  rate_ = tokens_a_second;
  tokens_ = std::min(tokens_, depth());
}

// Rounded up for each of several who go short: where there is one token, one of them has it.
std::int64_t TokenBucket::take(std::string_view who, std::int64_t wanted, SteadyTime now) {
  fill(now);
  std::erase_if(short_since_, [&](const auto& each) { return now - each.second > kStillWants; });
  const auto others =
      std::ranges::count_if(short_since_, [&](const auto& each) { return each.first != who; });
  const double whole = std::floor(tokens_);
  const auto share = static_cast<std::int64_t>(std::ceil(whole / static_cast<double>(others + 1)));
  const std::int64_t taken = std::min(wanted, share);
  tokens_ -= static_cast<double>(taken);
  if (taken < wanted)
    short_since_.insert_or_assign(std::string(who), now);
  else if (const auto was_short = short_since_.find(who); was_short != short_since_.end())
    short_since_.erase(was_short);
  return taken;
}

void TokenBucket::put_back(std::int64_t tokens, SteadyTime now) {
  fill(now);
  tokens_ = std::min(depth(), tokens_ + static_cast<double>(tokens));
}

Milliseconds TokenBucket::until(double tokens, SteadyTime now) const {
  const double lacking = std::min(tokens, depth()) - at(now);
  if (lacking <= 0) return Milliseconds{0};
  return std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(lacking / rate_));
}

bool TokenBucket::is_short(SteadyTime now) const {
  return std::ranges::any_of(short_since_,
                             [&](const auto& each) { return now - each.second <= kStillWants; });
}

}  // namespace ff::reconcile
