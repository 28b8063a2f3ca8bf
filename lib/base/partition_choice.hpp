#pragma once

#include <string>
#include <variant>

#include "base/partitions.hpp"

namespace ff {

/// Every partition that the database has, however many these are.
struct AllPartitions {
  bool operator==(const AllPartitions&) const = default;
};

/// The keys k with k mod `of` == `shard`: `of` daemons with the shards 0 to `of` - 1 cover each key once.
struct PartitionShard {
  int shard = 0;
  int of = 1;
  bool operator==(const PartitionShard&) const = default;
};

/// Which partitions are to be looked after, said before it is known how many there are.
using PartitionChoice = std::variant<AllPartitions, PartitionShard, Partitions>;

/// As a configuration writes it: "all", "{shard: 1, of: 4}", "0-63,128".
std::string format_choice(const PartitionChoice& choice);

/// What a choice comes to in a database.
struct Coverage {
  int count = 0;         ///< partitions that the database has: the keys 0 to count - 1
  Partitions covered;    ///< those of them that are looked after
  Partitions left_out;   ///< the others
  Partitions not_there;  ///< named, but beyond the last
  bool operator==(const Coverage&) const = default;
};
/// Throws std::invalid_argument where there are more than keys can tell apart, as all_partitions() does.
Coverage cover(const PartitionChoice& choice, int count);

/// Why a daemon cannot work so, in one line that names the partitions which are not there; empty: it can.
std::string reason_against(const Coverage& coverage);

}  // namespace ff
