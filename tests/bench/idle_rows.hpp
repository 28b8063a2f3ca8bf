#pragma once

#include "bench/lease_rows.hpp"

namespace ff::bench {

/// Fills the tables with about `count` rows, of which nothing falls due for a day: executions at work and far
/// from their deadline, delayed ones, suspended ones with waitpoints, budgets, workers that are alive, and
/// completion events that have been dispatched. All over partitions 0 to 255. Returns how many rows it were.
std::int64_t add_idle_rows(pg::Connection& connection, int count);

/// Those that are filled.
const Tables& idle_tables();

}  // namespace ff::bench
