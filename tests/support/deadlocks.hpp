#pragma once

#include <cstdint>

#include "pg/connection.hpp"

namespace ff::test {

/// How many deadlocks the server has broken in this connection's database. Sessions tell of theirs when they
/// end: it waits until this connection is the only one left, and throws std::runtime_error when others stay
/// for half a minute.
std::int64_t deadlocks(pg::Connection& connection);

}  // namespace ff::test
