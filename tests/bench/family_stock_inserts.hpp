#pragma once

#include <string>
#include <string_view>

namespace ff::bench {

/// One INSERT … SELECT of everything in a reconciler's stock. $1: rows, $2: partitions. The rows are dealt out
/// in turns, each partition gets the same mixture, and the same $1 and $2 always make the same rows but for
/// event_id. Whatever falls due has done so since the seventies, so that a time that somebody wrote is told
/// from one that was there. Throws std::out_of_range when there is none for the reconciler.
const std::string& stock_insert(std::string_view reconciler);

}  // namespace ff::bench
