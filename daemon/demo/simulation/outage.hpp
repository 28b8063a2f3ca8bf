#pragma once

#include "pg/error.hpp"

namespace ff::simulation {

/// The server is away, takes no writes, has no room, or did not answer in time: later the same may succeed.
bool is_an_outage(const pg::Error& error);

}  // namespace ff::simulation
