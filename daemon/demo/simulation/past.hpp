#pragma once

#include <cstdint>
#include <string>

#include "demo/simulation/census.hpp"

namespace ff::simulation {

/// What those have left who used the database months ago and are gone: events that nobody will ask for any more, and the
/// admissions of a quota that nobody uses. Under a name of its own, so that it is in none of the books' other numbers.
struct Past {
  std::int64_t events = 0;  ///< of leases, signals, operators and the register of workers
  std::int64_t admissions = 0;
};

/// How long ago that was.
inline constexpr Milliseconds kPastWas = std::chrono::hours(24 * 90);

/// To be made before anybody works: ids rise with time. One statement. Throws pg::Error.
Past make_past(pg::Connection& connection, const Realm& realm);
/// What is left of it. One statement. Throws pg::Error.
Past left_of_past(pg::Connection& connection, const Realm& realm);

}  // namespace ff::simulation
