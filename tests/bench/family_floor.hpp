#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pg/connect.hpp"

namespace ff::bench {

/// The final changes of a reconciler to all due rows, as plain bulk statements: no locks, no limits, no
/// second look. $1 and $2: the first and the last partition, smallint; $3 now and $4 the latest due time that
/// counts, bigint. Empty: there is no floor for the reconciler, because its statements would repeat most of
/// the reconciler's own.
const std::vector<std::string>& floor_of(std::string_view reconciler);

/// Runs them over partitions 0 to `partitions` - 1, half of them on each of two connections at once, in one
/// transaction each.
void work_floor(std::vector<pg::Connection>& two, const std::vector<std::string>& statements, int partitions,
                Milliseconds holdoff);

}  // namespace ff::bench
