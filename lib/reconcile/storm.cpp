#include "reconcile/storm.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ff::reconcile {
namespace {

// Given back are a quarter more than are claimed, so that whoever claims never waits for it.
constexpr double kAheadOfClaims = 1.25;
constexpr double kRefill = 0.25;  // of a second

double rate_of(const StormSettings& settings, double claims) {
  if (settings.rate != StormSettings::kAuto) return static_cast<double>(settings.rate);
  return std::max(static_cast<double>(settings.floor), kAheadOfClaims * claims);
}

bool limits(const StormSettings& settings) {
  return settings.on && settings.rate != StormSettings::kNoLimit;
}

Breaker::Settings breaker_of(const StormSettings& settings) {
  Breaker::Settings its = settings.breaker;
  its.on = its.on && settings.on;
  return its;
}

}  // namespace

Storm::Storm(const StormSettings& settings, const Clock& clock)
    : clock_(clock), settings_(settings), bucket_(rate_of(settings, 0)), breaker_(breaker_of(settings)) {
  for (const std::string_view how : kStormReleases) releases_.emplace(how, 0);
}

void Storm::configure(const StormSettings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
  if (breaker_.state() == Breaker::State::open && !breaker_of(settings).on) release("switched_off");
  breaker_.configure(breaker_of(settings));
  if (!limits(settings))
    for (auto& [who, rows] : queued_) rows = 0;
  set_rate();
}

void Storm::set_rate() {
  bucket_.set_rate(rate_of(settings_, claims_), clock_.now());
}

bool Storm::is_on() const {
  const std::lock_guard lock(mutex_);
  return settings_.on;
}

bool Storm::breaks() const {
  const std::lock_guard lock(mutex_);
  return breaker_of(settings_).on;
}

std::int64_t Storm::take(std::string_view who, std::int64_t wanted) {
  const std::lock_guard lock(mutex_);
  if (!limits(settings_)) return wanted;
  const SteadyTime now = clock_.now();
  const std::int64_t taken = bucket_.take(who, wanted, now);
  const bool is_short = bucket_.is_short(now);
  if (is_short && !short_)
    spdlog::warn("storm: more is due than {:.0f} rows a second: what gives work back is held to that",
                 bucket_.rate());
  if (!is_short && short_) spdlog::info("storm: what is due is within the rate again");
  short_ = is_short;
  return taken;
}

void Storm::put_back(std::int64_t rows) {
  const std::lock_guard lock(mutex_);
  if (limits(settings_)) bucket_.put_back(rows, clock_.now());
}

Milliseconds Storm::next_refill() const {
  const std::lock_guard lock(mutex_);
  if (!limits(settings_)) return Milliseconds{0};
  return bucket_.until(std::max(1.0, bucket_.rate() * kRefill), clock_.now());
}

void Storm::queued(const Asker& who, std::int64_t rows) {
  const std::lock_guard lock(mutex_);
  // Who has waited is shown with 0 from then on, who never has is not.
  if (rows > 0 || queued_.contains(who)) queued_.insert_or_assign(who, rows);
}

void Storm::forget(std::string_view reconciler) {
  const std::lock_guard lock(mutex_);
  for (auto& [who, rows] : queued_)
    if (who.reconciler == reconciler) rows = 0;
  breaker_.forget(reconciler);
}

void Storm::learn_fleet(const Fleet& fleet) {
  const std::lock_guard lock(mutex_);
  breaker_.learn_fleet(fleet);
}

void Storm::learn_claims(double a_second) {
  const std::lock_guard lock(mutex_);
  claims_ = a_second;
  set_rate();
}

bool Storm::wants_claims() const {
  const std::lock_guard lock(mutex_);
  return limits(settings_) && settings_.rate == StormSettings::kAuto && bucket_.is_short(clock_.now());
}

Storm::Verdict Storm::verdict(UnixMillis database_now) {
  const std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.now();
  if (breaker_.advance(now, database_now)) release("hold_over");
  // Whoever was held may have been paused or switched off meanwhile.
  close_if_drained();
  return {breaker_.held_after(), breaker_.open_for(now).value_or(Milliseconds{0})};
}

// Under mutex_.
void Storm::release(std::string_view how) {
  ++releases_[std::string(how)];
  held_ = 0;
  spdlog::info("storm: the breaker is {}: leases that have lapsed are taken again",
               how == "hold_over" ? "draining" : "switched off");
}

std::optional<UnixMillis> Storm::to_be_counted(std::int64_t lapsed) {
  const std::lock_guard lock(mutex_);
  return breaker_.could_trip(lapsed, clock_.now()) ? std::optional(breaker_.counts_after()) : std::nullopt;
}

bool Storm::would_trip(const LeasesOf& lapsed) {
  const std::lock_guard lock(mutex_);
  return breaker_.would_trip(lapsed, clock_.now());
}

void Storm::judge(const LeasesOf& lapsed, SteadyTime::duration cost) {
  const std::lock_guard lock(mutex_);
  if (!breaker_.judge(lapsed, clock_.now(), cost)) return;
  ++trips_;
  held_ = 0;
  for (const auto& [holder, leases] : lapsed) held_ += leases;
  spdlog::warn(
      "storm: the breaker is open, no lease is taken for {} s: at least {} of {} leases of {} of {} "
      "instances have "
      "lapsed, as if the network had died and not the workers",
      breaker_.open_for(clock_.now()).value_or(Milliseconds{0}).count() / 1000, breaker_.leases_lapsed(),
      breaker_.fleet().leases, breaker_.holders_lapsed(), breaker_.fleet().holders);
}

void Storm::taken(const LeasesOf& leases) {
  const std::lock_guard lock(mutex_);
  breaker_.taken(leases, clock_.now());
}

UnixMillis Storm::counts_after() const {
  const std::lock_guard lock(mutex_);
  return breaker_.counts_after();
}

void Storm::held(const Asker& who) {
  const std::lock_guard lock(mutex_);
  if (breaker_.state() != Breaker::State::closed) breaker_.held(who, clock_.now());
}

void Storm::drained(const Asker& who) {
  const std::lock_guard lock(mutex_);
  if (breaker_.state() != Breaker::State::draining) return;
  breaker_.drained(who);
  close_if_drained();
}

// Under mutex_.
void Storm::close_if_drained() {
  if (breaker_.close_if_drained(clock_.now()))
    spdlog::info("storm: the breaker is closed: all leases that it held are taken or renewed");
}

StormView Storm::view() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::int64_t, std::less<>> queued;
  for (const auto& [who, rows] : queued_) queued[who.reconciler] += rows;
  return {.on = settings_.on,
          .breaks = breaker_of(settings_).on,
          .state = breaker_.state(),
          .open_for = breaker_.open_for(clock_.now()),
          .rate = limits(settings_) ? bucket_.rate() : 0,
          .queued = std::move(queued),
          .held = breaker_.state() == Breaker::State::open ? held_ : 0,
          .leases = breaker_.fleet().leases,
          .leases_lapsed_share = breaker_.leases_lapsed_share(),
          .holders_lapsed_share = breaker_.holders_lapsed_share(),
          .trips = trips_,
          .releases = releases_};
}

}  // namespace ff::reconcile
