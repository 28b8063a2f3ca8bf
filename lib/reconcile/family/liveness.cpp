#include "reconcile/family/liveness.hpp"

#include <algorithm>

namespace ff::reconcile::liveness {
namespace {

// A sign is dated before it is committed, by a clock that need not be quite the database's.
constexpr std::int64_t kTolerance = 100;
// Looks are a second apart. Between two that are further apart a sign of a clock that is behind would pass for one of its
// date.
constexpr std::int64_t kMostApart = 2'000;
// No moment is beyond: sums of two cannot fail.
constexpr std::int64_t kEndOfTime = std::int64_t{1} << 61;

std::int64_t bounded(std::int64_t value) {
  return std::clamp(value, -kEndOfTime, kEndOfTime);
}

std::int64_t after(std::int64_t moment, std::int64_t ttl_ms) {
  return bounded(moment) + std::clamp(ttl_ms, std::int64_t{0}, kEndOfTime);
}

/// From when on a sign counts: its own date, where it was given between two looks at the register and the date says so,
/// else when it was first seen. Without sightings, its date.
std::int64_t counts_from(std::optional<std::int64_t> dated, std::uint32_t xmin, const Sightings* sightings) {
  const std::int64_t date = bounded(dated.value_or(-kEndOfTime));
  if (sightings == nullptr) return date;
  const auto [before, seen] = sightings->written(xmin);
  const bool credible = date >= count(before) - kTolerance && count(seen) - count(before) <= kMostApart;
  return std::max(date, credible ? count(before) : count(seen));
}

std::int64_t counts_from(const Sign& sign, const Sightings* sightings) {
  return counts_from(sign.at_ms, sign.xmin, sightings);
}

/// Of the one that moved last.
std::int64_t counts_from(const Leases& leases, const Sightings* sightings) {
  return counts_from(leases.youngest_claimed_at_ms, leases.youngest, sightings);
}

}  // namespace

std::optional<std::int64_t> silent_from(const Registration& registration, const LastEvents& events,
                                        const std::optional<Leases>& leases, const Sightings* sightings) {
  std::int64_t last = counts_from(registration.heartbeat, sightings);
  if (events.life) last = std::max(last, counts_from(*events.life, sightings));
  if (leases) last = std::max({last, counts_from(*leases, sightings), leases->started_at_ms.value_or(last)});
  return after(last, registration.ttl_ms);
}

// What is younger than its death contradicts it, for as long as it stands.
std::optional<std::int64_t> gone_from(std::int64_t ttl_ms, const LastEvents& events,
                                      const std::optional<Leases>& leases, const Sightings* sightings,
                                      std::int64_t now_ms) {
  if (!events.death) return std::nullopt;
  if (leases && (is_younger(leases->youngest, events.death->xmin) ||
                 leases->started_at_ms.value_or(events.death->at_ms) > events.death->at_ms))
    return std::nullopt;
  std::int64_t from = std::min(bounded(events.death->at_ms), now_ms - 1);
  if (sightings == nullptr || events.marked) return from;
  if (events.life) from = std::max(from, after(counts_from(*events.life, sightings), ttl_ms));
  if (leases) from = std::max(from, after(counts_from(*leases, sightings), ttl_ms));
  return from;
}

// FNV-1a of 64 bits.
std::int16_t register_partition(const std::string& instance) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char byte : instance) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 1099511628211U;
  }
  return static_cast<std::int16_t>(hash % 256);
}

}  // namespace ff::reconcile::liveness
