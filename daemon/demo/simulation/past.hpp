#pragma once

#include <cstdint>
#include <string>

#include "demo/simulation/census.hpp"

namespace ff::simulation {

/// How old events get: no demo lasts as long, and the books ask for all of its own.
inline constexpr Milliseconds kEventsKeptFor = std::chrono::hours(24 * 30);

/// What those have left who used the database a little longer ago than that and are gone: events, and the admissions of a
/// quota that nobody has used since. Under a name of its own, so that it is in none of the books' other numbers.
struct Past {
  std::int64_t events = 0;  ///< of leases, signals, operators and the register of workers
  std::int64_t admissions = 0;
};

/// To be made before anybody works: ids rise with time. One statement. Throws pg::Error.
Past make_past(pg::Connection& connection, const Realm& realm);
/// What is left of it. One statement. Throws pg::Error.
Past left_of_past(pg::Connection& connection, const Realm& realm);

}  // namespace ff::simulation
