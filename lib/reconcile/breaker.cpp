#include "reconcile/breaker.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

double share_of(std::int64_t part, std::int64_t whole) {
  if (part == 0) return 0;
  return std::min(1.0, static_cast<double>(part) / static_cast<double>(std::max(part, whole)));
}

std::int64_t leases_in(const LeasesOf& all) {
  std::int64_t sum = 0;
  for (const auto& [holder, leases] : all) sum += leases;
  return sum;
}

void add(LeasesOf& to, const LeasesOf& from) {
  for (const auto& [holder, leases] : from) to[holder] += leases;
}

// No tick is so slow that what it read of the clock is so old.
constexpr Milliseconds kClockStep{60'000};

}  // namespace

void Breaker::configure(const Settings& settings) {
  settings_ = settings;
  if (settings_.on) return;
  state_ = State::closed;
  held_after_ = counts_after_ = UnixMillis::min();
  taken_.clear();
  leases_taken_ = lapsed_leases_ = lapsed_holders_ = 0;
  waiting_.clear();
}

bool Breaker::advance(SteadyTime now, UnixMillis database_now) {
  if (counts_after_ > database_now + kClockStep) counts_after_ = database_now;
  if (held_after_ > database_now + kClockStep) held_after_ = UnixMillis::min();
  if (state_ != State::open || now < opened_at_ + settings_.hold) return false;
  state_ = State::draining;
  counts_after_ = std::max(counts_after_, database_now);
  taken_.clear();
  leases_taken_ = 0;
  for (auto& [who, asked_at] : waiting_) asked_at = now;
  return true;
}

std::optional<Milliseconds> Breaker::open_for(SteadyTime now) const {
  if (state_ != State::open) return std::nullopt;
  return std::max(Milliseconds{0}, std::chrono::ceil<Milliseconds>(opened_at_ + settings_.hold - now));
}

std::optional<UnixMillis> Breaker::held_after() const {
  return state_ == State::open ? std::optional(held_after_) : std::nullopt;
}

void Breaker::forget_old(SteadyTime now) {
  for (; !taken_.empty() && now - taken_.front().at > window(); taken_.pop_front())
    leases_taken_ -= leases_in(taken_.front().leases);
}

bool Breaker::could_trip(std::int64_t lapsed, SteadyTime now) {
  if (!settings_.on || state_ == State::open) return false;
  forget_old(now);
  const std::int64_t known = lapsed + leases_taken_;
  if (now < count_again_at_ && known < lapsed_leases_ + kLeastLeases) return false;
  if (lapsed > 0 && known >= kLeastLeases) return true;
  lapsed_leases_ = known;
  lapsed_holders_ = static_cast<std::int64_t>(with_taken({}, now).size());
  return false;
}

bool Breaker::is_too_much(std::int64_t leases, std::int64_t holders) const {
  const auto reaches = [&](std::int64_t part, std::int64_t least, std::int64_t whole) {
    return part >= least && static_cast<double>(part) >= settings_.share * static_cast<double>(whole);
  };
  return reaches(leases, kLeastLeases, fleet_.leases) && reaches(holders, kLeastHolders, fleet_.holders);
}

LeasesOf Breaker::with_taken(const LeasesOf& lapsed, SteadyTime now) {
  forget_old(now);
  LeasesOf all = lapsed;
  for (const Taken& before : taken_) add(all, before.leases);
  return all;
}

bool Breaker::would_trip(const LeasesOf& lapsed, SteadyTime now) {
  const LeasesOf all = with_taken(lapsed, now);
  return is_too_much(leases_in(all), static_cast<std::int64_t>(all.size()));
}

bool Breaker::judge(const LeasesOf& lapsed, SteadyTime now, SteadyTime::duration cost) {
  count_again_at_ = now + 10 * cost;
  const LeasesOf all = with_taken(lapsed, now);
  lapsed_leases_ = leases_in(all);
  lapsed_holders_ = static_cast<std::int64_t>(all.size());
  if (!settings_.on || state_ == State::open || !is_too_much(lapsed_leases_, lapsed_holders_)) return false;
  state_ = State::open;
  opened_at_ = now;
  held_after_ = counts_after_;
  waiting_.clear();
  return true;
}

void Breaker::taken(const LeasesOf& leases, SteadyTime now) {
  if (!settings_.on || leases.empty()) return;
  forget_old(now);
  leases_taken_ += leases_in(leases);
  // A second's are kept as one: a storm takes many batches.
  if (!taken_.empty() && now - taken_.back().at < Milliseconds{1000})
    add(taken_.back().leases, leases);
  else
    taken_.push_back({now, leases});
}

void Breaker::held(const Asker& who, SteadyTime now) {
  waiting_.insert_or_assign(who, now);
}

bool Breaker::close_if_drained(SteadyTime now) {
  if (state_ != State::draining) return false;
  std::erase_if(waiting_, [&](const auto& each) { return now - each.second > kAsksWithin; });
  if (!waiting_.empty()) return false;
  state_ = State::closed;
  return true;
}

void Breaker::forget(std::string_view reconciler) {
  std::erase_if(waiting_, [&](const auto& each) { return each.first.reconciler == reconciler; });
}

double Breaker::leases_lapsed_share() const {
  return share_of(lapsed_leases_, fleet_.leases);
}

double Breaker::holders_lapsed_share() const {
  return share_of(lapsed_holders_, fleet_.holders);
}

}  // namespace ff::reconcile
