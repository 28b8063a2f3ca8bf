#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"

namespace ff {

/// Partition keys, ascending, without repeats.
using Partitions = std::vector<PartitionKey>;

/// Every key from `first` to `last`, both included.
Partitions partition_range(PartitionKey first, PartitionKey last);

/// The keys 0 to `count` - 1; none where there are fewer than one. Throws std::invalid_argument where these are more than a
/// key can tell apart, 32768.
Partitions all_partitions(int count);

/// Reads "0-63,128" (white space around the commas is allowed). Throws std::invalid_argument that names the
/// part at fault: not a number, a key over 32767, a range that runs backwards, or keys that are named twice.
Partitions parse_partitions(std::string_view text);

/// The keys k of `all` with k mod `of` == `shard`: `of` daemons with the shards 0 to `of` - 1 cover each key
/// once.
Partitions shard_of(const Partitions& all, int shard, int of);

/// The form that parse_partitions reads back, runs joined: "0-63,128".
std::string format_partitions(const Partitions& partitions);

}  // namespace ff
