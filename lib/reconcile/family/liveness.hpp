#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reconcile/sightings.hpp"

/// Who of those that have registered is dead, by the signs of life that they have left.
namespace ff::reconcile::liveness {

/// A worker as it has registered.
struct Name {
  std::string instance;
  std::string name_space;
  friend auto operator<=>(const Name&, const Name&) = default;
};

/// A moment by a worker's clock, and the transaction that wrote it (see Sightings).
struct Sign {
  std::int64_t at_ms = 0;
  std::uint32_t xmin = 0;
};

/// Its row in the register.
struct Registration {
  Sign heartbeat;
  std::int64_t ttl_ms = 0;
};

/// What the register's events say of it last.
struct LastEvents {
  std::optional<Sign> death;  ///< it was marked dead or swept, and nothing was told of it since
  bool marked = false;        ///< the former: somebody knew
  std::optional<Sign> life;   ///< it registered or sent a heartbeat
};

/// Of all its leases.
struct Leases {
  std::optional<std::int64_t> started_at_ms;  ///< the newest claim, by its clock
  std::uint32_t youngest = 0;                 ///< xmin of the one that moved last
  std::optional<std::int64_t>
      youngest_claimed_at_ms;  ///< when that one was claimed, if that is what moved it
};

/// So long the worker lives whose row is not there and was never seen.
constexpr std::int64_t kUnknownTtlMs = 30'000;

/// Since when it is dead, or from when on it will be if it gives no sign of life until then; nothing: never. Without
/// sightings it is taken at its word. With them a sign counts from when it says that it was given, where it can have been
/// given then, else from when it was first seen: so none counts for less than a worker's time to live, but for what a clock is
/// behind, if that is less than a second.
std::optional<std::int64_t> silent_from(const Registration& registration, const LastEvents& events,
                                        const std::optional<Leases>& leases, const Sightings* sightings);

/// The same of one whose row is gone. Who is marked is believed at once, whatever clock has dated the mark.
std::optional<std::int64_t> gone_from(std::int64_t ttl_ms, const LastEvents& events,
                                      const std::optional<Leases>& leases, const Sightings* sightings,
                                      std::int64_t now_ms);

/// The partition of the register that an instance is in.
std::int16_t register_partition(const std::string& instance);

}  // namespace ff::reconcile::liveness
