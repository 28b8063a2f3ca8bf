#include "reconcile/family/liveness.hpp"

#include <algorithm>

namespace ff::reconcile::liveness {
namespace {

// A sign was given at most so long before it was seen: an interval, and what a scan takes. Where scans are further apart,
// nobody knows, and the worker gets the time.
constexpr std::int64_t kSeenWithinMs = 1'200;
// No moment is beyond: sums of two cannot fail.
constexpr std::int64_t kEndOfTime = std::int64_t{1} << 61;

std::int64_t bounded(std::int64_t value) {
  return std::clamp(value, -kEndOfTime, kEndOfTime);
}

std::int64_t after(std::int64_t moment, std::int64_t ttl_ms) {
  return bounded(moment) + std::clamp(ttl_ms, std::int64_t{0}, kEndOfTime);
}

/// From when on a version that is as it was seen says nothing any more.
std::int64_t stood_for(std::int64_t ttl_ms, std::uint32_t xmin, const Sightings& sightings) {
  const auto [not_before, seen] = sightings.written(xmin);
  const std::int64_t most = std::min(kSeenWithinMs, std::max<std::int64_t>(ttl_ms, 0) / 2);
  return after(std::max(count(not_before), count(seen) - most), ttl_ms);
}

}  // namespace

std::optional<std::int64_t> silent_from(const Registration& registration, const LastEvents& events,
                                        const std::optional<Leases>& leases, const Sightings* sightings) {
  const std::int64_t ttl = registration.ttl_ms;
  std::int64_t from = after(registration.heartbeat.at_ms, ttl);
  if (events.life) from = std::max(from, after(events.life->at_ms, ttl));
  if (leases && leases->started_at_ms) from = std::max(from, after(*leases->started_at_ms, ttl));
  if (sightings == nullptr) return from;
  from = std::max(from, stood_for(ttl, registration.heartbeat.xmin, *sightings));
  if (events.life) from = std::max(from, stood_for(ttl, events.life->xmin, *sightings));
  if (leases) from = std::max(from, stood_for(ttl, leases->youngest, *sightings));
  return from;
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
  if (events.life) from = std::max(from, stood_for(ttl_ms, events.life->xmin, *sightings));
  if (leases) from = std::max(from, stood_for(ttl_ms, leases->youngest, *sightings));
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
